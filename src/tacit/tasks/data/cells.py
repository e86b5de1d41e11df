"""Cells of a table as texts, numbers and days.

Privacy:
    Every cell is converted by itself. No cell influences the value of another one, and none raises an error: a cell
    without a valid value is missing. Conversions that examine a whole column (`pandas.to_numeric`,
    `pandas.to_datetime`) are not used, because one cell can change what they return for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

DecimalMark = Literal[".", ",", "both"]
Floats = NDArray[np.float64]

_EPOCH = datetime(1970, 1, 1)
_SECOND, _SECONDS_PER_DAY = timedelta(seconds=1), 86_400
_TRUTH = {"true": 1.0, "false": 0.0}


def text_of(value: object) -> str:
    """Return the text of one cell, without spaces around it; empty if it is missing or of an unknown type.

    >>> [text_of(value) for value in (" F ", 1, 1.0, 2.5, True, None, float("nan"), date(2020, 1, 2))]
    ['F', '1', '1', '2.5', 'True', '', '', '2020-01-02']
    """
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, date):
        return value.isoformat()
    try:
        return str(value) if isinstance(value, bool | int | Decimal) else ""
    except ValueError:  # an integer with thousands of digits
        return ""


def number_of(text: str, decimal: DecimalMark = ".") -> float:
    """Return the number that a cell contains, or NaN if it contains no finite number.

    >>> [number_of(text) for text in ("3.5", "-1e3", "true", "3,5", "1_000", "inf", "")]
    [3.5, -1000.0, 1.0, nan, nan, nan, nan]
    >>> number_of("3,5", ","), number_of("3.5", ","), number_of("3,5", "both"), number_of("3.5", "both")
    (3.5, nan, 3.5, 3.5)
    """
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    if "_" in text or (decimal == "," and "." in text):
        return math.nan
    try:
        number = float(text if decimal == "." else text.replace(",", "."))
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def day_of(text: str, form: str | None = None) -> float:
    """Return the days since 1970-01-01 (UTC), to the second, or NaN if the text is not a date.

    Args:
        text: The cell.
        form: The format of dates, as for `datetime.strptime`; None is ISO 8601.

    >>> day_of("1970-01-03"), day_of("1970-01-01T12:00"), day_of("03.01.1970", "%d.%m.%Y"), day_of("yesterday")
    (2.0, 0.5, 2.0, nan)
    """
    try:
        moment = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
        since = moment.replace(tzinfo=None) - _EPOCH - (moment.utcoffset() or timedelta(0))
    except (ValueError, OverflowError):
        return math.nan
    return (since // _SECOND) / _SECONDS_PER_DAY


def numbers(cells: pd.Series, decimal: DecimalMark = ".") -> Floats:
    """Return the numbers of a column; NaN for cells that contain no finite number."""
    if cells.dtype.kind in "biuf":
        values = cells.to_numpy(np.float64, na_value=np.nan)
        return np.where(np.isfinite(values), values, np.nan)
    return converted(cells, lambda text: number_of(text, decimal))


def days(cells: pd.Series, form: str | None = None) -> Floats:
    """Return the days since 1970-01-01 of a column of dates; NaN for cells that contain no date."""
    if cells.dtype.kind == "M":
        naive = cells if getattr(cells.dt, "tz", None) is None else cells.dt.tz_convert("UTC").dt.tz_localize(None)
        moments = naive.to_numpy().astype("datetime64[s]")
        return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / _SECONDS_PER_DAY)
    return converted(cells, lambda text: day_of(text, form))


def converted(cells: pd.Series, convert: Callable[[str], float]) -> Floats:
    """Return convert(text) for every cell. It is computed once per distinct cell; a missing cell is NaN."""
    import pandas as pd  # slow to import

    # Equal objects of different types, such as 1 and True, are different texts.
    plain = pd.Series(_texts(cells), dtype=object) if cells.dtype == object else cells
    codes, distinct = pd.factorize(plain)
    values: Floats = np.array([*map(convert, _texts(distinct)), math.nan])
    result: Floats = values[codes]  # code −1, a missing cell, takes the last one
    return result


def _texts(values: Iterable[Any]) -> list[str]:
    return [text_of(value) for value in values]
