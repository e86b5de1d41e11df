"""The sum of records, for their mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from tacit.privacy import Relation
from tacit.tasks.statistics.base import RecordSum, check_numbers, in_units, statistics

if TYPE_CHECKING:
    from tacit.tasks.data import Dataset


@statistics.register("mean")
@dataclass(frozen=True)
class Mean(RecordSum):
    """Sum of the records of a node, each scaled down to norm at most 1: Σ z.

    Divided by the public number of records, it is their mean.

    Privacy:
        ‖z‖ ≤ 1 for every record. Adding or removing one changes the sum by at most 1. Replacing z by z′ changes it by
        ‖z − z′‖ ≤ 2.
    """

    name: ClassVar[str] = "mean"

    def length(self, data: Dataset) -> int:
        check_numbers(data)
        return math.prod(data.inputs)

    def sensitivity(self, relation: Relation) -> float:
        return 1.0 if relation == "add-remove" else 2.0

    def add(self, total: Tensor, records: Tensor, y: Tensor, node: Tensor) -> None:
        total.index_add_(0, node, records)

    def finish(self, total: Tensor) -> Tensor:
        return in_units(total)
