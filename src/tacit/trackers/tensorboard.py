"""Logs runs for TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.runs import Run
from tacit.trackers.base import Tracker, missing_library, trackers


@trackers.register("tensorboard")
class TensorBoard(Tracker):
    """Writes event files that `tensorboard --logdir FOLDER` shows.

    Args:
        folder: The folder of the event files; None: `tensorboard` in the folder of the run, or `runs/tensorboard`.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise missing_library("TensorBoard") from None
        self._folder, self._writer_type = folder, SummaryWriter

    def open(self, run: Run, settings: dict[str, str]) -> None:
        folder = self._folder or (run.out or Path("runs")) / "tensorboard"
        self._writer = self._writer_type(str(folder), purge_step=run.t or None)
        table = "\n".join(["| setting | value |", "|---|---|", *(f"| {k} | {v} |" for k, v in settings.items())])
        self._writer.add_text("settings", table, run.t)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self, summary: dict[str, Any]) -> None:
        self._writer.add_text("privacy", "\n".join(f"- {key}: {value}" for key, value in summary.items()))
        self._writer.close()
