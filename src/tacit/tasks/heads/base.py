"""What a head is: it turns the outputs of a model into a loss per record and into predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, get_args

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.registry import Registry
from tacit.tasks.heads.mismatch import DECLARE_NUMBER, TargetMismatch
from tacit.tasks.models.per_record import RecordLoss, per_record_loss
from tacit.tasks.target import Target, TargetKind

H = TypeVar("H", bound="Head")
_SMALLEST = 1e-12  # probability that a logit distinguishes from 0


@dataclass(frozen=True)
class Head:
    """The last step of a learning task: the loss of a record, and what the model predicts for it.

    Derive from it to define a task of your own: `__call__` returns the losses, `predict` the predictions.

    Privacy:
        The loss and `predict` treat each record separately. Parameters are declared, and not learnt from records. The
        loss of a class that is not part of this package is differentiated one record at a time.

    Attributes:
        target: What the model predicts.
        kinds: The kinds of targets that the head is for.
        classifies: Whether predictions are scores of classes or labels, from which `decide` chooses.
        has_probabilities: Whether these scores are probabilities.
    """

    target: Target
    kinds: ClassVar[tuple[TargetKind, ...]] = get_args(TargetKind)
    classifies: ClassVar[bool] = False
    has_probabilities: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.target.kind not in self.kinds:
            declare = DECLARE_NUMBER if "number" in self.kinds else "another target"
            raise TacitError(
                f"task {self.name} needs targets of kind {' or '.join(self.kinds)}, got kind {self.target.kind}: set "
                f'task = "auto", which fits the target, or declare {declare}'
            )

    @property
    def name(self) -> str:
        """The name under which the head is registered."""
        return next((name for name in heads if heads[name] is type(self)), type(self).__name__)

    @property
    def outputs(self) -> int:
        """The number of outputs that the model needs."""
        return 1

    @property
    def record_loss(self) -> RecordLoss:
        """The loss as a function of outputs (B, outputs) and targets (B, …), one number per record."""
        return self

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the losses (B,) of outputs (B, outputs) and targets (B, …)."""
        raise TacitError(f"{type(self).__name__} defines no loss")

    def predict(self, outputs: Tensor) -> Tensor:
        """Return (B, C) scores of the classes or labels, or (B,) values in the unit of the records."""
        raise TacitError(f"{type(self).__name__} defines no predictions")

    def decide(self, predictions: Tensor) -> Tensor:
        """Return the predicted class (B,), labels (B, C) as 0 or 1, or values (B,), from what `predict` returns."""
        if not self.classifies:
            return predictions
        return (predictions >= 0.5).to(torch.int64) if self.target.kind == "labels" else predictions.argmax(1)

    def link(self, predictions: Tensor) -> Tensor | None:
        """Return outputs (B, outputs) with these predictions, as the inverse of `predict`; None if it is not known."""
        return None

    def check_outputs(self, outputs: Tensor) -> None:
        """Raise if the outputs for one record do not have the shape (1, outputs), or their predictions a wrong one."""
        shape, wanted = tuple(outputs.shape), self.outputs
        if shape != (1, wanted) and not (wanted == 1 and shape == (1,)):
            raise TargetMismatch(
                f"task {self.name} needs a model with {wanted} output{'s' if wanted > 1 else ''} per record, "
                f"shape (1, {wanted}) for one record, got {shape}"
            )
        found, width = tuple(self.predict(outputs).shape), len(self.target.labels)
        if found != ((1, width) if self.classifies else (1,)):
            raise TargetMismatch(
                f"{type(self).__name__}.predict must return shape {f'(B, {width})' if self.classifies else '(B,)'}, "
                f"got {found} for one record"
            )


heads: Registry[Head] = Registry("task", given=("target",))


def register_head(name: str, **options: Any) -> Callable[[type[H]], type[H]]:
    """Return a decorator that registers a head, whose loss is then known to treat each record separately."""

    def add(kind: type[H]) -> type[H]:
        return heads.register(name, **options)(per_record_loss(kind))

    return add


def column(outputs: Tensor) -> Tensor:
    """Return outputs (B, 1) as (B,)."""
    return outputs.squeeze(1) if outputs.dim() == 2 else outputs


def logit(probabilities: Tensor) -> Tensor:
    """Return log(p / (1 − p)), which is finite also for 0 and 1."""
    p = probabilities.clamp(_SMALLEST, 1 - _SMALLEST)
    return p.log() - (-p).log1p()


def weighted(losses: Tensor, weights: tuple[float, ...] | None, y: Tensor) -> Tensor:
    """Return losses (B,) times the weight of each record's class."""
    return losses if weights is None else losses * torch.tensor(weights, dtype=losses.dtype, device=losses.device)[y]
