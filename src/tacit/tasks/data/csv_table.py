"""A table of numbers with one label column in a csv file. Errors name file, line and column, and no cell's content."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tacit.errors import TacitError
from tacit.tasks.data.checks import Array, Label, first_unlisted, listing


@dataclass(frozen=True)
class CsvTable:
    """The cells of a csv file, as text.

    Attributes:
        path: The file.
        names: The column names; without a header, the indices from 0.
        column: The index of the label's column.
        rows: The line number and the cells of each record.
        hint: What to set if the first line is not what it is read as.
    """

    path: Path
    names: list[str]
    column: int
    rows: list[tuple[int, list[str]]]
    hint: str

    @classmethod
    def read(cls, path: Path, label: str | int, header: bool | None) -> "CsvTable":
        """Read a file. It has a header if `header` says so, or else if `label` is a name."""
        rows = _lines(path)
        if not rows:
            raise TacitError(f"{path} is empty; it needs one record per line")
        width = len(rows[0][1])
        ragged = next(((line, row) for line, row in rows if len(row) != width), None)
        if ragged:
            raise TacitError(f"{path}: line {ragged[0]} has {len(ragged[1])} values, line {rows[0][0]} has {width}")
        has_names = isinstance(label, str) if header is None else header
        names = [cell.strip() for cell in rows[0][1]] if has_names else [str(i) for i in range(width)]
        hint = "" if has_names else "; if the first line has column names, set data.header = true"
        return cls(path, names, _column(path, names, label, has_names), rows[1:] if has_names else rows, hint)

    @property
    def has_numeric_labels(self) -> bool:
        """Whether all labels are numbers. This is learnt from the records: for labels that are not declared only."""
        return all(_is_number(row[self.column]) for _, row in self.rows)

    def arrays(self, numeric: bool, labels: Sequence[Label] | None) -> tuple[Array, Array]:
        """Return the features (records, columns − 1), and the labels as numbers or as text.

        Raises:
            TacitError: About the first cell that is not a finite number, or the first label that is not in `labels`.
        """
        text = [row[self.column].strip() for _, row in self.rows]
        self._refuse(next((i for i, label in enumerate(text) if not label), None), self.column, "has no label")
        if numeric:
            wrong = next((i for i, label in enumerate(text) if not _is_number(label)), None)
            self._refuse(wrong, self.column, "is not a number, as the declared labels are")
        y = np.array([float(label) for label in text]) if numeric else np.array(text, str)
        if labels is not None:
            self._refuse(first_unlisted(y, labels), self.column, f"is not one of the labels {listing(labels)}")
        columns = [i for i in range(len(self.names)) if i != self.column]
        cells = [[_number(row[column]) for column in columns] for _, row in self.rows]
        x = np.array(cells, np.float64).reshape(len(cells), len(columns))
        for i, column in np.argwhere(~np.isfinite(x))[:1]:
            self._refuse(int(i), columns[column], "is not a finite number")
        return x, y

    def check_same_columns(self, other: "CsvTable") -> None:
        """Raise if another table has other columns."""
        if other.names != self.names:
            raise TacitError(f"{other.path} must have the columns of {self.path}, in the same order")

    def _refuse(self, i: int | None, column: int, problem: str) -> None:
        """Raise because of a cell of record i, if there is one."""
        if i is not None:
            hint = self.hint if i == 0 else ""
            raise TacitError(f"{self.path}: line {self.rows[i][0]}, column {self.names[column]} {problem}{hint}")


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            return [(reader.line_num, row) for row in reader if row]
    except UnicodeDecodeError:  # its message contains a byte of the file
        raise TacitError(f"{path} is not a UTF-8 text file of comma-separated values") from None
    except csv.Error as error:
        raise TacitError(f"{path} is not a UTF-8 text file of comma-separated values ({error})") from None


def _column(path: Path, names: list[str], label: str | int, has_names: bool) -> int:
    """Return the index of the label's column."""
    if isinstance(label, int):
        if not -len(names) <= label < len(names):
            raise TacitError(f"{path}: label column {label} does not exist; the columns are 0 … {len(names) - 1}")
        return label % len(names)
    if not has_names:
        raise TacitError(f'{path}: label = "{label}" is a column name, but header = false: set label to an index')
    if (count := names.count(label)) != 1:
        problem = "has no column" if count == 0 else "has several columns"
        raise TacitError(f'{path}: the first line, which must have the column names, {problem} "{label}"')
    return names.index(label)


def _number(cell: str) -> float:
    """Return the number in a cell, or NaN."""
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _is_number(cell: str) -> bool:
    return not math.isnan(_number(cell))
