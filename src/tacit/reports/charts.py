"""Charts as Plotly figures. Colours are names of CSS variables, which the page replaces by those of its theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from tacit.reports.run_record import RunRecord
from tacit.runs import DEVIATION
from tacit.runs.metrics import Metric, metric

Figure = dict[str, Any]
LOG_AXIS = {"type": "log", "exponentformat": "power", "dtick": 1}
_COLOURS = 8
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
LOG_RATIO = 20.0  # values further apart, such as a claim and a guarantee, have a logarithmic axis
_MAX_MARKERS = 30  # more markers would hide the line


def series_colour(index: int) -> str:
    """The CSS variable of a series' colour."""
    return f"--run-{index % _COLOURS}"


def metric_over_rounds(runs: Sequence[RunRecord], shown: Metric) -> Figure | None:
    """A metric over rounds, one curve per run; None if no run has it."""
    hover = f"round %{{x}}: %{{y:{shown.format}}}{_suffix(shown)}"
    bands = [_band(run, i, "round", shown.name, shown.scale) for i, run in enumerate(runs)]
    curves = [_history_curve(run, i, "round", shown.name, hover, shown.scale) for i, run in enumerate(runs)]
    rangemode = "normal" if shown.headline else "tozero"
    return line_figure([*bands, *curves], "Round", {"ticksuffix": _suffix(shown), "rangemode": rangemode})


def metric_over_cost(runs: Sequence[RunRecord], shown: Metric) -> Figure | None:
    """A metric against the cost clock; None if nothing has a cost."""
    if not any(row["cost_seconds"] for run in runs for row in run.evaluations):
        return None
    return _metric_over(runs, shown, "cost_seconds", "%{x:.4g} s")


def metric_over_epsilon(runs: Sequence[RunRecord], shown: Metric) -> Figure | None:
    """A metric against the guaranteed ε spent; None if no run has a guarantee."""
    return _metric_over(runs, shown, "guaranteed", "guaranteed ε = %{x:.3g}")


def epsilon_over_rounds(runs: Sequence[RunRecord]) -> Figure | None:
    """Guaranteed ε as solid lines, claimed ε as dotted lines."""
    curves = []
    for i, run in enumerate(runs):
        if run.privacy.guaranteed is not None:
            curves.append(_history_curve(run, i, "round", "guaranteed", "round %{x}: guaranteed ε = %{y:.3g}"))
        claimed = _history_curve(run, i, "round", "claimed", "round %{x}: claimed ε = %{y:.3g}")
        if claimed is not None:
            dotted = {**claimed["line"], "dash": "dot"}
            curves.append({**claimed, "name": f"{claimed['name']}, claimed", "mode": "lines", "line": dotted})
    if not _far_apart(runs):
        return line_figure(curves, "Round", {"rangemode": "tozero"})
    return line_figure([_positive(each) for each in curves], "Round", dict(LOG_AXIS))


def curve(x: Sequence[Any], y: Sequence[Any], name: str, index: int, hover: str) -> Figure:
    """One line of a chart, with markers if there are few points."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= _MAX_MARKERS else "lines",
        "x": list(x),
        "y": list(y),
        "name": name,
        "cliponaxis": False,
        "line": {"color": series_colour(index), "width": 2},
        "marker": {"size": 6, "symbol": _SYMBOLS[index % len(_SYMBOLS)], "color": series_colour(index)},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def line_figure(
    curves: Sequence[Figure | None], x_title: str, y_axis: Mapping[str, Any], height: int = 270
) -> Figure | None:
    """A figure of the curves that are not None, in the page's style; None if there are none."""
    traces = [trace for trace in curves if trace is not None]
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": height,
        "margin": {"l": 44, "r": 12, "t": 12, "b": 44},
        "xaxis": {"title": {"text": x_title}, "rangemode": "tozero"},
        "yaxis": dict(y_axis),
    }
    return {"data": traces, "layout": layout} if traces else None


def with_legend(figure: Figure) -> Figure:
    """The figure with the names of its curves above it."""
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    margin = {**figure["layout"]["margin"], "t": 34}
    return {**figure, "layout": {**figure["layout"], "showlegend": True, "legend": legend, "margin": margin}}


def _metric_over(runs: Sequence[RunRecord], y: Metric, column: str, x_hover: str) -> Figure | None:
    x = metric(column)
    hover = f"{x_hover}: %{{y:{y.format}}}{_suffix(y)}"
    shown = [(i, run) for i, run in enumerate(runs) if column != "guaranteed" or run.privacy.guaranteed is not None]
    bands = [_band(run, i, column, y.name, y.scale) for i, run in shown]
    curves = [_history_curve(run, i, column, y.name, hover, y.scale) for i, run in shown]
    return line_figure([*bands, *curves], x.label, {"ticksuffix": _suffix(y)})


def _history_curve(run: RunRecord, index: int, x: str, y: str, hover: str, scale: float = 1.0) -> Figure | None:
    """Column y against column x of a run's history; None if the history lacks one of them."""
    points = [(row[x], row[y] * scale) for row in run.evaluations if row.get(x) is not None and row.get(y) is not None]
    if not points:
        return None
    name = escape(run.name, quote=False)
    figure = curve([x for x, _ in points], [y for _, y in points], name, index, f"{name}<br>{hover}")
    return {**figure, "meta": index}


def _band(run: RunRecord, index: int, x: str, y: str, scale: float) -> Figure | None:
    """One standard deviation over seeds around the mean; None if the history has no deviations."""
    deviation = f"{y}{DEVIATION}"
    rows = [row for row in run.evaluations if None not in (row.get(x), row.get(y), row.get(deviation))]
    if not rows:
        return None
    upper = [(row[x], (row[y] + row[deviation]) * scale) for row in rows]
    lower = [(row[x], (row[y] - row[deviation]) * scale) for row in reversed(rows)]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [point[0] for point in upper + lower],
        "y": [point[1] for point in upper + lower],
        "fill": "toself",
        "fillcolor": series_colour(index),
        "opacity": 0.18,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
        "meta": index,
    }


def _far_apart(runs: Sequence[RunRecord]) -> bool:
    """Whether a claimed ε is so far from the guaranteed ε that a linear axis would hide one of them."""
    columns = ("guaranteed", "claimed")
    rows = [row for run in runs if run.privacy.guaranteed is not None for row in run.evaluations]
    largest = [max((row[name] for row in rows if row.get(name) is not None), default=0.0) for name in columns]
    return min(largest) > 0 and max(largest) > LOG_RATIO * min(largest)


def _positive(figure: Figure | None) -> Figure | None:
    """The points of a curve that a logarithmic axis can show."""
    if figure is None:
        return None
    points = [(x, y) for x, y in zip(figure["x"], figure["y"], strict=True) if y > 0]
    return {**figure, "x": [x for x, _ in points], "y": [y for _, y in points]}


def _suffix(shown: Metric) -> str:
    return f" {shown.unit}" if shown.unit else ""
