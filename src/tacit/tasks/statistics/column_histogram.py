"""Histograms of the columns of a table whose range is a private release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.tasks.data import RANGE_BINS
from tacit.tasks.statistics.base import RecordSum, statistics
from tacit.tasks.statistics.histogram import count_bins, counts_sensitivity

if TYPE_CHECKING:
    from tacit.tasks.data import Dataset


@statistics.register("column-histogram")
@dataclass(frozen=True)
class ColumnHistogram(RecordSum):
    """Counts of the numbers of k private columns, each in `RANGE_BINS` bins of the scaled column: k · bins values.

    Missing cells are not counted.

    Privacy:
        The bins of a record depend on this record alone (`PrivateColumns.bins`). A record adds at most one count per
        column, so the sensitivity is √k if a record is added or removed and √(2k) if it is replaced; see `Histogram`.

    Args:
        columns: The number k of columns.
    """

    name: ClassVar[str] = "column-histogram"

    columns: int

    def length(self, data: Dataset) -> int:
        if data.private is None or len(data.private.names) != self.columns:
            raise TacitError('no column has a private range: declare one with range = "private", within = [low, high]')
        return self.columns * RANGE_BINS

    def sensitivity(self, relation: Relation) -> float:
        return counts_sensitivity(self.columns, relation)

    def read(self, data: Dataset, index: Tensor) -> Tensor:
        assert data.private is not None
        return torch.from_numpy(data.private.bins(index.numpy()))

    def add(self, total: Tensor, records: Tensor, y: Tensor, node: Tensor) -> None:
        count_bins(total, records, node)
