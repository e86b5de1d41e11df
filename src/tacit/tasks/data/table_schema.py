"""The declared columns of a table, and how its records are prepared for a model.

Privacy:
    Columns, shapes and scales follow from the declaration and from released ranges alone. A record is prepared by
    itself: whatever one record contains, the prepared values of all others and the number of records stay the same.
    Nothing is raised because of a cell, except with `missing = "refuse"`, which is for people who check their own file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError, close_name, unknown
from tacit.tasks.data.cells import DecimalMark, Floats, numbers
from tacit.tasks.data.columns import (
    Column,
    DroppedColumn,
    InputColumn,
    Missing,
    NumberColumn,
    Valid,
    parse_column,
)
from tacit.tasks.data.target_columns import FlagColumn, TargetColumn
from tacit.tasks.target import Target

if TYPE_CHECKING:
    import pandas as pd

Locate = Callable[[int], str]


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table, as declared. Two sites with equal schemas prepare the same record in the same way.

    Attributes:
        columns: The columns by name, in alphabetical order. Prepared columns have this order too, so that the order in
            which columns are declared or stored does not matter.
        missing: How a missing cell is prepared: as the "middle" of the range (0 in every prepared column), as the
            middle and a 1 in an additional column (indicator), or not at all (refuse). A cell is missing if it is
            empty, not a finite number, not a date or not one of the categories.

    >>> schema = TableSchema.parse({"age": {"range": [0, 110]}, "sex": {"categories": ["F", "M"], "missing":
    ...     "indicator"}, "name": "drop", "outcome": {"label": ["no", "yes"]}})
    >>> schema.inputs, schema.features
    ((4,), ['age', 'sex=F', 'sex=M', 'sex missing'])
    >>> import pandas as pd
    >>> patients = pd.DataFrame({"age": [55, 200], "sex": ["M", "?"], "outcome": ["yes", "no"]})
    >>> schema.prepare(patients).tolist(), schema.targets(patients).tolist()
    ([[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]], [1, 0])
    """

    columns: Mapping[str, Column]
    missing: Missing = "middle"

    def __post_init__(self) -> None:
        if self.missing not in get_args(Missing):
            raise unknown("value of missing", str(self.missing), get_args(Missing))
        object.__setattr__(self, "columns", {name: self.columns[name] for name in sorted(self.columns)})
        if not self.input_columns:
            raise TacitError("no column is declared from which to predict, such as age = {range = [0, 110]}")
        flags = [name for name, column in self.target_columns.items() if isinstance(column, FlagColumn)]
        targets = list(self.target_columns)
        if not targets:
            raise TacitError(
                'no column is declared as the target, such as outcome = {label = ["no", "yes"]} or '
                "stay = {target = [0, 60]}"
            )
        if len(targets) > 1 and flags != targets:
            raise TacitError(f"only one column can be the target, or several flags; got: {', '.join(targets)}")

    @classmethod
    def parse(cls, columns: Mapping[str, Any], missing: Missing = "middle") -> TableSchema:
        """Return the schema that `[data.columns]` declares."""
        return cls({name: parse_column(name, declared) for name, declared in columns.items()}, missing)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableSchema:
        """Return the schema from the values of `to_dict`."""
        if extra := set(values) - {"columns", "missing"}:
            raise unknown("key of a table", min(extra), ["columns", "missing"])
        return cls.parse(values["columns"], values.get("missing", "middle"))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as JSON (and TOML) values."""
        return {"columns": {name: each.declaration() for name, each in self.columns.items()}, "missing": self.missing}

    @cached_property
    def input_columns(self) -> dict[str, InputColumn]:
        """The columns from which a model predicts."""
        return {name: column for name, column in self.columns.items() if isinstance(column, InputColumn)}

    @cached_property
    def target_columns(self) -> dict[str, TargetColumn]:
        """The columns that a model predicts: one, or several flags."""
        return {name: column for name, column in self.columns.items() if isinstance(column, TargetColumn)}

    @cached_property
    def dropped_columns(self) -> list[str]:
        """The names of the columns that are not used."""
        return [name for name, column in self.columns.items() if isinstance(column, DroppedColumn)]

    @cached_property
    def private_columns(self) -> dict[str, NumberColumn]:
        """The columns whose range is a private release that has not been made."""
        columns = self.input_columns.items()
        return {name: each for name, each in columns if isinstance(each, NumberColumn) and each.private}

    def with_released(self, ranges: Mapping[str, Sequence[float]]) -> TableSchema:
        """Return the schema with the released ranges of its private columns."""
        released: dict[str, Column] = {}
        for name, column in self.private_columns.items():
            low, high = ranges[name]
            released[name] = replace(column, released=(low, high))
        return replace(self, columns={**self.columns, **released})

    @property
    def refuses_missing(self) -> bool:
        """Whether a missing cell of some column stops the reading of the table."""
        return any(self._missing(name) == "refuse" for name in self.used_columns())

    @cached_property
    def features(self) -> list[str]:
        """The names of the prepared columns."""
        return [feature for _, column_features in self._layout() for feature in column_features]

    @property
    def inputs(self) -> tuple[int]:
        """The shape of one prepared record."""
        return (len(self.features),)

    @cached_property
    def target(self) -> Target:
        """What a model predicts."""
        flags = tuple(name for name, column in self.target_columns.items() if isinstance(column, FlagColumn))
        if flags:
            return Target("labels", flags)
        ((name, column),) = self.target_columns.items()
        return column.target_of(name)

    def used_columns(self, targets: bool = True) -> list[str]:
        """Return the names of the columns that are read; without `targets`, those that a prediction needs."""
        return [*self.input_columns, *(self.target_columns if targets else ())]

    def check_columns(self, names: Collection[str], where: str, targets: bool = True) -> None:
        """Raise if the columns of a table are not the declared ones. Their names are public; their order is free.

        Dropped columns may be absent. Without `targets`, the target may be absent, and other columns are ignored.
        """
        if absent := [name for name in self.used_columns(targets) if name not in names]:
            free = [name for name in names if name not in self.columns]
            listed = ", ".join(_with_suggestion(name, free) for name in absent)
            plural = "s" if len(absent) > 1 else ""
            raise TacitError(f"{where} has no column{plural} {listed}; it has: {', '.join(names)}")
        if repeated := [name for name in self.used_columns(targets) if list(names).count(name) > 1]:
            raise TacitError(f"{where} has several columns {', '.join(map(repr, repeated))}: rename or remove them")
        extra = [name for name in names if name not in self.columns] if targets else []
        if extra:
            raise TacitError(
                f"{where} has columns that are not declared in data.columns: {', '.join(extra)}. Declare them, or add "
                f'"{extra[0]}" = "drop" for each that is not to be used'
            )

    def prepare(
        self, table: pd.DataFrame, decimal: DecimalMark = ".", locate: Locate | None = None
    ) -> NDArray[np.float32]:
        """Return the prepared records (M, width).

        Args:
            table: The cells: text as in a file, or typed values.
            decimal: The decimal mark of numbers in text.
            locate: Returns the position of a row for errors, such as "records.csv: line 7".

        Raises:
            TacitError: If a column is absent, or a cell is missing in a column with `missing = "refuse"`.
        """
        self.check_columns(list(table.columns), "the table", targets=False)
        prepared = np.zeros((len(table), *self.inputs), np.float32)
        start = 0
        for name, features in self._layout():
            values, valid = self.input_columns[name].prepare(table[name], decimal)
            self._refuse_missing(name, valid, locate)
            prepared[:, start : start + values.shape[1]] = values
            if values.shape[1] < len(features):
                prepared[:, start + values.shape[1]] = ~valid
            start += len(features)
        return prepared

    def private_numbers(self, table: pd.DataFrame, decimal: DecimalMark = ".") -> Floats:
        """Return the numbers (M, k) of the k private columns in their own units; NaN for missing cells."""
        columns = [numbers(table[name], decimal) for name in self.private_columns]
        return np.stack(columns, axis=1) if columns else np.zeros((len(table), 0))

    def first_feature(self, column: str) -> int:
        """Return the position of a column's first prepared column."""
        widths = {name: len(features) for name, features in self._layout()}
        return sum(widths[name] for name in widths if name < column)  # columns are in alphabetical order

    def targets(self, table: pd.DataFrame, decimal: DecimalMark = ".", locate: Locate | None = None) -> NDArray[Any]:
        """Return the targets of the records, as `target` demands. The arguments are those of `prepare`."""
        columns = []
        for name, column in self.target_columns.items():
            values, valid = column.values(table[name], decimal)
            self._refuse_missing(name, valid, locate)
            columns.append(values)
        return np.stack(columns, axis=1) if self.target.kind == "labels" else columns[0]

    def _layout(self) -> Iterator[tuple[str, list[str]]]:
        """Each input column with the names of its prepared columns."""
        for name, column in self.input_columns.items():
            indicator = [f"{name} missing"] if self._missing(name) == "indicator" else []
            yield name, [*column.features(name), *indicator]

    def _missing(self, name: str) -> Missing:
        return self.columns[name].missing or self.missing

    def _refuse_missing(self, name: str, valid: Valid, locate: Locate | None) -> None:
        if self._missing(name) == "refuse" and not valid.all():
            row = int(np.argmin(valid))
            where = locate(row) if locate else f"row {row} (counted from 0)"
            raise TacitError(
                f'{where}, column {name} is missing or not valid, and missing = "refuse": correct the table, or set '
                'missing = "middle" or "indicator"'
            )


def _with_suggestion(name: str, names: Collection[str]) -> str:
    near = close_name(name, names)
    return repr(name) if near is None else f"{name!r} (did you mean {near!r}?)"
