"""Numbers of a declared range as positions in [−1, 1], and back."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tacit.tasks.data.cells import Floats


def scaled(values: Floats, low: float, high: float, log: bool = False) -> tuple[Floats, NDArray[np.bool_]]:
    """Return numbers as one column, [low, high] mapped to [−1, 1] and missing ones 0, and which are not missing.

    Numbers outside the range are clamped; NaN is missing. With `log`, log(1 + x − low) is mapped in place of x.

    >>> scaled(np.array([0.0, 5.0, 99.0, math.nan]), 0, 10)[0][:, 0].tolist()
    [-1.0, 0.0, 1.0, 0.0]
    """
    valid = ~np.isnan(values)
    clamped = np.clip(np.where(valid, values, low), low, high)
    if log:
        positions = 2 * np.log1p(clamped - low) / math.log1p(high - low) - 1
    else:
        positions = (2 * clamped - (low + high)) / (high - low)
    return np.where(valid, np.clip(positions, -1, 1), 0.0)[:, None], valid


def number_at(position: float, low: float, high: float, log: bool = False) -> float:
    """Return the number that `scaled` maps to a position in [−1, 1], up to rounding.

    >>> number_at(0.0, 0, 10), number_at(-1.0, 3, 10, log=True), number_at(1.0, 3, 10, log=True)
    (5.0, 3, 10)
    """
    if abs(position) >= 1:
        return low if position < 0 else high
    share = (position + 1) / 2
    above = math.expm1(share * math.log1p(high - low)) if log else share * (high - low)
    return min(max(low + above, low), high)
