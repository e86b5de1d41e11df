"""The utility of a finished run: all metrics of its model and of the trivial predictor, and the confusion matrix."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from tacit.runs.metrics.evaluation import Evaluation
from tacit.runs.metrics.metric import headline
from tacit.runs.metrics.prediction_metric import TestedModel, evaluated_metrics, prediction_metrics, scores_of
from tacit.runs.metrics.trivial import trivial_predictions
from tacit.tasks import Head, Label, Predictions

MAX_CLASSES = 20  # of a confusion matrix
OWN_LOSS = "own loss"  # the name of a task whose outputs have no known meaning

Scores = dict[str, float | None]


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often records of each class (rows) are predicted as each class (columns).

    The counts of nodes with models of their own are averaged over the nodes.
    """

    labels: tuple[Label, ...]
    counts: list[list[float]]

    def as_dict(self) -> dict[str, Any]:
        whole = [[int(count) if count == int(count) else count for count in row] for row in self.counts]
        return {"labels": list(self.labels), "counts": whole}


@dataclass(frozen=True)
class Utility:
    """What a run's model is worth on the test records.

    Attributes:
        task: The name of the head.
        metrics: The number of every metric that applies, by name; None where one is not defined.
        trivial: The same numbers of the trivial predictor.
        main: The names of the task's main metrics, which are also measured at every evaluation.
        confusion: The confusion matrix; None for other tasks than classes, and for many classes.
    """

    task: str
    metrics: Scores
    trivial: Scores
    main: tuple[str, ...]
    confusion: ConfusionMatrix | None = None

    @classmethod
    def unknown(cls, head: Head | None, trivial: Scores) -> Utility:
        """The utility of a model that cannot be measured, because its parameters are not finite."""
        return cls(_name(head), dict.fromkeys(trivial), trivial, _main(head))

    @classmethod
    def from_dict(cls, result: Mapping[str, Any], measured: Collection[str]) -> Utility:
        """The utility in result.json; `measured` contains the metrics of every evaluation."""
        scores, confusion = result.get("metrics") or {}, result.get("confusion")
        matrix = confusion and ConfusionMatrix(tuple(confusion["labels"]), confusion["counts"])
        main = tuple(name for name in scores if name in measured)
        return cls(result.get("task", OWN_LOSS), scores, result.get("trivial") or {}, main, matrix)

    @property
    def headline(self) -> str:
        """The main metrics in one line, the first beside that of the trivial predictor."""
        return headline({name: self.metrics[name] for name in self.main}, self.trivial)

    def as_dict(self) -> dict[str, Any]:
        """The form in result.json."""
        confusion = None if self.confusion is None else self.confusion.as_dict()
        return {"task": self.task, "metrics": self.metrics, "trivial": self.trivial, "confusion": confusion}


def utility_of(evaluation: Evaluation, trivial: Scores) -> Utility:
    """Return the utility of the models at an evaluation. Every process of a run calls it, for the mean over nodes."""
    head = evaluation.task.head
    scores = {name: _finite(value) for name, value in evaluation.test.items()}
    return Utility(_name(head), scores, trivial, _main(head), _confusion(evaluation, head))


def trivial_scores(head: Head | None, test_y: Tensor, *, main: bool = False) -> Scores:
    """Return all metrics of the trivial predictor for test records with these targets, or only the `main` ones."""
    measured = evaluated_metrics(head) if main else prediction_metrics(head)
    values = scores_of(trivial_predictions(head, test_y), measured)
    return {each.name: _finite(value) for each, value in zip(measured, values, strict=True)}


def _confusion(evaluation: Evaluation, head: Head | None) -> ConfusionMatrix | None:
    if head is None or not head.classifies or not 2 <= head.target.classes <= MAX_CLASSES:
        return None
    classes = head.target.classes
    counts = np.array(evaluation.over_models(lambda found: _counts(found, classes)))
    return ConfusionMatrix(head.target.labels, counts.reshape(classes, classes).tolist()) if counts.any() else None


def _counts(found: Predictions, classes: int) -> list[float]:
    """The entries of a confusion matrix, row by row; all 0 if nothing can be predicted."""
    tested = TestedModel.of(found)
    pairs = (tested.y * classes + tested.decided).astype(np.int64)
    counts: list[float] = np.bincount(pairs, minlength=classes * classes).astype(float).tolist()
    return counts


def _name(head: Head | None) -> str:
    return OWN_LOSS if head is None else head.name


def _main(head: Head | None) -> tuple[str, ...]:
    return tuple(each.name for each in evaluated_metrics(head))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
