"""The sums and numbers of records of each class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.tasks.statistics.base import RecordSum, check_numbers, in_integers, in_units, statistics

if TYPE_CHECKING:
    from tacit.tasks.data import Dataset


@statistics.register("class-moments")
@dataclass(frozen=True)
class ClassMoments(RecordSum):
    """Per class: the sum of its records z, each of norm at most 1, and their number. One vector of C (d + 1) values.

    A record of zeros, or with a value that is not finite, is not counted. `class_moments` turns the vector into sums
    (C, d) and counts (C,).

    Privacy:
        A record z of class y contributes (z, 1) to the block of y and nothing to the others: a vector of norm
        √(‖z‖² + 1) ≤ √2, so adding or removing it changes the statistic by at most √2. If it is replaced by a record of
        another class, two blocks change: by √(2 + 2) = 2 at most. If the class is the same, the counts cancel and the
        sum changes by ‖z − z′‖ ≤ 2. A label that is not a class counts nowhere.
    """

    name: ClassVar[str] = "class-moments"

    def length(self, data: Dataset) -> int:
        check_numbers(data)
        if data.target.kind != "class":
            raise TacitError(
                f"data set {data.name}: moments of classes need classes, but the target is a {data.target.kind}"
            )
        return data.classes * (math.prod(data.inputs) + 1)

    def sensitivity(self, relation: Relation) -> float:
        return math.sqrt(2) if relation == "add-remove" else 2.0

    def add(self, total: Tensor, records: Tensor, y: Tensor, node: Tensor) -> None:
        d = records.shape[1]
        classes = total.shape[1] // (d + 1)
        known = (y >= 0) & (y < classes)
        one = records.any(1, keepdim=True) * in_integers(1.0)
        blocks = total.view(-1, d + 1)
        blocks.index_add_(0, (node * classes + y)[known], torch.cat([records, one], 1)[known])

    def finish(self, total: Tensor) -> Tensor:
        return in_units(total)


def class_moments(values: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the sums (…, C, d) and counts (…, C) of a vector (…, length) as `ClassMoments` arranges it."""
    blocks = values.view(*values.shape[:-1], classes, -1)
    return blocks[..., :-1], blocks[..., -1]
