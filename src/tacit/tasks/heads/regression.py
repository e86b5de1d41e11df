"""Numbers and counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from torch import Tensor
from torch.nn import functional as F

from tacit.errors import TacitError, unknown
from tacit.tasks.heads.base import Head, column, register_head
from tacit.tasks.target import TargetKind

ErrorLoss = Literal["squared", "absolute", "huber"]


@register_head("regression")
@dataclass(frozen=True)
class Regression(Head):
    """A number in a public range: one output, in units in which the range is [−1, 1].

    Attributes:
        loss: The loss of a record: the "squared" or "absolute" error, or "huber".
        delta: The error from which the Huber loss is linear, in units in which the range is [−1, 1].
    """

    kinds: ClassVar[tuple[TargetKind, ...]] = ("number",)
    loss: ErrorLoss = "squared"
    delta: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in get_args(ErrorLoss):
            raise unknown("task.loss", self.loss, get_args(ErrorLoss))
        if not 0 < self.delta < math.inf:
            raise TacitError(f"task.delta must be a finite number above 0, got {self.delta:g}")

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        values, y = column(outputs), y.to(outputs.dtype)
        if self.loss == "huber":
            return F.huber_loss(values, y, reduction="none", delta=self.delta)
        return (values - y).square() if self.loss == "squared" else (values - y).abs()

    def predict(self, outputs: Tensor) -> Tensor:
        return self.target.decode(column(outputs))

    def link(self, predictions: Tensor) -> Tensor:
        return self.target.encode(predictions)[:, None].to(predictions.dtype)


@register_head("counts")
@dataclass(frozen=True)
class Counts(Head):
    """A count: one output, the logarithm of the expected count; Poisson loss.

    The loss is exp(output) − count · output up to twice the largest count of the range, and goes on in a straight line
    above it. No prediction is larger than the range, and a gradient that overflows would count as 0.
    """

    kinds: ClassVar[tuple[TargetKind, ...]] = ("count",)

    @property
    def largest_curved(self) -> float:
        """The output from which the loss is a straight line."""
        assert self.target.range is not None
        return math.log(2 * self.target.range[1])

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        logs = column(outputs)
        curved = logs.clamp(max=self.largest_curved)
        return curved.exp() * (1 + logs - curved) - y.to(logs.dtype) * logs

    def predict(self, outputs: Tensor) -> Tensor:
        return self.target.decode(column(outputs).exp())

    def link(self, predictions: Tensor) -> Tensor:
        return predictions.log()[:, None]
