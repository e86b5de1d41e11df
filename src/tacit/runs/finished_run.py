"""A finished run, read from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from torch import nn

from tacit.errors import TacitError
from tacit.privacy import Privacy
from tacit.runs import storage
from tacit.runs.evaluated_run import EvaluatedRun
from tacit.runs.metrics import Utility
from tacit.runs.observer import Row
from tacit.runs.prediction import TrainedModel, trained_in_folder
from tacit.runs.run_summary import RunSummary
from tacit.runs.storage import CONFIG_FILE, HISTORY_FILE, RESULT_FILE, TRACE_FILE
from tacit.runs.verification import Verification, verify
from tacit.tasks import FeatureName, Model


@dataclass(frozen=True, kw_only=True, repr=False)
class FinishedRun(EvaluatedRun):
    """What a run folder contains after the run has ended.

    Attributes:
        result: The content of result.json.
        privacy: The privacy of the run, from result.json.
        verification: The verification of the folder; None right after the run, by the process that has run it.
        evaluations: The rows of history.csv, one per evaluation.
        given: The module of a run whose model is not part of Tacit; see `load`.
        features: Features of the run that are not part of Tacit; see `load`.
        trace: One row per round of what the algorithm traces; most algorithms trace nothing.
    """

    folder: Path
    config: dict[str, Any]
    result: dict[str, Any]
    privacy: Privacy
    evaluations: list[Row]
    trace: list[Row]
    verification: Verification | None = None
    given: nn.Module | Model | str | None = None
    features: Sequence[FeatureName] | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the run in `folder`, and verify it.

        Raises:
            TacitError: The folder contains no run, the run has not ended, or it does not agree with its ledger.
        """
        return replace(cls.read_unverified(folder), verification=verify(folder).require())

    @classmethod
    def read_unverified(cls, folder: Path) -> Self:
        """Read a run that this process has just ended, without verification.

        Raises:
            TacitError: The folder contains no run, the run has not ended, or a file cannot be read.
        """
        storage.refuse_learned_graphs(folder)
        if not (folder / CONFIG_FILE).is_file() or not (folder / HISTORY_FILE).is_file():
            raise TacitError(f"{folder} is not a run folder: it needs {CONFIG_FILE} and {HISTORY_FILE}")
        require_files(folder, RESULT_FILE)
        result = storage.read_table(folder / RESULT_FILE)
        try:
            rounds = result["rounds"]  # the history of a run that was resumed and then killed goes on after its result
            return cls(
                folder=folder,
                config=storage.read_table(folder / CONFIG_FILE),
                result=result,
                privacy=Privacy(**result["privacy"]),
                evaluations=[row for row in storage.read_history(folder / HISTORY_FILE) if row["round"] <= rounds],
                trace=[row for row in _read_trace(folder / TRACE_FILE) if row["round"] <= rounds],
                **cls.read_more(folder, result),
            )
        except (KeyError, TypeError) as error:
            raise TacitError(f"{folder} was written by another version of Tacit: unexpected {error}") from None

    @classmethod
    def read_more(cls, folder: Path, result: dict[str, Any]) -> dict[str, Any]:
        """The fields that a subclass adds."""
        return {}

    @property
    def utility(self) -> Utility:
        """All metrics of the model on the test records, beside those of the trivial predictor."""
        return Utility.from_dict(self.result, self.evaluations[-1] if self.evaluations else ())

    def trained(self, node: int | None = None) -> TrainedModel:
        return trained_in_folder(self.folder, node, self.given, self.features)

    def summary(self) -> RunSummary:
        result = self.result
        return RunSummary(
            title=result["algorithm"],
            nodes=result["nodes"],
            rounds=result["rounds"],
            history=self.evaluations,
            trivial=result.get("trivial") or {},
            privacy=self.privacy,
            stopped=result.get("stopped"),
            folder=str(self.folder),
        )

    @property
    def is_site(self) -> bool:
        """Whether the run is that of one site: all numbers are those of its own node."""
        return self.result.get("site") is not None


def load(
    folder: str | Path,
    *,
    verify: bool = True,
    model: nn.Module | Model | str | None = None,
    features: Sequence[FeatureName] | None = None,
) -> FinishedRun:
    """Load a finished run from its folder, or a site's from its state folder.

    The run is verified first. No code is executed that the folder contains or names.

    Args:
        folder: The folder of the run.
        verify: Whether to verify the run; `tacit.verify` describes what that means.
        model: The module of a run whose model is not part of Tacit: a torch module of the same structure, a
            `tacit.Model` of it if the run was trained with `forward`, or the file and name of a class or function that
            creates it ("mine.py:Net"). This file is executed.
        features: Features of the run that are not part of Tacit: functions, modules, or their files and names
            ("mine.py:function"), which are executed. Other code or weights than those of the run are refused.

    Returns:
        The run: `config`, `history`, `utility`, `privacy`, `result`, `verification`, `model()`, `predict()`,
        `predict_proba()`.

    Raises:
        TacitError: The folder contains no finished run, or the run does not agree with its ledger.
    """
    read = FinishedRun.read if verify else FinishedRun.read_unverified
    return replace(read(Path(folder)), given=model, features=features)


def has_ended(folder: Path) -> bool:
    """Whether `folder` contains the result of a run."""
    return (folder / RESULT_FILE).is_file()


def require_files(folder: Path, *names: str) -> None:
    """Raise TacitError if a file is missing that a run writes at its end."""
    for name in names:
        if not (folder / name).is_file():
            raise TacitError(
                f"The run in {folder} has not ended: {name} is missing. Resume it: tacit train --resume {folder}"
            )


def _read_trace(path: Path) -> list[Row]:
    return storage.read_history(path) if path.is_file() else []
