"""How good the predictions of classes and labels are.

A metric that is a mean over classes is not defined if a class is missing in the test records. Classes stand for labels,
too, unless a docstring says otherwise. The functions of scikit-learn get one class or label at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from tacit.runs.metrics.metric import metrics
from tacit.runs.metrics.prediction_metric import Array, PredictionMetric, TestedModel
from tacit.tasks import Head

_SMALLEST = float(np.finfo(np.float64).eps)  # of the probabilities in a log loss, as in scikit-learn
_BINS = 10  # of the calibration error


@metrics.register("accuracy")
class Accuracy(PredictionMetric):
    """Share of the test records with the right class, or with all labels right."""

    title, short = "Test accuracy", "accuracy"
    unit, scale, limit = "%", 100.0, 100.0
    format, table_format = ".1f", ".2f"
    kinds = ("class", "labels")
    position, headline = 0, True

    def compute(self, tested: TestedModel) -> float:
        correct = tested.decided == tested.y
        return float((correct if correct.ndim == 1 else correct.all(1)).mean())


class MeanOverClasses(PredictionMetric):
    """The mean over the classes of a number for one class against the others; of two classes, that of the second."""

    kinds = ("class", "labels")

    @abstractmethod
    def of_class(self, is_class: Array, scores: Array, is_decided: Array) -> float:
        """Return the number for one class: truth, scores and decisions (M,)."""

    def compute(self, tested: TestedModel) -> float | None:
        truth, scores, decided = tested.positives
        if not (truth.any(0) & ~truth.all(0)).all():
            return None
        return float(np.mean([self.of_class(truth[:, k], scores[:, k], decided[:, k]) for k in range(truth.shape[1])]))


@metrics.register("balanced_accuracy")
class BalancedAccuracy(PredictionMetric):
    """Mean over the classes of the share of their test records with the right class."""

    title, short = "Balanced accuracy", "balanced accuracy"
    unit, scale, limit = "%", 100.0, 100.0
    format, table_format = ".1f", ".2f"
    kinds, position = ("class",), 3

    def compute(self, tested: TestedModel) -> float | None:
        from sklearn.metrics import recall_score

        classes = range(tested.scores.shape[1])
        if not all((tested.y == k).any() for k in classes):
            return None
        return float(np.mean([recall_score(tested.y == k, tested.decided == k, zero_division=0.0) for k in classes]))


@metrics.register("roc_auc")
class RocAuc(MeanOverClasses):
    """Area under the ROC curve; of more than two classes, the mean of each class against the others."""

    title, short, limit = "Area under the ROC curve", "ROC AUC", 1.0
    position, headline = 1, True

    def leads(self, head: Head | None) -> bool:
        return head is not None and head.target.classes == 2

    def of_class(self, is_class: Array, scores: Array, is_decided: Array) -> float:
        from sklearn.metrics import roc_auc_score

        return float(roc_auc_score(is_class, scores))


@metrics.register("average_precision")
class AveragePrecision(MeanOverClasses):
    """Average precision; of more than two classes, the mean of each class against the others."""

    title, short, limit, position = "Average precision", "average precision", 1.0, 4

    def of_class(self, is_class: Array, scores: Array, is_decided: Array) -> float:
        from sklearn.metrics import average_precision_score

        return float(average_precision_score(is_class, scores))


@metrics.register("f1")
class F1Score(MeanOverClasses):
    """F1 score of the second of two classes, or the mean over more classes (macro); of learned graphs, the edges."""

    title, short, limit, position = "F1 score", "F1", 1.0, 5

    def of_class(self, is_class: Array, scores: Array, is_decided: Array) -> float:
        from sklearn.metrics import f1_score

        return float(f1_score(is_class, is_decided, zero_division=0.0))


class ProbabilityMetric(PredictionMetric):
    """A number computed from the probabilities of the classes."""

    kinds: ClassVar = ("class", "labels")
    needs_probabilities, higher_is_better = True, False


@metrics.register("log_loss")
class LogLoss(ProbabilityMetric):
    """Mean of −log of the probability of the right class; of labels, the mean over the labels too."""

    title, short, position = "Log loss", "log loss", 6

    def compute(self, tested: TestedModel) -> float:
        p = tested.scores
        if tested.y.ndim == 2:
            of_truth = np.where(tested.y == 1, p, 1 - p)
        else:
            of_truth = np.take_along_axis(p, tested.y[:, None], 1)
        return float(-np.log(of_truth.clip(_SMALLEST, 1 - _SMALLEST)).mean())


@metrics.register("brier_score")
class BrierScore(ProbabilityMetric):
    """Mean squared error of the probability of the second of two classes; of more classes, the sum over the classes.

    Of labels, it is the mean over the labels. It is small if probabilities are calibrated and sharp.
    """

    title, short, position = "Brier score", "Brier score", 7

    def compute(self, tested: TestedModel) -> float:
        truth, scores, _ = tested.positives
        squares = np.square(scores - truth)
        return float(squares.mean() if tested.y.ndim == 2 else squares.sum(1).mean())


@metrics.register("calibration_error")
class CalibrationError(ProbabilityMetric):
    """Mean distance between the probability of a class and its share, in ten bins of the probability.

    Bins are weighted by their records. Two classes are measured on the second; more classes, and labels, on the mean.
    """

    title, short, position = "Calibration error", "calibration error", 8

    def compute(self, tested: TestedModel) -> float:
        truth, scores, _ = tested.positives
        bins = np.minimum((scores * _BINS).astype(np.int64), _BINS - 1)
        in_bin = bins[..., None] == np.arange(_BINS)  # (M, classes, bins)
        apart = np.abs(((scores - truth)[..., None] * in_bin).sum(0))
        return float(apart.sum(-1).mean() / len(truth))
