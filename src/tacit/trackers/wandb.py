"""Logs runs to Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from tacit.errors import unknown
from tacit.runs import Run
from tacit.trackers.base import Tracker, missing_library, trackers

Mode = Literal["offline", "online"]


@trackers.register("wandb")
class WeightsAndBiases(Tracker):
    """Logs to a local folder, or with `mode="online"` to the server of Weights & Biases.

    Args:
        project: The name of the project.
        mode: "offline" writes to a local folder, and `wandb sync` uploads it later; "online" uploads at once.
        folder: The folder of offline logs; None: the folder of the run, or the current one.
    """

    def __init__(self, project: str = "tacit", mode: Mode = "offline", folder: str | Path | None = None) -> None:
        if mode not in get_args(Mode):
            raise unknown("mode of WeightsAndBiases", mode, get_args(Mode))
        try:
            import wandb
        except ImportError:
            raise missing_library("wandb") from None
        self._wandb, self._project, self._mode, self._folder = wandb, project, mode, folder

    def open(self, run: Run, settings: dict[str, str]) -> None:
        self._log = self._wandb.init(
            project=self._project,
            name=run.config.get("name"),
            mode=self._mode,
            dir=str(self._folder or run.out or Path()),
            config=settings,
            settings=self._wandb.Settings(silent=True, console="off", x_disable_stats=True, save_code=False),
        )

    def log(self, step: int, numbers: dict[str, float]) -> None:
        self._log.log(numbers, step=step)

    def close(self, summary: dict[str, Any]) -> None:
        self._log.summary.update(summary)
        self._log.finish(exit_code=1 if summary["stopped"] else 0)
