"""What all trackers share: which numbers of a run they log, and when."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tacit.errors import TacitError
from tacit.registry import Registry
from tacit.runs import Observer, Row, Run, flat_settings

trackers: Registry[Tracker] = Registry("tracker")


class Tracker(Observer):
    """An observer that logs a run to an experiment tracker: its settings, every evaluation, and its privacy.

    Privacy:
        A tracker gets what the run's folder contains: settings, metrics on test records and ε. The metrics carry no
        noise of their own, so log to a server only what you would publish. No record and no model is logged.
    """

    @abstractmethod
    def open(self, run: Run, settings: dict[str, str]) -> None:
        """Start logging a run with these settings."""

    @abstractmethod
    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Log the numbers of one evaluation after `step` rounds."""

    @abstractmethod
    def close(self, summary: dict[str, Any]) -> None:
        """End the log with what the run has reached."""

    def on_start(self, run: Run) -> None:
        self.open(run, {**flat_settings(run.config), "algorithm": run.algorithm.title})

    def on_evaluation(self, run: Run, row: Row) -> None:
        self.log(row["round"], {key: float(value) for key, value in row.items() if value is not None})

    def on_finish(self, run: Run) -> None:
        privacy = run.privacy
        self.close(
            {
                "guaranteed_epsilon": privacy.guaranteed,
                "claimed_epsilon": privacy.claimed,
                "delta": privacy.delta,
                "simulated": privacy.simulated,
                "stopped": run.stopped,
            }
        )


def missing_library(name: str) -> TacitError:
    """Return the error for a tracker whose library is not installed."""
    return TacitError(f'{name} is not installed: pip install "tacit[trackers]"')
