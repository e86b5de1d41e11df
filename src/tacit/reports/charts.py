"""The page's charts as Plotly figures. A colour is the name of a CSS variable: the page puts in its theme's own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from tacit.privacy.statement import rounded_up
from tacit.reports.record import Record
from tacit.runs.metrics import Metric

Figure = dict[str, Any]
COLOURS = 8
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
_MARKED = 30  # evaluations beyond which a mark for each would hide the line


def colour(run: int) -> str:
    return f"--run-{run % COLOURS}"


def over_rounds(runs: Sequence[Record], metric: Metric) -> Figure | None:
    """A metric over rounds, one curve per run; None where no run has it."""
    unit = f" {metric.unit}" if metric.unit else ""
    hover = f"round %{{x}}: %{{y:{metric.format}}}{unit}"
    curves = [curve(run, i, "round", metric.name, hover, metric.scale) for i, run in enumerate(runs)]
    return figure(curves, "Round", {"ticksuffix": unit, "rangemode": "normal" if metric.headline else "tozero"})


def accuracy_over_cost(runs: Sequence[Record]) -> Figure | None:
    """What time buys: accuracy against the cost clock; None where nothing costs any."""
    if not any(row["cost_seconds"] for run in runs for row in run.history):
        return None
    hover = "%{x:.4g} s: %{y:.1%}"
    curves = [curve(run, i, "cost_seconds", "accuracy", hover) for i, run in enumerate(runs)]
    return figure(curves, "Seconds of the cost clock", {"tickformat": ".0%"})


def epsilon_over_rounds(runs: Sequence[Record]) -> Figure | None:
    """Guaranteed ε as a solid line, claimed ε as a dotted one. A run without a guarantee has no solid line."""
    curves = []
    for i, run in enumerate(runs):
        if run.privacy.guaranteed is not None:
            curves.append(curve(run, i, "round", "guaranteed", "round %{x}: guaranteed ε = %{y:.3g}"))
        claimed = curve(run, i, "round", "claimed", "round %{x}: claimed ε = %{y:.3g}")
        if claimed is not None:
            curves.append({**claimed, "mode": "lines", "line": {**claimed["line"], "dash": "dot"}})
    return figure(curves, "Round", {"rangemode": "tozero"})


def accuracy_over_epsilon(runs: Sequence[Record]) -> Figure | None:
    """What privacy buys: accuracy against the guaranteed ε spent by then."""
    hover = "guaranteed ε = %{x:.3g}: %{y:.1%}"
    private = [(i, run) for i, run in enumerate(runs) if run.privacy.guaranteed is not None]
    curves = [curve(run, i, "guaranteed", "accuracy", hover) for i, run in private]
    return figure(curves, "Guaranteed ε", {"tickformat": ".0%"})


def curve(run: Record, index: int, x: str, y: str, hover: str, scale: float = 1.0) -> Figure | None:
    """Column y against column x of a run's history; None where it has no such numbers."""
    points = [(row[x], row[y] * scale) for row in run.history if row.get(x) is not None and row.get(y) is not None]
    if not points:
        return None
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(points) <= _MARKED else "lines",
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "name": escape(run.name, quote=False),
        "meta": index,
        "cliponaxis": False,
        "line": {"color": colour(index), "width": 2},
        "marker": {"size": 6, "symbol": _SYMBOLS[index % len(_SYMBOLS)], "color": colour(index)},
        "hovertemplate": f"{escape(run.name, quote=False)}<br>{hover}<extra></extra>",
    }


def network(run: Record) -> Figure | None:
    """The nodes, and one trace of links for each round shown, of which the page makes one visible at a time."""
    if not run.graph["positions"]:
        return None
    links = [_links(run, t) for t in range(len(run.graph["rounds"]))]
    bare: dict[str, Any] = {"visible": False, "range": [-1.15, 1.15], "fixedrange": True}
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": 260,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": bare,
        "yaxis": {**bare, "scaleanchor": "x"},
    }
    return {"data": [*links, _nodes(run)], "layout": layout}


def _links(run: Record, t: int) -> Figure:
    """Line by line, with gaps between; a directed link ends in an arrow short of its target."""
    places, directed = run.graph["positions"], run.graph["directed"]
    ends = [(places[source], places[target]) for source, target in run.graph["rounds"][t]]
    trace: Figure = {
        "type": "scatter",
        "mode": "lines+markers" if directed else "lines",
        "x": [x for a, b in ends for x in (a[0], b[0], None)],
        "y": [y for a, b in ends for y in (a[1], b[1], None)],
        "line": {"color": "--link", "width": 1.4 if len(ends) <= 200 else 0.7},
        "hoverinfo": "skip",
        "visible": t == 0,
        "meta": "links",
    }
    if directed:
        trace["marker"] = {
            "symbol": "arrow",
            "angleref": "previous",
            "standoff": _size(run) / 2 + 1,
            "size": [0, 11, 0] * len(ends),
            "color": "--link",
            "opacity": 1,
        }
    return trace


def _nodes(run: Record) -> Figure:
    places = run.graph["positions"]
    told = {row["node"]: row for row in run.nodes}
    return {
        "type": "scatter",
        "mode": "markers+text" if len(places) <= 60 else "markers",
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "text": [str(node) for node in range(len(places))],
        "textfont": {"color": "--on-node", "size": 11},
        "marker": {"size": _size(run), "color": colour(0), "line": {"color": "--card", "width": 1}},
        "customdata": [_about(told.get(node)) for node in range(len(places))],
        "hovertemplate": "node %{text}%{customdata}<extra></extra>",
        "meta": "nodes",
    }


def _about(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    spent = "none guaranteed" if row["guaranteed"] is None else f"guaranteed ε = {rounded_up(row['guaranteed'], 3)}"
    return f"<br>{row['records']:,} records<br>{spent}"


def _size(run: Record) -> int:
    return 22 if run.graph["nodes"] <= 30 else 16 if run.graph["nodes"] <= 60 else 8


def figure(curves: Sequence[Figure | None], x: str, axis: dict[str, Any]) -> Figure | None:
    """The curves there are in the page's common look; None where there are none."""
    traces = [trace for trace in curves if trace is not None]
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": 270,
        "margin": {"l": 44, "r": 12, "t": 12, "b": 44},
        "xaxis": {"title": {"text": x}, "rangemode": "tozero"},
        "yaxis": axis,
    }
    return {"data": traces, "layout": layout} if traces else None


def with_legend(drawn: Figure) -> Figure:
    """The figure with its curves' names above it."""
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    margin = {**drawn["layout"]["margin"], "t": 34}
    return {**drawn, "layout": {**drawn["layout"], "showlegend": True, "legend": legend, "margin": margin}}
