"""Ranges of columns from noised histograms. Everything here is computed from released values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tasks.data import RANGE_BINS, TableSchema
from tacit.tasks.data.cells import Floats

_TAIL = 0.01  # share of the records at either end that may lie outside the range
_FOUND = 5.0  # standard deviations of the noise above which one of all intervals contains records
_ADJACENT = 3.0  # the same for intervals beside one that does
_MOST_WIDENED = 0.5  # at either side, as a share of the width


def estimate_ranges(schema: TableSchema, counts: NDArray[Any], deviation: float) -> dict[str, list[float]]:
    """Return a range for each private column of the schema that contains most of the counted numbers.

    With little noise it is the range from the 1 % to the 99 % quantile. If all counts of a column may be noise, it is
    `within`.

    Args:
        schema: The columns, before the release.
        counts: The noised histograms of all private columns, as `ColumnHistogram` arranges them.
        deviation: The standard deviation of the noise in a count.
    """
    by_column = np.asarray(counts, np.float64).reshape(-1, RANGE_BINS)
    ranges = {}
    for (name, column), histogram in zip(schema.private_columns.items(), by_column, strict=True):
        first, last = find_records(histogram, deviation)
        ends = column.number_at(2 * first / RANGE_BINS - 1), column.number_at(2 * last / RANGE_BINS - 1)
        try:
            ranges[name] = list(replace(column, released=ends).bounds)
        except TacitError:  # `within` is so narrow that floats cannot represent the two ends of a bin
            ranges[name] = list(column.bounds)
    return ranges


def find_records(histogram: Floats, deviation: float) -> tuple[int, int]:
    """Return the edges (0 … bins) of the interval of a noised histogram that contains the records, first < last.

    1. The interval whose sum exceeds its noise by the largest factor. If that may be noise too: all bins.
    2. Intervals beside it whose sum exceeds their noise are added, until there are none.
    3. Bins at the ends that certainly contain less than 1 % of the records are removed.
    4. The noise can hide a share of the records beyond the ends. The interval is widened by this share of its width.

    >>> counts = np.zeros(256)
    >>> counts[100:104] = 250
    >>> find_records(counts, deviation=1.0), find_records(counts, deviation=30.0), find_records(counts, deviation=500.0)
    ((100, 104), (99, 105), (0, 256))
    """
    bins = len(histogram)
    below = np.concatenate([[0.0], np.cumsum(histogram)])
    edges = np.arange(bins + 1)
    widths = edges[None, :] - edges[:, None]
    scores = (below[None, :] - below[:, None]) / np.sqrt(np.maximum(widths, 1))
    scores[widths < 1] = -math.inf
    first, last = (int(edge) for edge in np.unravel_index(scores.argmax(), scores.shape))
    if scores[first, last] <= _FOUND * deviation:
        return 0, bins
    while first > 0 and scores[:first, first].max() > _ADJACENT * deviation:
        first = int(scores[:first, first].argmax())
    while last < bins and scores[last, last + 1 :].max() > _ADJACENT * deviation:
        last += 1 + int(scores[last, last + 1 :].argmax())
    return _widened(*_trimmed(histogram, first, last, deviation), below, deviation)


def _trimmed(histogram: Floats, first: int, last: int, deviation: float) -> tuple[int, int]:
    """Remove as many bins at both ends as certainly contain less than the tails."""
    inside = histogram[first:last]
    noise = _ADJACENT * deviation * np.sqrt(np.arange(1, len(inside) + 1))
    low, high = (
        int(np.flatnonzero(np.concatenate([[True], np.cumsum(part) + noise <= _TAIL * inside.sum()])).max())
        for part in (inside, inside[::-1])
    )
    return (first + low, last - high) if first + low < last - high else (first, last)


def _widened(first: int, last: int, below: Floats, deviation: float) -> tuple[int, int]:
    width, records = last - first, below[last] - below[first]
    hidden = _ADJACENT * deviation * math.sqrt(width) / max(records, deviation)
    margin = round(width * min(_MOST_WIDENED, hidden))
    return max(0, first - margin), min(len(below) - 1, last + margin)
