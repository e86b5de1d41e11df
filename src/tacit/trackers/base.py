"""What all trackers share: which numbers of a run they log, and when."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tacit.errors import TacitError
from tacit.registry import Registry
from tacit.runs import TESTED_NOTE, Observer, Row, Run, flat_settings
from tacit.runs.metrics import metric, metrics

trackers: Registry[Tracker] = Registry("tracker")


class Tracker(Observer):
    """An observer that logs a run to an experiment tracker: its settings, every evaluation, and its privacy.

    Privacy:
        A tracker gets settings, metrics on test records and ε, as in history.csv, but no record and no model. Metrics
        have no noise of their own. `not_covered` in the log names those that the guarantee does not cover, because
        they are computed from training records or from models that it does not cover. Do not publish those.
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
        about = {"algorithm": run.algorithm.title, "simulated": str(run.task.noise.simulated)}
        self.open(run, {**flat_settings(run.config), **about})

    def on_evaluation(self, run: Run, row: Row) -> None:
        spent = "guaranteed_epsilon_simulated" if run.task.noise.simulated else "guaranteed_epsilon"
        names = {"guaranteed": spent, "claimed": "claimed_epsilon"}
        self.log(row["round"], {names.get(key, key): float(value) for key, value in row.items() if value is not None})

    def on_finish(self, run: Run) -> None:
        privacy, measured = run.privacy, [metric(key) for row in run.evaluations[:1] for key in row if key in metrics]
        open_metrics = [each.name for each in measured if not each.is_covered(bool(privacy.covers_models))]
        epsilon = {"guaranteed_epsilon": privacy.guaranteed, "claimed_epsilon": privacy.claimed, "delta": privacy.delta}
        tested = [TESTED_NOTE] if TESTED_NOTE in (privacy.note or "") else []
        not_covered = "all" if privacy.guaranteed is None else ", ".join([*open_metrics, *tested]) or "none"
        words = {"privacy": privacy.sentence(), "not_covered": not_covered}
        self.close({**epsilon, "simulated": privacy.simulated, **words, "stopped": run.stopped})


def missing_library(name: str) -> TacitError:
    """Return the error for a tracker whose library is not installed."""
    return TacitError(f'{name} is not installed: pip install "tacit[trackers]"')
