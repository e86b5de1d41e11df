"""The draft of one column's declaration, from its cells. What it contains is not private: see `draft_table`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.tasks.data.cells import DecimalMark, Floats, days, number_of, numbers, text_of
from tacit.tasks.data.columns import DROP
from tacit.tasks.data.table_source import ColumnType
from tacit.tasks.inspection.column_draft import (
    ColumnDraft,
    Role,
    draft_without_cells,
    looks_like_date,
    template,
)

if TYPE_CHECKING:
    import pandas as pd

FROM_RECORDS = "from the records: replace by public knowledge"
_DATE_FORMATS = (None, "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%Y %H:%M")
_MOST = 0.9  # of the cells that are not empty must be of a kind
_MAX_CATEGORIES = 50
_RARE = 0.01  # categories with a smaller share are taken as mistakes
_FAR = 100  # interquartile ranges from the quartiles: numbers beyond are taken as mistakes
_SKEWED = 20  # times the distance from the minimum to the median: wider ranges get a logarithmic scale
_EPOCH = date(1970, 1, 1)


def draft_from_cells(
    name: str, cells: pd.Series, decimal: DecimalMark, stored: ColumnType | None, role: Role | None
) -> ColumnDraft:
    """Return a draft of a column's declaration from its cells.

    Args:
        name: The name of the column.
        cells: The cells.
        decimal: The decimal mark of numbers in text.
        stored: The type that the file states; None for text files.
        role: How the column is the target, if it is.
    """
    if role == "label":
        return _label(name, cells, decimal)
    if role == "target":
        found = _range(numbers(cells, decimal))
        if found is None:
            return template(name, "target", "the target; the records have no numbers")
        return ColumnDraft(name, {"target": found[0]}, f"the target; {FROM_RECORDS}")
    if (dropped := draft_without_cells(name, stored)) is not None:
        return dropped
    declared = _declaration(name, cells, decimal)
    if declared is None:
        return ColumnDraft(name, DROP, "too many different values, or none: no kind of column fits the records")
    return ColumnDraft(name, declared, FROM_RECORDS)


def _declaration(name: str, cells: pd.Series, decimal: DecimalMark) -> dict[str, Any] | None:
    texts = cells[cells.notna()].map(text_of)
    texts = texts[texts != ""]
    if not len(texts):
        return None
    filled, counts = cells[texts.index], texts.value_counts()
    if set(counts.index.str.lower()) <= {"true", "false"}:
        return {"categories": [False, True]}
    number, dated = numbers(filled, decimal), _dates(filled)
    has_numbers = np.isfinite(number).mean() >= _MOST
    if dated is not None and (looks_like_date(name) or not has_numbers):
        return dated
    if has_numbers and (found := _range(number)) is not None:
        bounds, skewed = found
        return {"range": bounds, **({"scale": "log"} if skewed else {})}
    common = counts[counts >= max(2, _RARE * len(filled))]
    if len(common) <= _MAX_CATEGORIES and common.sum() >= _MOST * len(filled):
        return {"categories": sorted(common.index)}
    return None


def _label(name: str, cells: pd.Series, decimal: DecimalMark) -> ColumnDraft:
    """All values are labels, however rare: the class to predict may be rare."""
    values = sorted({text_of(cell) for cell in cells[cells.notna()]} - {""})
    as_numbers = [number_of(value, decimal) for value in values]
    labels: Sequence[Any] = values
    if {value.lower() for value in values} <= {"true", "false"}:
        labels = [False, True]
    elif not any(map(math.isnan, as_numbers)):
        labels = sorted({_plain(number) for number in as_numbers})
    if not 2 <= len(labels) <= _MAX_CATEGORIES:
        expected = f"the records have not 2 to {_MAX_CATEGORIES} different values"
        return template(name, "label", f"the target, in the order of the classes; {expected}")
    return ColumnDraft(name, {"label": list(labels)}, f"the target, in the order of the classes; {FROM_RECORDS}")


def _dates(filled: pd.Series) -> dict[str, Any] | None:
    """Return the declaration of dates, with whole years around them; None if most cells are not dates."""
    parsed = {form: days(filled, form) for form in _DATE_FORMATS}
    form = max(parsed, key=lambda form: np.isfinite(parsed[form]).sum())  # the first one, if several are equal
    found = parsed[form][np.isfinite(parsed[form])]
    if len(found) < _MOST * len(filled):
        return None
    first, last = (_EPOCH + timedelta(days=math.floor(day)) for day in (found.min(), found.max()))
    ends = [date(first.year, 1, 1).isoformat(), date(last.year, 12, 31).isoformat()]
    return {"date": ends, **({"format": form} if form else {})}


def _range(values: Floats) -> tuple[list[float], bool] | None:
    """Return the range of the numbers, rounded outwards, and whether most of them are close to its lower end."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    reach = _FAR * (high - low)
    if reach > 0:
        values = values[(values >= low - reach) & (values <= high + reach)]
    smallest, largest = float(values.min()), float(values.max())
    skewed = smallest >= 0 and largest - smallest > _SKEWED * (middle - smallest) > 0
    return _rounded_outwards(smallest, largest), bool(skewed)


def _rounded_outwards(low: float, high: float) -> list[float]:
    """Return the next round numbers outside an interval.

    >>> _rounded_outwards(12.3, 58.9), _rounded_outwards(0, 104), _rounded_outwards(7, 7)
    ([10, 60], [0, 150], [6, 8])
    """
    if low == high:
        return [math.floor(low) - 1, math.ceil(high) + 1]
    step = 10.0 ** math.floor(math.log10(high - low)) / 2
    digits = max(0, -math.floor(math.log10(step)))
    return [_plain(round(math.floor(low / step) * step, digits)), _plain(round(math.ceil(high / step) * step, digits))]


def _plain(number: float) -> float:
    return int(number) if float(number).is_integer() else float(number)
