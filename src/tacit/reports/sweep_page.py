"""The page of a sweep: what the tuning cost, the table, the metric by each setting, and the best config."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.reports.charts import Figure
from tacit.reports.formats import format_heading
from tacit.reports.run_panels import ChartPanel
from tacit.reports.template import render_template, write_page
from tacit.sweeps import SweepResult, SweepRow

SWEEP_FILE = "sweep.html"
_MAX_TICKS = 6
_LOG_SPAN = 10.0  # positive numbers that differ by this factor or more have a logarithmic axis


def write_sweep_page(result: SweepResult) -> Path:
    """Write sweep.html to the folder of a sweep."""
    if result.out is None:
        raise TacitError("This sweep has no folder for its page: run it with out=")
    return write_page(result.out / SWEEP_FILE, render_sweep_page(result))


def render_sweep_page(result: SweepResult) -> str:
    """The HTML of a sweep."""
    panels = [_panel(result, name, i) for i, name in enumerate(result.rows[0].point)]
    return render_template(
        "sweep.html",
        title=result.best_table.get("name", "sweep"),
        result=result,
        heading=format_heading(result.metric.short),
        reported=_with_unit(result, *result.reported),
        judged=_with_unit(result, result.rows[0].mean, result.rows[0].deviation),
        panels=panels,
        runs=[],
        figures={panel.id: panel.figure for panel in panels},
    )


def _panel(result: SweepResult, name: str, index: int) -> ChartPanel:
    """The metric of every setting against one of the swept values. A line joins the best setting of each value."""
    rows = [row for row in result.rows if row.mean is not None]
    values = [row.point[name] for row in rows]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    scale, unit = result.metric.scale, f" {result.metric.unit}" if result.metric.unit else ""
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": 300,
        "margin": {"l": 52, "r": 16, "t": 12, "b": 48},
        "xaxis": {"title": {"text": escape(name)}, **_axis(values, numeric=numeric)},
        "yaxis": {"title": {"text": result.metric.short_label}},
    }
    positions = values if numeric else [str(value) for value in values]
    figures = [*_best_of_each(rows, positions, scale, numeric=numeric), _points(rows, positions, scale, unit)]
    about = "judged, by setting; the star is the best one"
    heading = f"{format_heading(result.metric.short)} by {name}"
    return ChartPanel(f"chart-{index}", heading, about, {"data": figures, "layout": layout})


def _axis(values: Sequence[Any], *, numeric: bool) -> dict[str, Any]:
    """The x axis: numbers that span decades on a logarithmic one; few different numbers are all marked."""
    if not numeric:
        return {"type": "category"}
    different = sorted(set(values))
    log = different[0] > 0 and different[-1] >= _LOG_SPAN * different[0]
    ticks = {"tickvals": different, "ticktext": [f"{value:g}" for value in different]}
    return {"type": "log" if log else "linear", **(ticks if len(different) <= _MAX_TICKS else {"nticks": 6})}


def _points(rows: Sequence[SweepRow], x: Sequence[Any], scale: float, unit: str) -> Figure:
    texts = [escape(", ".join(f"{key} = {value}" for key, value in row.point.items())) for row in rows]
    marks: Figure = {
        "type": "scatter",
        "mode": "markers",
        "x": list(x),
        "y": [scale * float(row.mean or 0.0) for row in rows],
        "text": texts,
        "marker": {
            "symbol": ["star", *["circle"] * (len(rows) - 1)],
            "size": [15, *[9] * (len(rows) - 1)],
            "color": ["--run-1", *["--run-0"] * (len(rows) - 1)],
        },
        "hovertemplate": f"%{{text}}<br>%{{y:.4g}}{unit}<extra></extra>",
    }
    if any(row.deviation for row in rows):
        deviations = [scale * (row.deviation or 0.0) for row in rows]
        marks["error_y"] = {"array": deviations, "color": "--muted", "thickness": 1, "width": 3}
    return marks


def _best_of_each(rows: Sequence[SweepRow], x: Sequence[Any], scale: float, *, numeric: bool) -> list[Figure]:
    """A line through the best setting of each value, if values repeat and have an order. The best row is the first."""
    best: dict[Any, float] = {}
    for row, position in zip(rows, x, strict=True):
        best.setdefault(position, scale * float(row.mean or math.nan))
    if not numeric or (len(rows) < 2 * len(best) and len(rows[0].point) > 1):
        return []
    ordered = sorted(best)
    line = {"color": "--muted", "width": 1, "dash": "dot"}
    y = [best[position] for position in ordered]
    return [{"type": "scatter", "mode": "lines", "x": ordered, "y": y, "line": line, "hoverinfo": "skip"}]


def _with_unit(result: SweepResult, value: float | None, deviation: float | None) -> str:
    unit = f" {result.metric.unit}" if result.metric.unit and value is not None else ""
    return f"{result.metric_text(value, deviation)}{unit}"
