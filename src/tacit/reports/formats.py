"""How pages write numbers."""

from __future__ import annotations

from collections.abc import Callable

from tacit.privacy import rounded_up
from tacit.runs.metrics import metric


def format_number(value: float | None, style: str = ".3g") -> str:
    return "none" if value is None else format(value, style)


def format_epsilon(value: float | None) -> str:
    """A guaranteed ε to three digits, rounded up."""
    return "none" if value is None else rounded_up(value, 3)


def format_claim(value: float | None) -> str:
    return metric("claimed").text(value)


def format_heading(text: str) -> str:
    """
    >>> format_heading("balanced accuracy"), format_heading("RMSE")
    ('Balanced accuracy', 'RMSE')
    """
    return text[:1].upper() + text[1:]


def format_bytes(value: float) -> str:
    """
    >>> format_bytes(0), format_bytes(52_080), format_bytes(5_208_000)
    ('0 B', '52.1 kB', '5.21 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"


FILTERS: dict[str, Callable[..., str]] = {
    "number": format_number,
    "epsilon": format_epsilon,
    "claim": format_claim,
    "heading": format_heading,
    "bytes": format_bytes,
}
