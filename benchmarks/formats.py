"""Numbers and lines of the Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

Found = Mapping[str, Any]


def number(value: float) -> str:
    """Format a value with three significant digits.

    >>> number(3.456), number(123.4), number(0.01234), number(9.9999)
    ('3.46', '123', '0.0123', '10.00')
    """
    digits = max(0, 2 - math.floor(math.log10(value))) if 0 < value < 100 else 0
    return f"{value:,.{digits}f}"


def times(value: float) -> str:
    return f"{number(value)}×"


def milliseconds(seconds: float) -> str:
    return f"{number(1e3 * seconds)} ms" if seconds < 1 else f"{number(seconds)} s"


def gigabytes(measured: Found) -> float:
    """Return the peak memory of a contender with libraries and data."""
    return float(measured["memory"] + measured["base"]) / 1024


def rate(measured: Found | None) -> str:
    """Format rounds per second and peak megabytes."""
    return "" if measured is None else f"{number(1 / measured['seconds'])} ({measured['memory']:,.0f})"


def fastest(measured: Found, names: Iterable[str]) -> Found | None:
    """Return the fastest of these contenders, or None if none of them was measured."""
    present = [measured[name] for name in names if name in measured]
    return min(present, key=lambda each: each["seconds"], default=None)


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: list[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table with an empty line at its end, or nothing if it has no rows."""
    body = [line(row) for row in rows]
    return [line(head), line(["---"] * len(head)), *body, ""] if body else []
