"""Cells that are one of several declared values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tasks.data.cells import DecimalMark, converted, number_of, text_of

if TYPE_CHECKING:
    import pandas as pd

Category = bool | str | int | float


def check_different(key: str, values: Sequence[Category], least: int, most: float = math.inf) -> None:
    """Raise if there are too few or too many values, or if two of them are equal in a file."""
    texts = [text_of(value) for value in values]
    if not least <= len(values) <= most or len(set(texts)) < len(texts) or "" in texts:
        count = f"{least}" if most == least else f"at least {least}"
        raise TacitError(f"{key} must list {count} different values that are not empty, got {list(values)}")


def positions(cells: pd.Series, values: Sequence[Category], decimal: DecimalMark) -> NDArray[np.int64]:
    """Return the position in `values` of each cell; −1 if it is not one of them.

    If all values are numbers, cells are compared as numbers, otherwise as text. `true` and `false` have any case.
    """
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        known = {float(value): i for i, value in enumerate(values)}
        found = converted(cells, lambda text: known.get(number_of(text, decimal), -1))
    else:
        texts = {text_of(value): i for i, value in enumerate(values)}
        truth = {text.lower(): i for text, i in texts.items() if text.lower() in ("true", "false")}
        found = converted(cells, lambda text: texts.get(text, truth.get(text.lower(), -1)))
    return np.where(np.isnan(found), -1, found).astype(np.int64)
