"""How pages write numbers. Words that stand for a missing number state why it is missing."""

from __future__ import annotations

from collections.abc import Callable

from tacit.privacy import rounded_up
from tacit.runs.metrics import Metric

NO_GUARANTEE = "no guarantee"
NO_CLAIM = "no claim"
NOT_MEASURED = "not measured"
NOT_SET = "not set"


def format_number(value: float | None, style: str = ".3g") -> str:
    return NOT_MEASURED if value is None else format(value, style)


def format_epsilon(value: float | None) -> str:
    """A guaranteed ε to four digits, rounded up.

    >>> format_epsilon(2.99351), format_epsilon(None)
    ('2.994', 'no guarantee')
    """
    return NO_GUARANTEE if value is None else rounded_up(value)


def format_claim(value: float | None) -> str:
    """A claimed ε to four digits.

    >>> format_claim(2.78849), format_claim(500_000.0), format_claim(None)
    ('2.788', '500,000', 'no claim')
    """
    if value is None:
        return NO_CLAIM
    return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"


def format_measured(value: float | None, shown: Metric) -> str:
    """A metric with its unit."""
    return NOT_MEASURED if value is None else shown.text(value)


def format_heading(text: str) -> str:
    """
    >>> format_heading("balanced accuracy"), format_heading("RMSE"), format_heading("ε")
    ('Balanced accuracy', 'RMSE', 'ε')
    """
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def format_bytes(value: float | None) -> str:
    """
    >>> format_bytes(0), format_bytes(52_080), format_bytes(5_208_000), format_bytes(None)
    ('0 B', '52.1 kB', '5.21 MB', 'not measured')
    """
    if value is None:
        return NOT_MEASURED
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"


FILTERS: dict[str, Callable[..., str]] = {
    "number": format_number,
    "epsilon": format_epsilon,
    "claim": format_claim,
    "measured": format_measured,
    "heading": format_heading,
    "bytes": format_bytes,
}
