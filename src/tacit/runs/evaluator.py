"""Measures a run at its evaluations."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Any

from tacit.algorithms import Algorithm
from tacit.networks import Network, Traffic
from tacit.privacy import Privacy
from tacit.runs.metrics import Evaluation, all_metrics, metric
from tacit.runs.privacy_meter import finite_or_none
from tacit.tasks import Task


class Evaluator:
    """Measures all metrics that are not optional, and the optional ones in `measure`.

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
        self.metrics = [
            each
            for each in all_metrics()
            if each.measured
            and (each.name in measure or not each.optional)
            and (evaluation.all_nodes or not each.needs_all_nodes)
        ]
        self.reads_records = any(each.reads_records for each in self.metrics)

    def __call__(
        self, state: Any, privacy: Privacy, traffic: Traffic, elapsed: Callable[[], float]
    ) -> dict[str, float | None]:
        """One row of the history. What is sent to measure it is not counted as traffic."""
        task = self.task
        if not self.reads_records:  # a metric that reads training records must declare it
            task = self.task.without_records(gradients=False)
            task.evaluate = self.task.evaluate  # type: ignore[method-assign]
        evaluation = self._evaluation(task, self.algorithm, self.network, state, privacy, traffic, elapsed)
        with self.network.unmetered() if evaluation.all_nodes else nullcontext():
            row = {each.name: each.measure(evaluation) for each in self.metrics} | evaluation.norms
        return {name: None if value is None else finite_or_none(value) for name, value in row.items()}
