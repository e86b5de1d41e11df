"""The page of an experiment: charts of its results beside the published numbers, and the table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tacit.reports.charts import Figure, series_colour
from tacit.reports.experiment_table import axis_name, difference_sentences, experiment_table, has_noise
from tacit.reports.run_page import REPORT_FILE
from tacit.reports.run_panels import ChartPanel
from tacit.reports.sensitivity_chart import estimate_warning, sensitivity_chart
from tacit.reports.template import render_template, write_page
from tacit.reproduce import Experiment, ExperimentChart, ExperimentResults, ResultRow, SeedSummary
from tacit.runs.metrics import metric
from tacit.version import __version__

_HEADINGS = {
    "published": ("Published", "in the paper"),
    "paper": ("Measured at the claimed ε", "noise by the paper’s formula"),
    "guaranteed": ("Measured at the guaranteed ε", "noise for which ε is an upper bound"),
    "plain": ("Measured", "noise as the experiment sets it"),
}
_LOG_AXIS = {"type": "log", "exponentformat": "power"}


def write_experiment_page(results: ExperimentResults) -> Path:
    """Write report.html to the folder of the results."""
    return write_page(results.out / REPORT_FILE, render_experiment_page(results))


def render_experiment_page(results: ExperimentResults) -> str:
    """The HTML of an experiment's results."""
    experiment, rows = results.experiment, results.rows
    panels = chart_panels(experiment, rows)
    return render_template(
        "experiment.html",
        name=results.name,
        experiment=experiment,
        quick=results.quick,
        panels=panels,
        figures={panel.id: panel.figure for panel in panels},
        series=[(label, series_colour(i)) for i, label in enumerate(_series(experiment.chart, rows))],
        table=experiment_table(experiment, rows),
        differences=difference_sentences(experiment, rows),
        noisy=has_noise(rows),
        seeds=max((each.runs for row in rows for each in (row.paper, row.guaranteed, row.plain) if each), default=0),
        dated=f"{datetime.now(UTC):%Y-%m-%d} · Tacit {__version__}",
    )


def chart_panels(experiment: Experiment, rows: Sequence[ResultRow]) -> list[ChartPanel]:
    """The charts of an experiment, of the kind that its file states."""
    return _PANELS[experiment.chart.kind](experiment, rows)


def _metric_panels(experiment: Experiment, rows: Sequence[ResultRow]) -> list[ChartPanel]:
    """The first metric: one panel for the published numbers and one per calibration, for each facet."""
    chart, series = experiment.chart, _series(experiment.chart, rows)
    panels: list[ChartPanel] = []
    for facet, members in _facets(experiment, rows).items():
        for source in ("published", *_calibrations(experiment, members)):
            heading, about = _HEADINGS[source]
            by_series = {label: [row for row in members if row.labels[chart.series] == label] for label in series}
            traces = [_metric_trace(experiment, by_series[label], source, i, label) for i, label in enumerate(series)]
            drawn = [trace for trace in traces if trace is not None]
            if drawn:
                where = f"{about}, {facet}" if facet else about
                axis = {"title": {"text": experiment.first_metric.short_label}}
                figure = _figure(
                    drawn, {"title": {"text": axis_name(chart.x or chart.series)}, "type": "category"}, axis
                )
                panels.append(ChartPanel(f"chart-{len(panels)}", heading, where, figure))
    _use_same_scale(experiment, [panel.figure for panel in panels if panel.figure])
    return panels


def _metric_trace(
    experiment: Experiment, rows: Sequence[ResultRow], source: str, index: int, label: str
) -> Figure | None:
    chart, shown, points = experiment.chart, experiment.first_metric, []
    for row in rows:
        summary: SeedSummary | None = None if source == "published" else getattr(row, source) or row.plain
        value = row.published if summary is None else summary.mean[shown.name]
        if value is not None and (summary or source == "published"):
            position = row.labels.get(chart.x or chart.series, f"no {axis_name(chart.x or chart.series)}")
            points.append((position, value, summary.deviation[shown.name] if summary else None))
    if not points:
        return None
    bars, colour = chart.kind == "bars", series_colour(index)
    style: Figure = {"marker": {"color": colour}} if bars else {"line": {"color": colour, "width": 2}}
    if any(deviation for *_, deviation in points):
        style["error_y"] = {"array": [deviation or 0 for *_, deviation in points], "color": "--muted", "thickness": 1}
    return {
        "type": "bar" if bars else "scatter",
        "x": [x for x, *_ in points],
        "y": [y for _, y, _ in points],
        "name": label,
        "meta": index,
        "hovertemplate": f"{label}, %{{x}}: %{{y:{shown.number_format}}}<extra></extra>",
        **style,
    }


