"""Quantiles from a noised histogram. Everything here is computed from released values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError


def quantiles(
    counts: NDArray[np.float64], levels: Sequence[float], low: float = -1.0, high: float = 1.0
) -> NDArray[np.float64]:
    """Return the smallest numbers below which the given shares of the counted numbers are.

    Noise makes cumulative counts fall in places. They are replaced by the non-decreasing sequence that is closest in
    least squares, and the quantile is interpolated within its bin.

    Privacy:
        This is post-processing of a released histogram.

    Args:
        counts: (bins,) the noised histogram of one feature; see `Histogram`.
        levels: Shares in [0, 1].
        low: The lower end of the range of the histogram.
        high: The upper end.

    >>> quantiles(np.array([0.0, 10.0, 10.0, 0.0]), [0.25, 0.5, 0.75])
    array([-0.25,  0.  ,  0.25])
    """
    from scipy import optimize  # slow to import

    shares = np.asarray(levels, np.float64)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise TacitError(f"levels of quantiles must be in [0, 1], got {list(levels)}")
    below = np.concatenate([[0.0], np.cumsum(np.asarray(counts, np.float64))])
    fitted = optimize.isotonic_regression(below).x
    edges = np.linspace(low, high, len(below))
    if not fitted[-1] > fitted[0]:  # the counts are noise only
        return np.asarray(low + shares * (high - low))
    goals = fitted[0] + shares * (fitted[-1] - fitted[0])
    above = np.clip(np.searchsorted(fitted, goals), 1, len(fitted) - 1)
    rise = fitted[above] - fitted[above - 1]
    inside = np.divide(goals - fitted[above - 1], rise, out=np.zeros_like(goals), where=rise > 0)
    return np.asarray(edges[above - 1] + inside * (edges[above] - edges[above - 1]))
