"""Histograms of the features of records in a declared range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.tasks.statistics.base import RecordSum, check_numbers, statistics

if TYPE_CHECKING:
    from tacit.tasks.data import Dataset


@statistics.register("histogram")
@dataclass(frozen=True)
class Histogram(RecordSum):
    """Counts of every feature in bins of equal width between two declared numbers: k · bins values.

    Numbers outside the range are counted in the first or last bin, NaN nowhere.

    Privacy:
        A record adds at most one count per feature: a vector with at most k entries, which are 1. Adding or removing it
        changes the counts by at most √k (L2). Replacing it subtracts one such vector and adds another; they differ in
        at most two entries per feature, so the counts change by at most √(2k). Counts are integers and exact.

    Args:
        features: The number k of features of a record.
        low: The lower end of the range.
        high: The upper end.
        bins: The number of bins.
    """

    name: ClassVar[str] = "histogram"

    features: int
    low: float = -1.0
    high: float = 1.0
    bins: int = 256

    def __post_init__(self) -> None:
        if not (self.low < self.high and math.isfinite(self.high - self.low)):
            raise TacitError(f"a histogram needs finite ends low < high, got {self.low} and {self.high}")
        if self.bins < 1 or self.features < 1:
            raise TacitError(f"a histogram needs bins and features, got {self.bins} and {self.features}")

    def length(self, data: Dataset) -> int:
        check_numbers(data)
        if (found := math.prod(data.inputs)) != self.features:
            raise TacitError(f"data set {data.name}: records have {found} features, not {self.features}")
        return self.features * self.bins

    def sensitivity(self, relation: Relation) -> float:
        return counts_sensitivity(self.features, relation)

    def read(self, data: Dataset, index: Tensor) -> Tensor:
        x = data.x[index].flatten(1).double()
        positions = ((x.clamp(self.low, self.high) - self.low) / (self.high - self.low) * self.bins).floor()
        return positions.clamp(max=self.bins - 1).nan_to_num(nan=-1.0).long()

    def add(self, total: Tensor, records: Tensor, y: Tensor, node: Tensor) -> None:
        count_bins(total, records, node)


def counts_sensitivity(features: int, relation: Relation) -> float:
    """Return the sensitivity of the histograms of so many features."""
    return math.sqrt(features * (1 if relation == "add-remove" else 2))


def count_bins(total: Tensor, bins: Tensor, node: Tensor) -> None:
    """Count each record's bins (B, k) at its node in `total` (n, k · bins); negative bins are not counted."""
    n, k = len(total), bins.shape[1]
    width = total.shape[1] // k
    places = (node[:, None] * k + torch.arange(k)) * width + bins
    counts = torch.bincount(places[bins >= 0], minlength=total.numel())
    total += counts.view(n, -1)
