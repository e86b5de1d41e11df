"""Columns of a table, as declared in `[data.columns]`. A declaration contains public facts only.

A kind of column is registered under the key that declares it: `age = {range = [0, 110]}` is the kind "range".

Privacy:
    A column is prepared from its declaration and one cell at a time. Nothing is learnt from the records, except for a
    range that a run has released with noise (`released`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator

from tacit.errors import TacitError, unknown
from tacit.registry import Registry
from tacit.tasks.data.categories import Category, check_different, positions
from tacit.tasks.data.cells import DecimalMark, Floats, day_of, days, numbers, text_of
from tacit.tasks.data.scaling import number_at, scaled

if TYPE_CHECKING:
    import pandas as pd

Missing = Literal["middle", "indicator", "refuse"]
Valid = NDArray[np.bool_]
DROP = "drop"


def _interval(value: Any) -> tuple[float, float]:
    is_pair = isinstance(value, Sequence) and len(value) == 2
    if is_pair and all(isinstance(end, int | float) and not isinstance(end, bool) for end in value):
        low, high = float(value[0]), float(value[1])
        if low < high and math.isfinite(2 * high - 2 * low):
            return low, high
    raise ValueError("must be [low, high]: two finite numbers, low < high")


def _range(value: Any) -> tuple[float, float] | Literal["private"]:
    return "private" if value == "private" else _interval(value)


def _dates(value: Any) -> tuple[str, str]:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        first, last = (text_of(end) for end in value)
        if day_of(first) < day_of(last):
            return first, last
    raise ValueError('must be [first, last]: two ISO dates such as "2015-01-31", first < last')


Interval = Annotated[tuple[float, float], PlainValidator(_interval)]
Range = Annotated[tuple[float, float] | Literal["private"], PlainValidator(_range)]
Dates = Annotated[tuple[str, str], PlainValidator(_dates)]


@dataclass(frozen=True, kw_only=True)
class Column:
    """The declaration of one column. `missing` overrides that of the table."""

    missing: Missing | None = None

    def declaration(self) -> dict[str, Any] | str:
        """Return the declaration as JSON values, without defaults."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {each.name: values[each.name] for each in fields(self) if values[each.name] != each.default}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}


@dataclass(frozen=True, kw_only=True)
class DroppedColumn(Column):
    """A column that is not used: `notes = "drop"`."""

    def declaration(self) -> str:
        return DROP


class InputColumn(Column, ABC):
    """A column from which a model predicts."""

    @abstractmethod
    def features(self, name: str) -> list[str]:
        """Return the names of the prepared columns, without the indicator of missing cells."""

    @abstractmethod
    def prepare(self, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, Valid]:
        """Return the prepared columns (M, features), in which missing cells are 0, and which cells are not missing."""


column_kinds: Registry[Column] = Registry("declaration")


