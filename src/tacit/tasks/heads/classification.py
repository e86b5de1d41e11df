"""Classifiers: several classes, two classes with one output, several labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from tacit.tasks.heads.base import Head, column, logit, register_head, weighted
from tacit.tasks.heads.mismatch import TargetMismatch
from tacit.tasks.models.per_record import RecordLoss, cross_entropy
from tacit.tasks.target import TargetKind

OWN_LOSS = "own loss"  # the name of the task of a model whose loss is the user's own


@dataclass(frozen=True)
class Classifier(Head):
    """A head with one weight per class or label. The weights are public: declare them, such as 1 / known share.

    Losses are multiplied by the weights divided by the largest one. A clip of gradients would undo weights above 1.

    Args:
        class_weights: One weight per class or label, in the order of the labels; by default all are equal.
    """

    class_weights: tuple[float, ...] | None = None
    classifies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        weights, count = self.class_weights, len(self.target.labels)
        if weights is None:
            return
        if len(weights) != count or not all(0 <= w < math.inf for w in weights) or not any(weights):
            raise TargetMismatch(
                f"task.class_weights must be {count} finite numbers of at least 0, and not all 0, got {list(weights)}"
            )

    @property
    def relative_weights(self) -> tuple[float, ...] | None:
        """The weights, the largest of which is 1."""
        return None if self.class_weights is None else tuple(w / max(self.class_weights) for w in self.class_weights)


@register_head("classification")
@dataclass(frozen=True)
class Classification(Classifier):
    """One of several classes: one output per class, softmax, cross-entropy."""

    kinds: ClassVar[tuple[TargetKind, ...]] = ("class",)

    @property
    def outputs(self) -> int:
        return self.target.classes

    @property
    def record_loss(self) -> RecordLoss:
        plain = self.class_weights is None and type(self).__call__ is Classification.__call__
        return cross_entropy if plain else self

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        return weighted(cross_entropy(outputs, y), self.relative_weights, y)

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(1)

    def link(self, predictions: Tensor) -> Tensor:
        return predictions.log()  # −∞ for a class that no record has


class ScoreClassification(Classification):
    """A classification with a loss of the user's own: one score per class, which need not be a probability."""

    has_probabilities: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return OWN_LOSS


@register_head("binary")
@dataclass(frozen=True)
class Binary(Classifier):
    """One of two classes: one output, the logit of the second class; logistic loss."""

    kinds: ClassVar[tuple[TargetKind, ...]] = ("class",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target.classes != 2:
            raise TargetMismatch(f"task binary needs 2 classes, got {self.target.classes}: use task classification")

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        logits = column(outputs)
        losses = F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype), reduction="none")
        return weighted(losses, self.relative_weights, y)

    def predict(self, outputs: Tensor) -> Tensor:
        logits = column(outputs)
        return torch.stack([torch.sigmoid(-logits), torch.sigmoid(logits)], 1)

    def link(self, predictions: Tensor) -> Tensor:
        return logit(predictions[:, 1:])


@register_head("multi-label")
@dataclass(frozen=True)
class MultiLabel(Classifier):
    """Several labels, each of which applies or does not: one output per label; sum of logistic losses."""

    kinds: ClassVar[tuple[TargetKind, ...]] = ("labels",)

    @property
    def outputs(self) -> int:
        return len(self.target.labels)

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        losses = F.binary_cross_entropy_with_logits(outputs, y.to(outputs.dtype), reduction="none")
        if self.relative_weights is not None:
            losses = losses * torch.tensor(self.relative_weights, dtype=losses.dtype, device=losses.device)
        return losses.sum(1)

    def predict(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    def link(self, predictions: Tensor) -> Tensor:
        return logit(predictions)
