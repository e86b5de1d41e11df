"""The numbers of columns whose range is a private release (`range = "private"`), and records scaled by such a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from tacit.tasks.data.cells import Floats
from tacit.tasks.data.columns import NumberColumn
from tacit.tasks.data.table_schema import TableSchema

if TYPE_CHECKING:
    from tacit.tasks.data.dataset import Dataset

RANGE_BINS = 256
"""Into so many bins of equal width the numbers of a private column are counted."""

Ranges = Mapping[str, Sequence[float]]
"""The lowest and highest number of each private column, in its own unit."""


@dataclass(frozen=True, eq=False)
class PrivateColumns:
    """The columns of a data set whose range is released by a run.

    Attributes:
        schema: The columns as declared.
        train: Their numbers (M, k) in the training records, in their own units; NaN for missing cells.
        test: The same of the test records.
    """

    schema: TableSchema
    train: Floats
    test: Floats

    @property
    def names(self) -> list[str]:
        """The names of the k columns."""
        return list(self.schema.private_columns)

    def subset(self, records: NDArray[np.int64]) -> PrivateColumns:
        """Return the columns of these training records."""
        return replace(self, train=self.train[records])

    def bins(self, records: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bin (B, k) of the numbers of these training records in the range `within`; −1 for missing cells.

        Privacy:
            The bins of a record depend on this record alone. Numbers outside `within` are in the first or last bin.
        """
        numbers = self.train[records]
        bins = np.empty(numbers.shape, np.int64)
        for k, column in enumerate(self.schema.private_columns.values()):
            positions, valid = column.prepare_numbers(numbers[:, k])
            inside = np.minimum((positions[:, 0] + 1) * (RANGE_BINS / 2), RANGE_BINS - 1)
            bins[:, k] = np.where(valid, inside, -1)
        return bins


def joined_columns(parts: Sequence[PrivateColumns]) -> PrivateColumns:
    """Return the columns of several data sets with the same schema, one after the other."""
    train, test = (np.concatenate([getattr(part, field) for part in parts]) for field in ("train", "test"))
    return PrivateColumns(parts[0].schema, train, test)


def with_ranges(data: Dataset, ranges: Ranges | None) -> Dataset:
    """Return the data with the private columns scaled by released ranges; None: by `within`, as before the release.

    A record is prepared as `TableSchema.prepare` prepares it, and depends on this record and on the ranges only.
    """
    private = data.private
    assert private is not None
    schema = private.schema if ranges is None else private.schema.with_released(ranges)
    x, test_x = data.x.clone(), data.test_x.clone()
    for k, name in enumerate(private.names):
        column, place = schema.columns[name], schema.first_feature(name)
        assert isinstance(column, NumberColumn)
        for part, numbers in ((x, private.train), (test_x, private.test)):
            part[:, place] = torch.from_numpy(column.prepare_numbers(numbers[:, k])[0][:, 0].astype(np.float32))
    return replace(data, x=x, test_x=test_x, schema=schema)
