"""The sensitivity of what nodes send over DPPS, round by round: the real one beside what was said of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tacit.reports.charts import Figure, colour, figure, with_legend
from tacit.reports.record import Record
from tacit.runs.metrics import Trace, violations

MODES = ("real", "estimated", "certified", "replacement")
_KNOWN = {
    "real": (
        "The noise was scaled to the real sensitivity, the distance between the two nodes that were furthest apart. "
        "Only someone who sees every node’s data can know it, and it changes with them: noise that follows it proves "
        "nothing."
    ),
    "estimated": (
        "The noise was scaled to the paper’s estimate, whose constants C′ and λ are set by hand: nothing proves them."
    ),
    "certified": (
        "The noise was scaled to a bound on how far apart any two nodes can be, which follows from the graph and the "
        "clip bound, whatever the data are."
    ),
    "replacement": (
        "The noise was scaled to how far replacing all the data of a node can move its next message, which the clip "
        "bound makes public."
    ),
}


def used(run: Record) -> str | None:
    """The mode that the noise of a run was scaled to; None for a run that traced no sensitivity."""
    if not has_real(run.trace):
        return None
    said = re.search(r"scaled to the (\w+) sensitivity", run.privacy.note or "")
    return said[1] if said else next(column for column in run.trace[0] if column != "round")


def has_real(trace: Trace) -> bool:
    return any(row.get("real") is not None for row in trace)


def chart(trace: Trace, mode: str | None) -> Figure | None:
    """A curve for each way to know the sensitivity, the one in use bold, and a cross at each violation."""
    if not has_real(trace):
        return None
    known = [name for name in MODES if any(row.get(name) is not None for row in trace)]
    bold_below = sorted(known, key=lambda name: name != mode)  # it would hide a curve close to it
    curves = [_curve(trace, name, name == mode) for name in bold_below]
    broken = violations(trace)
    if broken:
        curves.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [row["round"] for row in broken],
                "y": [row["real"] for row in broken],
                "name": "real > estimated",
                "marker": {"symbol": "x", "size": 8, "color": "--run-6"},
                "hovertemplate": "round %{x}: the real sensitivity, %{y:.4g}, is above the estimate<extra></extra>",
            }
        )
    drawn = figure(curves, "Round", {"type": "log", "exponentformat": "power", "dtick": 1})
    return None if drawn is None else with_legend(drawn)


def violated(trace: Trace) -> str:
    """How often the estimate did not hold, in words; empty where there was no estimate to compare.

    >>> violated([{"round": 1, "real": 3.0, "estimated": 2.0}, {"round": 2, "real": 3.0, "estimated": 3.5}])
    'The estimate did not hold: in 1 of 2 rounds the real sensitivity was above it.'
    """
    rounds, broken = len(_both(trace)), len(violations(trace))
    if not rounds:
        return ""
    if not broken:
        return f"The estimate held: in none of {rounds:,} rounds was the real sensitivity above it."
    return f"The estimate did not hold: in {broken:,} of {rounds:,} rounds the real sensitivity was above it."


def warning(trace: Trace) -> str:
    """The same, where the estimate did not hold, and nothing where it did."""
    return violated(trace) if violations(trace) else ""


def in_words(run: Record) -> str:
    """What the noise was scaled to, and what that is worth; empty for a run that traced no sensitivity."""
    mode = used(run)
    if mode is None:
        return ""
    if {kind.mechanism for kind in run.released} == {"exact"}:
        return "There was no noise, so no sensitivity was needed."
    return " ".join([_KNOWN[mode], *([violated(run.trace)] if mode == "estimated" else [])]).strip()


def _curve(trace: Trace, name: str, bold: bool) -> Figure:
    index = MODES.index(name)
    points = [row for row in trace if row.get(name) is not None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [row["round"] for row in points],
        "y": [row[name] for row in points],
        "name": f"<b>{name}, in use</b>" if bold else name,
        "line": {"color": colour(index), "width": 3.5 if bold else 1.2},
        "hovertemplate": f"round %{{x}}: {name} %{{y:.4g}}<extra></extra>",
    }


def _both(trace: Trace) -> list[Mapping[str, Any]]:
    return [row for row in trace if row.get("real") is not None and row.get("estimated") is not None]
