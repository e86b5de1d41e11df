"""A draft of the config section that declares a table.

Privacy:
    Without `from_records` only the header of a csv file, or the names and types in a Parquet file, are read. With it,
    ranges, categories and dates are computed from the records. They are not private: whoever sees the draft learns
    something about single records. The draft states this, and the user replaces the values by public knowledge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from tacit.errors import TacitError, unknown
from tacit.tasks.data.table_source import TableSource
from tacit.tasks.inspection.cell_draft import draft_from_cells
from tacit.tasks.inspection.column_draft import ColumnDraft, Role, draft_from_name, draft_without_cells
from tacit.tasks.inspection.toml_text import inline, key_text

if TYPE_CHECKING:
    import pandas as pd

_MAX_RECORDS = 100_000  # that a draft examines
_CHUNK = 20_000
_EPSILON, _DELTA = 3.0, 1e-5

_NOT_PRIVATE = (
    "The ranges, categories and dates in this draft come from the records and are not private. Replace them by public "
    "knowledge before you train a model or share the file."
)
_FROM_NAMES = (
    "This draft comes from the names and types of the columns. No record was used. Complete the lines that start "
    'with "#": remove the "#", and replace the words in capitals by public knowledge, never by values of the records.'
)
_FORMS = (
    ("a number", "age = { range = [0, 110] }"),
    ("a skewed number", 'crp = { range = [0, 500], scale = "log" }'),
    ("a category", 'sex = { categories = ["F", "M"] }'),
    ("a date", 'visit = { date = ["2015-01-01", "2025-12-31"], format = "%d.%m.%Y" }'),
    ("not used", 'notes = "drop"'),
    ("a class to predict", 'outcome = { label = ["no", "yes"] }'),
    ("a number to predict", "stay = { target = [0, 60] }"),
    ("a count to predict", "falls = { count = [0, 20] }"),
)
_NO_TARGET = "One column must be the target: { label = [...] }, { target = [...] } or { count = [...] }."
_WIDTH = 118


@dataclass(frozen=True)
class TableDraft:
    """The draft of a config for a table.

    Attributes:
        data: The section `[data]` without its columns.
        columns: The columns in the order of the table.
        from_records: Whether values of records were used.
        has_target: Whether one of the columns is the target.
    """

    data: dict[str, Any]
    columns: Sequence[ColumnDraft]
    from_records: bool
    has_target: bool

    @property
    def warning(self) -> str | None:
        """What the user must know before anyone else sees the draft."""
        return _NOT_PRIVATE if self.from_records else None

    @property
    def complete(self) -> bool:
        """Whether the draft is a valid config as it is."""
        return self.has_target and all(column.declaration is not None for column in self.columns)

    def config(self) -> dict[str, Any]:
        """Return the config, with the columns whose declaration is complete."""
        columns = {column.name: column.declaration for column in self.columns if column.declaration is not None}
        mark = {"from_records": True} if self.from_records else {}
        return {"data": {**self.data, **mark, "columns": columns}, "privacy": {"epsilon": _EPSILON, "delta": _DELTA}}

    def as_dict(self) -> dict[str, Any]:
        """Return the draft for JSON."""
        columns = {
            each.name: {"declaration": each.declaration, "template": each.template or None, "comment": each.comment}
            for each in self.columns
        }
        return {
            "from_records": self.from_records,
            "complete": self.complete,
            "warning": self.warning,
            "columns": columns,
            "config": self.config(),
        }

    def text(self) -> str:
        """Return the draft as a TOML file with comments."""
        return "\n".join([*self._head(), *self._sections()]) + "\n"

    def _head(self) -> Iterator[str]:
        yield from _comment(f"WARNING: {self.warning}" if self.warning else _FROM_NAMES)
        width = max(len(meaning) for meaning, _ in _FORMS)
        yield "# Declarations of columns:"
        yield from (f"#   {meaning:<{width}}  {example}" for meaning, example in _FORMS)

    def _sections(self) -> Iterator[str]:
        yield from ("", "[data]")
        yield from (f"{key_text(key)} = {inline(value)}" for key, value in self.data.items())
        yield 'missing = "middle"  # of the range; "indicator" adds a column that marks missing cells; or "refuse"'
        if self.from_records:
            yield "from_records = true  # remove this line when all values below are public knowledge"
        yield from ("", "[data.columns]")
        yield from (column.line for column in self.columns)
        if not self.has_target:
            yield from _comment(_NO_TARGET)
        yield from ("", "[privacy]", f"epsilon = {_EPSILON}  # the ε to guarantee", f"delta = {_DELTA}")


def draft_table(
    table: TableSource,
    data: dict[str, Any],
    *,
    label: str | None = None,
    target: str | None = None,
    from_records: bool = False,
) -> TableDraft:
    """Return a draft of the config section for a table.

    Args:
        table: The table.
        data: The keys of `[data]` that name it: name, path and the form of the file.
        label: The column with the class to predict.
        target: The column with the number to predict.
        from_records: Also use the cells of the first records. See *Privacy* in this module.

    Raises:
        TacitError: If there is no such column, or two columns have the same name.
    """
    names = list(table.names)
    if repeated := [name for name in names if names.count(name) > 1]:
        raise TacitError(f"{table.where} has several columns {repeated[0]!r}: rename or remove them")
    if label is not None and target is not None:
        raise TacitError("A table has one target: give a label or a target, not both")
    roles: dict[str, Role] = {**({label: "label"} if label else {}), **({target: "target"} if target else {})}
    for name in roles:
        if name not in names:
            raise unknown(f"column of {table.where}", name, names)
    if not from_records:
        drafts = [draft_from_name(name, table.types.get(name), roles.get(name)) for name in names]
        return TableDraft(data, drafts, False, bool(roles))
    used = [name for name in names if name in roles or draft_without_cells(name, table.types.get(name)) is None]
    cells = _first_records(table, used)
    drafts = [
        draft_from_cells(name, cells[name], table.decimal, table.types.get(name), roles.get(name))
        if name in used
        else draft_from_name(name, table.types.get(name), None)
        for name in names
    ]
    return TableDraft(data, drafts, True, bool(roles))


def _first_records(table: TableSource, columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd  # slow to import

    if not columns:
        return pd.DataFrame()
    chunks = list(islice(table.chunks(columns, _CHUNK), _MAX_RECORDS // _CHUNK))
    return pd.concat(chunks, ignore_index=True) if chunks else pd.DataFrame(columns=list(columns), dtype=object)


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in wrap(text, _WIDTH))
