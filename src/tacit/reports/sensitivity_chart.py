"""The sensitivity of what nodes send over DPPS, per round: the real one and those of the other modes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tacit.reports.charts import LOG_AXIS, Figure, line_figure, series_colour, with_legend
from tacit.reports.run_record import RunRecord
from tacit.runs.metrics import Trace, violations

MODES = ("real", "estimated", "certified", "replacement")
_EXPLANATIONS = {
    "real": (
        "The noise is scaled to the real sensitivity: the largest distance between two nodes. Computing it takes the "
        "data of all nodes, and it changes with the data, so this noise guarantees nothing."
    ),
    "estimated": (
        "The noise is scaled to the paper’s estimate. Its constants C′ and λ are set by hand and not proven, so this "
        "noise guarantees nothing."
    ),
    "certified": (
        "The noise is scaled to an upper bound on the distance between any two nodes. The bound follows from the graph "
        "and the clip bound and holds for all data."
    ),
    "replacement": (
        "The noise is scaled to the largest change of a node’s next message if all data of the node are replaced. The "
        "clip bound makes this public."
    ),
}


def sensitivity_mode(run: RunRecord) -> str | None:
    """The mode to which the noise of a run is scaled; None if the run has no trace of it."""
    if not _has_real(run.trace):
        return None
    match = re.search(r"scaled to the (\w+) sensitivity", run.privacy.note or "")
    return match[1] if match else next(column for column in run.trace[0] if column != "round")


def sensitivity_chart(trace: Trace, mode: str | None) -> Figure | None:
    """One curve per mode, the one in use bold, and a cross at each round in which the estimate is violated."""
    if not _has_real(trace):
        return None
    present = [name for name in MODES if any(row.get(name) is not None for row in trace)]
    bold_first = sorted(present, key=lambda name: name != mode)  # drawn last, it would hide a curve close to it
    curves = [_curve(trace, name, name == mode) for name in bold_first]
    if violated := violations(trace):
        curves.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": [row["round"] for row in violated],
                "y": [row["real"] for row in violated],
                "name": "real > estimated",
                "marker": {"symbol": "x", "size": 8, "color": "--run-6"},
                "hovertemplate": "round %{x}: the real sensitivity, %{y:.4g}, exceeds the estimate<extra></extra>",
            }
        )
    figure = line_figure(curves, "Round", LOG_AXIS)
    return None if figure is None else with_legend(figure)


def estimate_check(trace: Trace) -> str:
    """Whether the estimate held; empty if there is no estimate.

    >>> estimate_check([{"round": 1, "real": 3.0, "estimated": 2.0}, {"round": 2, "real": 3.0, "estimated": 3.5}])
    'The estimate did not hold: the real sensitivity exceeds it in 1 of 2 rounds.'
    """
    rounds, violated = len(_with_estimate(trace)), len(violations(trace))
    if not rounds:
        return ""
    if not violated:
        return f"The estimate held: the real sensitivity exceeds it in none of {rounds:,} rounds."
    return f"The estimate did not hold: the real sensitivity exceeds it in {violated:,} of {rounds:,} rounds."


def estimate_warning(trace: Trace) -> str:
    """The same sentence if the estimate did not hold, otherwise an empty string."""
    return estimate_check(trace) if violations(trace) else ""


def noise_scale_text(run: RunRecord) -> str:
    """What the noise is scaled to and what that guarantees; empty for a run without a trace of it."""
    mode = sensitivity_mode(run)
    if mode is None:
        return ""
    if {each.mechanism for each in run.releases} == {"exact"}:
        return "There is no noise, so no sensitivity is needed."
    return " ".join([_EXPLANATIONS[mode], *([estimate_check(run.trace)] if mode == "estimated" else [])]).strip()


def _has_real(trace: Trace) -> bool:
    return any(row.get("real") is not None for row in trace)


def _with_estimate(trace: Trace) -> list[Mapping[str, Any]]:
    return [row for row in trace if row.get("real") is not None and row.get("estimated") is not None]


def _curve(trace: Trace, name: str, bold: bool) -> Figure:
    points = [row for row in trace if row.get(name) is not None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [row["round"] for row in points],
        "y": [row[name] for row in points],
        "name": f"<b>{name}, in use</b>" if bold else name,
        "line": {"color": series_colour(MODES.index(name)), "width": 3.5 if bold else 1.2},
        "hovertemplate": f"round %{{x}}: {name} %{{y:.4g}}<extra></extra>",
    }
