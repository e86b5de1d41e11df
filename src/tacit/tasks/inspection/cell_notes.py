"""Notes about columns in which many cells do not fit the declaration.

Privacy:
    The notes are computed from the records without noise. They are for the person who holds the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import singledispatch

from tacit.tasks.data.categories import Category
from tacit.tasks.data.cells import DecimalMark, text_of
from tacit.tasks.data.columns import CategoryColumn, Column, DateColumn, NumberColumn
from tacit.tasks.data.table_schema import TableSchema
from tacit.tasks.inspection.table_check import ColumnCheck

_NOTED, _NAMED = 0.2, 0.05  # shares of the cells: all that do not fit, and those of one kind
_LEAST = 2
_MAX_CATEGORIES = 5


def cell_notes(
    checks: Iterable[ColumnCheck], schema: TableSchema, records: int, decimal: DecimalMark = "."
) -> list[str]:
    """Return one note per input column in which more than 20 % of the cells are empty, unknown or clamped.

    A single cell gives no note, unless there is only one record.

    >>> schema = TableSchema.parse({"age": {"range": [0, 110]}, "ill": {"label": ["no", "yes"]}})
    >>> cell_notes([ColumnCheck("age", 1, 0, 97)], schema, 100)
    ['column age: 97 % of the cells are outside the declared range [0, 110] and were clamped']
    """
    return [
        f"column {check.name}: {'; '.join(_parts(check, schema.columns[check.name], records, decimal))}"
        for check in checks
        if _is_noted(check.missing + check.unknown + check.clamped, records)
    ]


def _is_noted(cells: int, records: int) -> bool:
    return cells >= min(_LEAST, records) and cells > _NOTED * records


def _parts(check: ColumnCheck, column: Column, records: int, decimal: DecimalMark) -> Iterator[str]:
    """The kinds of cells that do not fit, the most frequent first."""
    kinds = (
        (check.missing, "empty"),
        (check.unknown, f"{_unknown(column, decimal)} and count as missing"),
        (check.clamped, f"outside the declared range {_range(column)} and were clamped"),
    )
    of_cells = " of the cells"
    for cells, words in sorted(kinds, key=lambda kind: -kind[0]):
        if cells >= _NAMED * records:
            yield f"{_percent(cells, records)} %{of_cells} are {words}"
            of_cells = ""


def _percent(cells: int, records: int) -> int:
    """100 means all cells."""
    return 100 if cells == records else min(99, round(100 * cells / records))


@singledispatch
def _unknown(column: Column, decimal: DecimalMark) -> str:
    return "not valid"


@_unknown.register(NumberColumn)
def _(column: NumberColumn, decimal: DecimalMark) -> str:
    return "not numbers" if decimal == "both" else f'not numbers with the decimal mark "{decimal}"'


@_unknown.register(DateColumn)
def _(column: DateColumn, decimal: DecimalMark) -> str:
    if column.format is None:
        return "not ISO 8601 dates such as 2020-12-31"
    return f'not dates in the format "{column.format}"'


@_unknown.register(CategoryColumn)
def _(column: CategoryColumn, decimal: DecimalMark) -> str:
    return f"none of the declared categories ({_listed(column.categories)})"


def _listed(categories: tuple[Category, ...]) -> str:
    more = ", …" if len(categories) > _MAX_CATEGORIES else ""
    return ", ".join(map(text_of, categories[:_MAX_CATEGORIES])) + more


def _range(column: Column) -> str:
    ends = column.bounds if isinstance(column, NumberColumn) else getattr(column, "date", ())
    return f"[{', '.join(map(text_of, ends))}]"