def _curve_panels(experiment: Experiment, rows: Sequence[ResultRow]) -> list[ChartPanel]:
    """Columns of the histories: one panel per column, calibration and facet."""
    panels: list[ChartPanel] = []
    chart, series = experiment.chart, _series(experiment.chart, rows)
    x = chart.x or "round"
    for facet, members in _facets(experiment, rows).items():
        for source, column in itertools.product(_calibrations(experiment, members), chart.columns):
            traces = []
            for row in members:
                summary: SeedSummary | None = getattr(row, source) or row.plain
                if summary is not None and summary.curve:
                    index = series.index(row.labels[chart.series])
                    traces.append(_history_trace(summary, x, column, index, ", ".join(row.labels.values())))
            if traces:
                about = [_HEADINGS[source][0].removeprefix("Measured").strip(), facet]
                x_axis = {"title": {"text": _column_label(x)}, "rangemode": "tozero"}
                figure = _figure(traces, x_axis, _LOG_AXIS if chart.log else {})
                heading = metric(column).label
                panels.append(ChartPanel(f"chart-{len(panels)}", heading, ", ".join(filter(None, about)), figure))
    return panels


def _history_trace(summary: SeedSummary, x: str, column: str, index: int, label: str) -> Figure:
    scale = metric(column).scale
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [row[x] for row in summary.curve],
        "y": [None if (y := row.get(column)) is None else scale * y for row in summary.curve],
        "name": label,
        "meta": index,
        "line": {"color": series_colour(index), "width": 2},
        "hovertemplate": f"{label}<br>{_column_label(x).lower()} %{{x}}: %{{y:.3f}}<extra></extra>",
    }


def _sensitivity_panels(experiment: Experiment, rows: Sequence[ResultRow]) -> list[ChartPanel]:
    """The sensitivity per round: one panel per row."""
    panels = []
    for i, row in enumerate(rows):
        trace = row.plain.trace[: experiment.chart.rounds] if row.plain else []
        figure = sensitivity_chart(trace, row.plain.sensitivity) if row.plain else None
        if row.plain and figure:
            labels, warning = ", ".join(row.labels.values()), estimate_warning(row.plain.trace)
            panels.append(ChartPanel(f"chart-{i}", labels, f"sensitivity, {len(trace)} rounds", figure, warning))
    return panels


_PANELS = {
    "bars": _metric_panels,
    "lines": _metric_panels,
    "curves": _curve_panels,
    "sensitivity": _sensitivity_panels,
}


def _figure(traces: Sequence[Figure], x_axis: dict[str, Any], y_axis: dict[str, Any]) -> Figure:
    layout = {
        "showlegend": False,
        "barmode": "group",
        "height": 300,
        "margin": {"l": 44, "r": 12, "t": 12, "b": 44},
        "xaxis": x_axis,
        "yaxis": dict(y_axis),
    }
    return {"data": list(traces), "layout": layout}


def _use_same_scale(experiment: Experiment, figures: Sequence[Figure]) -> None:
    """Give all figures the same y axis, so that they can be compared."""
    values = [y for figure in figures for trace in figure["data"] for y in trace["y"]]
    for figure in figures if values else []:
        axis = figure["layout"]["yaxis"]
        if experiment.chart.log:
            positive = [math.log10(value) for value in values if value > 0] or [0.0]
            axis |= {**_LOG_AXIS, "range": [min(positive) - 0.1, max(positive) + 0.1]}
        else:
            bars = experiment.chart.kind == "bars"  # bars start at 0: their lengths are compared
            low = 0.0 if bars else max(0.0, min(values) - 0.05 * max(values))
            axis["range"] = [low, min(experiment.first_metric.limit, 1.03 * max(values))]


def _column_label(column: str) -> str:
    return "Round" if column == "round" else metric(column).label


def _calibrations(experiment: Experiment, rows: Sequence[ResultRow]) -> list[str]:
    """The calibrations that the rows have; `plain` for rows without."""
    return [each for each in experiment.calibrations if any(getattr(row, each) for row in rows)] or ["plain"]


def _series(chart: ExperimentChart, rows: Sequence[ResultRow]) -> list[str]:
    return list(dict.fromkeys(row.labels[chart.series] for row in rows))


def _facets(experiment: Experiment, rows: Sequence[ResultRow]) -> dict[str, list[ResultRow]]:
    """Rows by the axes that are neither x nor series. Rows without these labels are in all facets."""
    rest = [axis for axis in experiment.axes if axis not in (experiment.chart.x, experiment.chart.series)]
    groups = [{axis: row.labels[axis] for axis in rest if axis in row.labels} for row in rows]
    labels = max(map(len, groups), default=0)
    facets = {
        ", ".join(f"{axis_name(axis)} = {group[axis]}" for axis in group): group
        for group in groups
        if len(group) == labels
    }
    return {
        title: [row for row, group in zip(rows, groups, strict=True) if group.items() <= facet.items()]
        for title, facet in facets.items()
    }
