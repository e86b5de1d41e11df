"""The progress of a site's run, recorded by observers for its status."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from tacit.graph_learning import GraphLearningRun, GraphObserver
from tacit.runs import Observer, Row, Run
from tacit.runs.metrics import all_metrics
from tacit.sites.site_graph_run import SiteGraphRun
from tacit.sites.site_run import SiteRun

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """The last recorded progress. Any thread may read it while the run continues."""

    round: int = 0
    epsilon: float | None = None
    planned: float | None = None
    accuracy: float | None = None

    def record(self, run: SiteRun | SiteGraphRun) -> None:
        self.round, self.accuracy = run.t, run.accuracy
        self.epsilon, self.planned = run.epsilon_bound, run.planned_epsilon


class TrainingProgress(Observer):
    """Records the progress of a training run, and logs its evaluations."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_round(self, run: Run) -> None:
        assert isinstance(run, SiteRun)
        self._progress.record(run)

    def on_evaluation(self, run: Run, row: Row) -> None:
        measured = [each.name for each in all_metrics() if each.headline and each.name in row]
        fields: dict[str, Any] = {key: row[key] for key in ("round", *measured, "guaranteed")}
        log.info("evaluated", extra=fields)


class GraphLearningProgress(GraphObserver):
    """Records the progress of a graph learning run."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def on_round(self, run: GraphLearningRun) -> None:
        assert isinstance(run, SiteGraphRun)
        self._progress.record(run)
