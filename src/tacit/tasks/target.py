"""What the records of a data set are labelled with: a class, several labels, a number or a count. It is declared."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from tacit.errors import TacitError, unknown

Label = str | int | float
TargetKind = Literal["class", "labels", "number", "count"]


@dataclass(frozen=True)
class Target:
    """The target that a model predicts. All of it is public: declared, and not learnt from records.

    | kind | targets of M records | |
    |---|---|---|
    | class | int64 (M,) in 0 … C−1 | one of the `labels`, in their order |
    | labels | float32 (M, C), 0 or 1 | each of the `labels` applies or does not |
    | number | float32 (M,) in [−1, 1] | `range` is mapped to [−1, 1] |
    | count | float32 (M,) in `range` | the number of events, as it is |

    Attributes:
        kind: What a target is.
        labels: The names of the classes or labels, in the order of their numbers.
        range: The smallest and the largest number or count. Values outside it are clamped.
        name: The name of the target's column; empty if it has none.

    >>> Target.of_classes(3)
    Target(kind='class', labels=(0, 1, 2), range=None, name='')
    >>> stay = Target("number", range=(0.0, 60.0), name="days")
    >>> stay.encode(torch.tensor([0.0, 45.0, 99.0])), stay.decode(torch.tensor([0.5]))
    (tensor([-1.0000,  0.5000,  1.0000]), tensor([45.]))
    """

    kind: TargetKind
    labels: tuple[Label, ...] = ()
    range: tuple[float, float] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(TargetKind):
            raise unknown("kind of target", self.kind, get_args(TargetKind))
        least = {"class": 2, "labels": 1}.get(self.kind, 0)
        if len(self.labels) < least or len(set(self.labels)) < len(self.labels) or (self.labels and not least):
            raise TacitError(f"a target of kind {self.kind} needs at least {least} different labels, got {self.labels}")
        if (self.range is not None) == bool(least):
            raise TacitError(f"a target of kind {self.kind} {'has no' if least else 'needs a'} range, got {self.range}")
        if self.range is not None:
            low, high = self.range
            if not (math.isfinite(low) and math.isfinite(high) and low < high) or (self.kind == "count" and low < 0):
                raise TacitError(f"the range of a {self.kind} must be two finite numbers, low < high, got {self.range}")

    @classmethod
    def of_classes(cls, classes: int) -> Target:
        """Return the target with classes 0 … `classes` − 1."""
        return cls("class", tuple(range(classes)))

    @property
    def classes(self) -> int:
        """The number of classes; 0 if the target is not a class."""
        return len(self.labels) if self.kind == "class" else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one record's target."""
        return (len(self.labels),) if self.kind == "labels" else ()

    @property
    def dtype(self) -> torch.dtype:
        """The type of the targets."""
        return torch.int64 if self.kind == "class" else torch.float32

    @property
    def middle(self) -> float:
        """The middle of the range, in the unit of the records. It is the prediction that needs no record."""
        low, high = self._range
        return (low + high) / 2

    def encode(self, values: Tensor) -> Tensor:
        """Return numbers or counts as targets. They are clamped to the range."""
        low, high = self._range
        values = values.double().clamp(low, high)
        return (values if self.kind == "count" else (2 * values - (low + high)) / (high - low)).float()

    def decode(self, values: Tensor) -> Tensor:
        """Return encoded numbers or counts in the unit of the records, clamped to the range."""
        low, high = self._range
        unscaled = values.double() if self.kind == "count" else (values.double() * (high - low) + (low + high)) / 2
        return unscaled.clamp(low, high).to(values.dtype)

    def first_invalid(self, y: Tensor) -> int | None:
        """Return the row of the first target that is not valid, or None."""
        if self.kind == "class":
            valid = (y >= 0) & (y < self.classes)
        elif self.kind == "labels":
            valid = ((y == 0) | (y == 1)).all(1)
        else:
            low, high = torch.tensor((-1.0, 1.0) if self.kind == "number" else self._range, dtype=y.dtype)
            valid = (y >= low) & (y <= high)
        rows = (~valid).nonzero()
        return int(rows[0, 0]) if len(rows) else None

    @property
    def _range(self) -> tuple[float, float]:
        if self.range is None:
            raise TacitError(f"a target of kind {self.kind} has no range")
        return self.range