@column_kinds.register("range")
@dataclass(frozen=True, kw_only=True)
class NumberColumn(InputColumn):
    """A number: `age = {range = [0, 110]}`. The range is mapped to [−1, 1]; numbers outside it are clamped.

    Attributes:
        range: The smallest and the largest number; "private" releases a range inside `within` privately.
        scale: "log" maps log(1 + x − low) instead of x, for numbers of very different size. Of a private range, low is
            the lower end of `within`.
        within: The public bounds of a private range.
        released: The private range that a run has released. It is public then.
    """

    range: Range
    scale: Literal["linear", "log"] = "linear"
    within: Interval | None = None
    released: Interval | None = None

    def __post_init__(self) -> None:
        private = self.range == "private"
        if private and self.within is None:
            raise TacitError('range = "private" needs public bounds: set within = [low, high]')
        for key in ("within", "released"):
            if not private and getattr(self, key) is not None:
                raise TacitError(f'{key} has an effect only with range = "private": remove it')
        if self.released is not None:
            low, high = self._outer
            first, last = self._released_positions
            if not (low <= self.released[0] and self.released[1] <= high and first < last):
                raise TacitError(f"released = {list(self.released)} must be a range inside within = {[low, high]}")

    @property
    def private(self) -> bool:
        """Whether the range must still be released."""
        return self.range == "private" and self.released is None

    @property
    def bounds(self) -> tuple[float, float]:
        """The numbers that are mapped to −1 and 1."""
        return self.released or self._outer

    def features(self, name: str) -> list[str]:
        return [name]

    def prepare(self, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, Valid]:
        return self.prepare_numbers(numbers(cells, decimal))

    def prepare_numbers(self, values: Floats) -> tuple[Floats, Valid]:
        """Return what `prepare` returns for cells with these numbers; NaN is a missing cell."""
        positions, valid = scaled(values, *self._outer, log=self.scale == "log")
        if self.released is None:
            return positions, valid
        inside, _ = scaled(positions[:, 0], *self._released_positions)
        return np.where(valid[:, None], inside, 0.0), valid

    def number_at(self, position: float) -> float:
        """Return the number at a position in [−1, 1] of the declared range or of `within`."""
        return number_at(position, *self._outer, log=self.scale == "log")

    @property
    def _outer(self) -> tuple[float, float]:
        """The range as declared; of a private one, `within`."""
        outer = self.within if self.range == "private" else self.range
        assert outer is not None
        return outer

    @property
    def _released_positions(self) -> tuple[float, float]:
        """The released range as positions in [−1, 1] of `within`."""
        assert self.released is not None
        (first,), (last,) = scaled(np.array(self.released), *self._outer, log=self.scale == "log")[0]
        return float(first), float(last)


@column_kinds.register("date")
@dataclass(frozen=True, kw_only=True)
class DateColumn(InputColumn):
    """A date: `visit = {date = ["2015-01-01", "2025-12-31"]}`. It is scaled and clamped like a number.

    Attributes:
        date: The first and the last date.
        format: The format of the cells, such as "%d.%m.%Y". Default: ISO 8601.
    """

    date: Dates
    format: str | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            example = date(2019, 12, 31)
            if day_of(example.strftime(self.format), self.format) != day_of(example.isoformat()):
                raise TacitError(f'format = "{self.format}" does not describe a date; an example is "%d.%m.%Y"')

    def features(self, name: str) -> list[str]:
        return [name]

    def prepare(self, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, Valid]:
        first, last = (day_of(end) for end in self.date)
        return scaled(days(cells, self.format), first, last)


@column_kinds.register("categories")
@dataclass(frozen=True, kw_only=True)
class CategoryColumn(InputColumn):
    """One of several categories: `sex = {categories = ["F", "M"]}`. It becomes one column of 0 and 1 per category."""

    categories: tuple[Category, ...]

    def __post_init__(self) -> None:
        check_different("categories", self.categories, least=1)

    def features(self, name: str) -> list[str]:
        return [f"{name}={text_of(category)}" for category in self.categories]

    def prepare(self, cells: pd.Series, decimal: DecimalMark) -> tuple[Floats, Valid]:
        found = positions(cells, self.categories, decimal)
        return (found[:, None] == np.arange(len(self.categories))).astype(np.float64), found >= 0


def parse_column(name: str, declared: Any) -> Column:
    """Return the column that a value of `[data.columns]` declares.

    >>> parse_column("age", {"range": [0, 110]})
    NumberColumn(missing=None, range=(0.0, 110.0), scale='linear', within=None, released=None)
    >>> parse_column("age", {"rnge": [0, 110]})
    Traceback (most recent call last):
    tacit.errors.TacitError: column age: unknown declaration "rnge"; did you mean "range"?
    """
    if declared == DROP:
        return DroppedColumn()
    if not isinstance(declared, Mapping):
        example = '{range = [0, 110]}, {categories = ["F", "M"]} or "drop"'
        raise TacitError(f"column {name}: a declaration is a table such as {example}, got {declared!r}")
    keys = [key for key in declared if key in column_kinds]
    if len(keys) > 1 or not declared:
        problem = f"has {' and '.join(keys)}" if keys else "is empty"
        raise TacitError(f"column {name}: the declaration {problem}; it needs one of: {', '.join(column_kinds)}")
    try:
        if not keys:
            raise unknown("declaration", next(iter(declared)), column_kinds)
        return column_kinds.build(keys[0], declared)
    except TacitError as error:
        raise TacitError(f"column {name}: {error}") from None
