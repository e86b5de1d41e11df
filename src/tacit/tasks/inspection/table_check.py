"""How many cells of a table do not fit its declaration.

Privacy:
    The counts are computed from the records without noise. They are for the person who holds the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.tasks.data.cells import DecimalMark, Floats, day_of, days, numbers, text_of
from tacit.tasks.data.columns import Column, DateColumn, InputColumn, NumberColumn, Valid
from tacit.tasks.data.table_schema import TableSchema
from tacit.tasks.data.table_source import TableSource
from tacit.tasks.data.target_columns import CountColumn, NumberTargetColumn, TargetColumn

if TYPE_CHECKING:
    import pandas as pd

_CHUNK = 20_000


@dataclass(frozen=True)
class ColumnCheck:
    """The cells of one column.

    Attributes:
        name: The column.
        missing: Cells that are empty.
        unknown: Cells that are not empty, but not a number, date, category or label as declared. They count as
            missing.
        clamped: Numbers and dates outside the declared range.
    """

    name: str
    missing: int
    unknown: int
    clamped: int


@dataclass(frozen=True)
class TableCheck:
    """How a table fits its declaration. It is confidential.

    Attributes:
        records: The number of records.
        columns: The declared columns that the table has, without dropped ones.
        absent: Declared columns that the table does not have, without dropped ones.
        undeclared: Columns of the table that are not declared.
    """

    records: int
    columns: Sequence[ColumnCheck]
    absent: Sequence[str]
    undeclared: Sequence[str]

    @property
    def fits(self) -> bool:
        """Whether the table has exactly the declared columns. No cell decides about it."""
        return not self.absent and not self.undeclared

    def as_dict(self) -> dict[str, Any]:
        """Return the check for JSON."""
        return {"confidential": True, **asdict(self), "fits": self.fits}


class CellCounter:
    """Counts the cells of some columns that are missing, unknown or outside the declared range, chunk by chunk.

    Attributes:
        records: The number of records so far.
    """

    def __init__(self, schema: TableSchema, names: Sequence[str], decimal: DecimalMark) -> None:
        self.records, self._schema, self._decimal = 0, schema, decimal
        self._counts = {name: np.zeros(3, np.int64) for name in names}

    def add(self, chunk: pd.DataFrame) -> None:
        """Count the cells of a chunk, which has all of the columns."""
        self.records += len(chunk)
        for name, counts in self._counts.items():
            counts += _counts(self._schema.columns[name], chunk[name], self._decimal)

    def checks(self) -> list[ColumnCheck]:
        """Return the counts of each column."""
        return [ColumnCheck(name, *map(int, counts)) for name, counts in self._counts.items()]


def check_table(table: TableSource, schema: TableSchema) -> TableCheck:
    """Count the cells of a table that are missing, unknown or outside the declared range."""
    names = list(table.names)
    used = [name for name in schema.used_columns() if name in names]
    counter = CellCounter(schema, used, table.decimal)
    for chunk in table.chunks(used, _CHUNK) if used else ():
        counter.add(chunk)
    return TableCheck(
        records=table.rows,
        columns=counter.checks(),
        absent=[name for name in schema.used_columns() if name not in names],
        undeclared=[name for name in names if name not in schema.columns],
    )


def _counts(column: Column, cells: pd.Series, decimal: DecimalMark) -> tuple[int, int, int]:
    valid = _valid(column, cells, decimal)
    not_valid = cells[~valid]
    empty = int((not_valid.isna() | (not_valid.map(text_of) == "")).sum())
    values, low, high = _values(column, cells, decimal)
    outside = (values < low) | (values > high)
    return empty, len(not_valid) - empty, int((outside & valid).sum())


def _valid(column: Column, cells: pd.Series, decimal: DecimalMark) -> Valid:
    if isinstance(column, InputColumn):
        return column.prepare(cells, decimal)[1]
    assert isinstance(column, TargetColumn)
    return column.values(cells, decimal)[1]


@singledispatch
def _values(column: Column, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, float, float]:
    """Return the numbers that are clamped, and their range."""
    return np.zeros(len(cells)), 0.0, 0.0


@_values.register(NumberColumn)
def _(column: NumberColumn, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, float, float]:
    return numbers(cells, decimal), *column.bounds


@_values.register(DateColumn)
def _(column: DateColumn, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, float, float]:
    first, last = (day_of(end) for end in column.date)
    return days(cells, column.format), first, last


@_values.register(NumberTargetColumn)
def _(column: NumberTargetColumn, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, float, float]:
    return numbers(cells, decimal), *column.target


@_values.register(CountColumn)
def _(column: CountColumn, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, float, float]:
    return numbers(cells, decimal), *column.count
