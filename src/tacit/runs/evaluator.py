"""Measures a run at its evaluations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.networks import Network, Traffic
from tacit.privacy import Privacy
from tacit.runs.metrics import (
    Evaluation,
    PredictionMetric,
    Scores,
    Utility,
    all_metrics,
    evaluated_metrics,
    metric,
    prediction_metrics,
    trivial_scores,
    utility_of,
)
from tacit.runs.privacy_meter import finite_or_none
from tacit.tasks import Task


class Evaluator:
    """Measures all metrics that are not optional and fit the task, and the optional ones in `measure`.

    Of the metrics of predictions, only the main ones of the task are measured at every evaluation. `utility` measures
    all of them, at the end of a run.

    Args:
        evaluation: What metrics read. An `Evaluation` without `all_nodes` leaves out the metrics that need them.

    Raises:
        TacitError: A metric in `measure` is unknown or cannot be measured on this task.
    """

    def __init__(
        self,
        task: Task,
        algorithm: Algorithm[Any],
        network: Network,
        measure: Collection[str] = (),
        evaluation: type[Evaluation] = Evaluation,
    ) -> None:
        self.task, self.algorithm, self.network, self._evaluation = task, algorithm, network, evaluation
        for name in measure:
            metric(name).check(task)
        self._utility: tuple[Any, Utility] | None = None
        self._tested = evaluated_metrics(task.head)
        self.metrics = [
            each
            for each in all_metrics()
            if each.measured
            and (each.name in measure or not each.optional)
            and (evaluation.all_nodes or not each.needs_all_nodes)
            and (not isinstance(each, PredictionMetric) or each in self._tested)
        ]
        self.reads_records = any(each.reads_records for each in self.metrics)

    def __call__(
        self, state: Any, privacy: Privacy, traffic: Traffic, elapsed: Callable[[], float]
    ) -> dict[str, float | None]:
        """One row of the history. What is sent to measure it is not counted as traffic."""
        evaluation = self._at(self._tested, state, privacy, traffic, elapsed)
        with self.network.unmetered() if evaluation.all_nodes else nullcontext():
            row = {each.name: each.measure(evaluation) for each in self.metrics} | evaluation.norms
        return {name: None if value is None else finite_or_none(value) for name, value in row.items()}

    @cached_property
    def trivial(self) -> Scores:
        """The metrics of predictions of the trivial predictor."""
        return trivial_scores(self.task.head, self.task.data.test_y)

    def utility(self, state: Any, privacy: Privacy, traffic: Traffic, elapsed: Callable[[], float]) -> Utility:
        """All metrics of predictions, measured once per state. What is sent for it is not counted as traffic."""
        if self._utility is None or self._utility[0] is not state:
            evaluation = self._at(prediction_metrics(self.task.head), state, privacy, traffic, elapsed)
            try:
                with self.network.unmetered() if evaluation.all_nodes else nullcontext():
                    found = utility_of(evaluation, self.trivial)
            except TacitError:  # models that are not finite cannot be measured
                found = Utility.unknown(self.task.head, self.trivial)
            self._utility = state, found
        return self._utility[1]

    def _at(
        self,
        tested: Sequence[PredictionMetric],
        state: Any,
        privacy: Privacy,
        traffic: Traffic,
        elapsed: Callable[[], float],
    ) -> Evaluation:
        task = self.task
        if not self.reads_records:  # a metric that reads training records must declare it
            task = self.task.without_records(gradients=False)
            task.predict_tests = self.task.predict_tests  # type: ignore[method-assign]
        return self._evaluation(task, self.algorithm, self.network, state, privacy, traffic, elapsed, tested)
