"""A csv file without declared columns: one label, and numbers in all other columns.

Errors name file, line and column, and no cell's content.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tasks.data.cells import DecimalMark, number_of, numbers, text_of
from tacit.tasks.data.checks import Array, first_unlisted, listing
from tacit.tasks.data.csv_table import CsvTable
from tacit.tasks.data.identifiers import looks_like_identifier
from tacit.tasks.target import Label

_ROWS = 20_000  # read together
_TRUTH = ("true", "false")


class NumericCsv:
    """The numbers of a csv file, and its labels as text.

    Attributes:
        x: The features (records, columns − 1).
        labels: The label of each record, as in the file.
    """

    def __init__(
        self,
        path: Path,
        label: str | int,
        header: bool | None = None,
        separator: str | None = None,
        decimal: DecimalMark | None = None,
        encoding: str | None = None,
    ) -> None:
        """Read a file. It has a header if `header` says so, or else if `label` is a name."""
        has_names = isinstance(label, str) if header is None else header
        wanted = [label] if isinstance(label, str) else []
        separator = separator or (None if has_names else ",")  # records do not decide about it
        self._table = CsvTable(path, wanted, separator, decimal, encoding, strict=True, header=has_names)
        self._hint = "" if has_names else "; if the first line has column names, set data.header = true"
        self._column = _label_column(path, self._table, label)
        self._features = [i for i in range(len(self.names)) if i != self._column]
        self._refuse_identifiers()
        self.x, self.labels = self._read()

    @property
    def names(self) -> Sequence[str]:
        """The column names; without a header, the indices from 0."""
        return self._table.names

    @property
    def has_numeric_labels(self) -> bool:
        """Whether all labels are numbers. This is learnt from the records: for labels that are not declared only."""
        return bool(np.isfinite(self._numbers()).all()) and not any(text.lower() in _TRUTH for text in self.labels)

    def check_same_columns(self, other: NumericCsv) -> None:
        """Raise if another table has other columns."""
        if other.names != self.names:
            raise TacitError(f"{other._table.path} must have the columns of {self._table.path}, in the same order")

    def arrays(self, numeric: bool, labels: Sequence[Label] | None) -> tuple[Array, Array]:
        """Return the features, and the labels as numbers or as text.

        Raises:
            TacitError: About the first cell that is not a finite number, or the first label that is not in `labels`.
        """
        self._refuse(np.array([not text for text in self.labels], bool), self._column, "has no label")
        y = self._numbers() if numeric else np.array(self.labels, str)
        if numeric:
            self._refuse(~np.isfinite(y), self._column, "is not a number, as the declared labels are")
        if labels is not None and (row := first_unlisted(y, labels)) is not None:
            self._refuse(np.arange(len(y)) == row, self._column, f"is not one of the labels {listing(labels)}")
        for i, column in enumerate(self._features):
            self._refuse(np.isnan(self.x[:, i]), column, "is not a finite number")
        return self.x, y

    def _read(self) -> tuple[NDArray[np.float32], list[str]]:
        parts, labels = [np.zeros((0, len(self._features)), np.float32)], []
        for chunk in self._table.chunks(self.names, _ROWS):
            columns = [numbers(chunk.iloc[:, i], self._table.decimal) for i in self._features]
            with np.errstate(over="ignore"):  # too large numbers become infinite, and are refused later
                parts.append(np.stack(columns, 1, dtype=np.float32, casting="same_kind") if columns else parts[0])
            labels += [text_of(cell) for cell in chunk.iloc[:, self._column]]
        return np.concatenate(parts) if self._features else np.zeros((len(labels), 0), np.float32), labels

    def _refuse_identifiers(self) -> None:
        for name in (self.names[i] for i in self._features):
            if self._table.header and looks_like_identifier(name):
                raise TacitError(
                    f'{self._table.path}: column "{name}" identifies records, by its name. Declare all columns in '
                    f'data.columns, with "{name}" = "drop", or remove the column'
                )

    def _numbers(self) -> NDArray[np.float64]:
        return np.array([number_of(text, self._table.decimal) for text in self.labels], np.float64)

    def _refuse(self, wrong: NDArray[np.bool_], column: int, problem: str) -> None:
        """Raise because of the first cell of a column that is wrong, if there is one."""
        if wrong.any():
            row = int(np.argmax(wrong))
            hint = self._hint if row == 0 else ""
            raise TacitError(f"{self._table.locate(row)}, column {self.names[column]} {problem}{hint}")


def _label_column(path: Path, table: CsvTable, label: str | int) -> int:
    """Return the index of the label's column."""
    names = list(table.names)
    if isinstance(label, str) and not table.header:
        raise TacitError(f'{path}: label = "{label}" is a column name, but header = false: set label to an index')
    if isinstance(label, str) and label not in names:
        raise TacitError(f'{path}: the first line, which must have the column names, has no column "{label}"')
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise TacitError(f'{path}: the first line, which must have the column names, has several columns "{repeated}"')
    if isinstance(label, str):
        return names.index(label)
    if not -len(names) <= label < len(names):
        raise TacitError(f"{path}: label column {label} does not exist; the columns are 0 … {len(names) - 1}")
    return label % len(names)
