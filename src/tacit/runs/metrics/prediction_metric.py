"""Metrics of what a model predicts for the test records."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacit.runs.metrics.metric import Metric, all_metrics
from tacit.tasks import Head, Predictions, Target, TargetKind

if TYPE_CHECKING:
    from tacit.runs.metrics.evaluation import Evaluation

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class TestedModel:
    """Predictions and true targets of the test records, as arrays in the unit of the records.

    Attributes:
        loss: The mean loss; NaN without records.
        is_defined: Whether there are records, and every prediction is finite. If not, the arrays are empty.
        y: The true classes (M,), labels (M, C) or values (M,).
        scores: The scores (M, C) of a classifier; of others, the predicted values (M,).
        decided: The predicted classes (M,), labels (M, C) or values (M,).
    """

    loss: float
    is_defined: bool
    target: Target | None
    y: Array
    scores: Array
    decided: Array

    @classmethod
    def of(cls, found: Predictions) -> TestedModel:
        """Return the arrays of a model's predictions."""
        empty = np.zeros(0)
        head, scores = found.head, found.predictions
        if head is None or scores is None or not len(found.y) or not bool(scores.isfinite().all()):
            return cls(found.loss, False, None if head is None else head.target, empty, empty, empty)
        y = found.y if head.target.range is None else head.target.decode(found.y.double())
        return cls(found.loss, True, head.target, y.numpy(), scores.numpy(), head.decide(scores).numpy())

    @property
    def positives(self) -> tuple[Array, Array, Array]:
        """One column per class against the others, or per label: truth, scores and decisions (M, columns).

        Two classes have one column, that of the second class.
        """
        if self.y.ndim == 2:
            return self.y == 1, self.scores, self.decided == 1
        columns = np.arange(self.scores.shape[1])[1 if self.scores.shape[1] == 2 else 0 :]
        return self.y[:, None] == columns, self.scores[:, columns], self.decided[:, None] == columns


class PredictionMetric(Metric):
    """A number computed from what a model predicts for the test records.

    It applies to heads for targets of these `kinds`: to those that classify, or to those that predict values. It is
    None where it is not defined, for example without test records.
    """

    kinds: ClassVar[tuple[TargetKind, ...]]
    needs_probabilities: ClassVar[bool] = False
    about = "of the nodes’ mean model, on the test records"
    about_site = "of the site’s own model, on its own test records"
    reads_models, format = True, ".3f"

    def applies(self, head: Head | None) -> bool:
        if head is None or head.target.kind not in self.kinds:
            return False
        classifies = head.target.range is None
        return head.classifies == classifies and (head.has_probabilities or not self.needs_probabilities)

    def leads(self, head: Head | None) -> bool:
        """Whether it is one of the head's main metrics, which are measured at every evaluation."""
        return self.headline

    @abstractmethod
    def compute(self, tested: TestedModel) -> float | None:
        """Return the number, or None if it is not defined. There are records, and all predictions are finite."""

    def value(self, tested: TestedModel) -> float | None:
        """Return the number, or None if it is not defined."""
        return self.compute(tested) if tested.is_defined else None

    def measure(self, evaluation: Evaluation) -> float | None:
        return evaluation.test[self.name]


def prediction_metrics(head: Head | None) -> list[PredictionMetric]:
    """All metrics of the predictions of a head, in the order in which they are shown."""
    return [each for each in all_metrics() if isinstance(each, PredictionMetric) and each.applies(head)]


def evaluated_metrics(head: Head | None) -> list[PredictionMetric]:
    """Those that are measured at every evaluation. The others can take longer, and are measured at the end."""
    return [each for each in prediction_metrics(head) if each.leads(head)]


def scores_of(found: Predictions, measured: Iterable[PredictionMetric]) -> list[float]:
    """Return the numbers of some metrics; NaN where one is not defined."""
    tested = TestedModel.of(found)
    values = [each.value(tested) for each in measured]
    return [np.nan if value is None else float(value) for value in values]
