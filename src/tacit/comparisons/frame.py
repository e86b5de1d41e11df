"""The results of a comparison as a data frame, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.comparisons.curves import table_metrics
from tacit.errors import TacitError
from tacit.runs import DEVIATION

if TYPE_CHECKING:
    import pandas as pd

_FRAME_NAMES = {"guaranteed": "epsilon_guaranteed", "claimed": "epsilon_claimed", "claimed_for": "epsilon_claimed_for"}
_NEEDED = ("algorithm", "epsilon_guaranteed", "epsilon_claimed", "unit", "relation", "rounds", "bytes", "cost_seconds")


def comparison_frame(rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a comparison as a data frame, with the method as index and what belongs to them in `attrs`.

    A metric is two columns, `accuracy` and `accuracy_std`: mean and standard deviation over the seeds. Deviations of
    a single run, and all other values that are not known, are NaN.
    """
    import pandas as pd  # slow to import

    frame = pd.DataFrame([_flat(row) for row in rows]).set_index("method")
    texts = ["algorithm", "epsilon_claimed_for", "unit", "relation"]
    whole = ["rounds", "seeds"]
    numbers = [name for name in frame.columns if name not in (*texts, *whole, "simulated")]
    frame = frame.astype(dict.fromkeys(numbers, "float64") | dict.fromkeys(whole, "int64"))
    frame.attrs = {"statement": comparison_statement(facts), **facts}
    return frame


def frame_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a comparison from its frame, of which methods and metrics may have been removed.

    Raises:
        TacitError: The frame is not that of a comparison.
    """
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing or "statement" not in frame.attrs:
        lacks = f"column {missing[0]}" if missing else 'attrs["statement"]'
        raise TacitError(f"this is not a frame of tacit.compare: it has no {lacks}")
    return [_nested(str(label), values) for label, values in frame.to_dict("index").items()]


def comparison_statement(facts: Mapping[str, Any]) -> str:
    """Return what the numbers of a comparison are, and what they are not."""
    seeds = facts["seeds"]
    over = "One seed per method." if seeds == 1 else f"Means and standard deviations over {seeds} seeds."
    note = f" {facts['note']} Their ε cannot be compared." if facts["note"] else ""
    return (
        f"{over} Guaranteed (simulated) ε at δ = {facts['delta']:g}: an upper bound, the largest of all seeds. "
        f"Claimed ε: the paper's formula.{note} SIMULATION: the noise is derived from the seeds, so these runs protect "
        "nobody."
    )


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    metrics = {each.name for each in table_metrics()}
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if key in metrics:
            mean, deviation = value or (None, None)
            flat |= {key: mean, f"{key}{DEVIATION}": None if row["seeds"] == 1 else deviation}
        else:
            flat[_FRAME_NAMES.get(key, key)] = value
        if key == "guaranteed":
            flat["simulated"] = True  # a comparison runs no secret noise
    return flat


def _nested(label: str, values: Mapping[Any, Any]) -> dict[str, Any]:
    known = {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in values.items()}
    row = {key: known[name] for key, name in _FRAME_NAMES.items() if name in known}
    row |= {key: known[key] for key in ("algorithm", "unit", "relation", "rounds", "bytes", "cost_seconds")}
    row |= {"method": label, "seeds": known.get("seeds")}
    for each in table_metrics():
        mean, deviation = known.get(each.name), known.get(f"{each.name}{DEVIATION}")
        row[each.name] = None if mean is None else [mean] if deviation is None else [mean, deviation]
    return row
