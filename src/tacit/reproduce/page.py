"""The chart page of an experiment: one self-contained HTML file in the look of the report."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from plotly.offline import get_plotlyjs

from tacit.reports import sensitivity
from tacit.reports.charts import Figure, colour
from tacit.reproduce.columns import flat
from tacit.reproduce.experiment import Chart, Experiment
from tacit.reproduce.table import Measured, Row
from tacit.runs.metrics import metric

_HEADINGS = {
    "published": ("Published", "in the paper"),
    "paper": ("Measured at the claimed ε", "noise by the paper’s formula"),
    "guaranteed": ("Measured at the guaranteed ε", "noise so that ε is an upper bound"),
    "plain": ("Measured", "noise as the experiment sets it"),
}
_LOG = {"type": "log", "exponentformat": "power"}


class Panel(NamedTuple):
    id: str
    heading: str
    about: str
    figure: Figure
    note: str = ""


def page(experiment: Experiment, table: Sequence[Row], name: str, quick: bool) -> str:
    """The HTML of an experiment's results."""
    panels = _KINDS.get(experiment.chart.kind, _ends)(experiment, table)
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("tacit.reproduce", "assets"), PackageLoader("tacit.reports", "assets")],
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    series = _series(experiment.chart, table)
    return environment.get_template("experiment.html").render(
        name=name,
        experiment=experiment,
        quick=quick,
        panels=panels,
        figures={panel.id: panel.figure for panel in panels},
        series=[(label, colour(i)) for i, label in enumerate(series)],
        lines=flat(experiment, table),
        plotly=get_plotlyjs(),
    )


def _ends(experiment: Experiment, table: Sequence[Row]) -> list[Panel]:
    """Final accuracies: a panel for the published, one a calibration, for each value of axes not otherwise shown."""
    chart, series = experiment.chart, _series(experiment.chart, table)
    panels: list[Panel] = []
    for facet, members in _facets(experiment, table).items():
        for which in ("published", *_calibrations(experiment, members)):
            heading, about = _HEADINGS[which]
            of = {label: [row for row in members if row.labels[chart.series] == label] for label in series}
            found = [_trace(experiment, of[label], which, i, label) for i, label in enumerate(series)]
            traces = [trace for trace in found if trace is not None]
            if traces:
                where = f"{about}, {facet}" if facet else about
                figure = _figure(traces, chart.x or chart.series, title={"text": experiment.metric.short_label})
                panels.append(Panel(f"chart-{len(panels)}", heading, where, figure))
    return _same_scale(experiment, panels)


def _trace(experiment: Experiment, rows: Sequence[Row], which: str, index: int, label: str) -> Figure | None:
    chart, metric, points = experiment.chart, experiment.metrics[0], []
    for row in rows:
        measured: Measured | None = None if which == "published" else getattr(row, which) or row.plain
        value = row.published if measured is None else measured.mean[metric]
        if value is not None and (measured or which == "published"):
            place = row.labels.get(chart.x or chart.series, f"no {chart.x}")
            points.append((place, value, measured.deviation[metric] if measured else None))
    if not points:
        return None
    bars = chart.kind == "bars"
    style: Figure = {"marker": {"color": colour(index)}} if bars else {"line": {"color": colour(index), "width": 2}}
    if any(deviation for *_, deviation in points):
        style["error_y"] = {"array": [deviation or 0 for *_, deviation in points], "color": "--muted", "thickness": 1}
    return {
        "type": "bar" if bars else "scatter",
        "x": [x for x, *_ in points],
        "y": [y for _, y, _ in points],
        "name": label,
        "meta": index,
        "hovertemplate": f"{label}, %{{x}}: %{{y:{experiment.metric.number_format}}}<extra></extra>",
        **style,
    }


def _curves(experiment: Experiment, table: Sequence[Row]) -> list[Panel]:
    """Columns of the histories against rounds or cost: a panel each, for each facet and calibration."""
    panels: list[Panel] = []
    chart, series = experiment.chart, _series(experiment.chart, table)
    x = chart.x or "round"
    for facet, members in _facets(experiment, table).items():
        for which, column in itertools.product(_calibrations(experiment, members), chart.columns):
            traces = []
            for row in members:
                measured: Measured | None = getattr(row, which) or row.plain
                if measured is not None and measured.curve:
                    index = series.index(row.labels[chart.series])
                    traces.append(_line(measured, x, column, index, ", ".join(row.labels.values())))
            if traces:
                about = [_HEADINGS[which][0].removeprefix("Measured").strip(), facet]
                figure = _figure(traces, _axis_label(x), category=False, **(_LOG if chart.log else {}))
                heading = metric(column).label
                panels.append(Panel(f"chart-{len(panels)}", heading, ", ".join(filter(None, about)), figure))
    return panels


def _axis_label(column: str) -> str:
    return "Round" if column == "round" else metric(column).label


def _line(measured: Measured, x: str, column: str, index: int, label: str) -> Figure:
    scale = metric(column).scale
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [point[x] for point in measured.curve],
        "y": [None if (y := point.get(column)) is None else scale * y for point in measured.curve],
        "name": label,
        "meta": index,
        "line": {"color": colour(index), "width": 2},
        "hovertemplate": f"{label}<br>{_axis_label(x).lower()} %{{x}}: %{{y:.3f}}<extra></extra>",
    }


def _figure(traces: Sequence[Figure], x: str, category: bool = True, **axis: Any) -> Figure:
    layout = {
        "showlegend": False,
        "barmode": "group",
        "height": 300,
        "margin": {"l": 44, "r": 12, "t": 12, "b": 44},
        "xaxis": {"title": {"text": x}, **({"type": "category"} if category else {"rangemode": "tozero"})},
        "yaxis": axis,
    }
    return {"data": list(traces), "layout": layout}


def _same_scale(experiment: Experiment, panels: list[Panel]) -> list[Panel]:
    """Panels are there to be compared, so their axes agree."""
    values = [y for panel in panels for trace in panel.figure["data"] for y in trace["y"]]
    for panel in panels if values else []:
        axis = panel.figure["layout"]["yaxis"]
        if experiment.chart.log:
            positive = [math.log10(value) for value in values if value > 0] or [0.0]
            axis |= {**_LOG, "range": [min(positive) - 0.1, max(positive) + 0.1]}
        else:
            bars = experiment.chart.kind == "bars"  # a bar cut off below would lie about its length
            low = 0.0 if bars else max(0.0, min(values) - 0.05 * max(values))
            axis["range"] = [low, min(experiment.metric.limit, 1.03 * max(values))]
    return panels


def _sensitivities(experiment: Experiment, table: Sequence[Row]) -> list[Panel]:
    """Round by round, a panel a row."""
    panels = []
    for i, row in enumerate(table):
        shown = row.plain.trace[: experiment.chart.rounds] if row.plain else []
        figure = sensitivity.chart(shown, row.plain.sensitivity) if row.plain else None
        if row.plain and figure:
            labels, broken = ", ".join(row.labels.values()), sensitivity.warning(row.plain.trace)
            panels.append(Panel(f"chart-{i}", labels, f"sensitivity of {len(shown)} rounds", figure, broken))
    return panels


_KINDS = {"curves": _curves, "sensitivity": _sensitivities}


def _calibrations(experiment: Experiment, rows: Sequence[Row]) -> list[str]:
    """Those that the rows were measured at; rows without noise have none."""
    return [which for which in experiment.calibrations if any(getattr(row, which) for row in rows)] or ["plain"]


def _series(chart: Chart, table: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.labels[chart.series] for row in table))


def _facets(experiment: Experiment, table: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by the axes that are neither along x nor a series; rows without such labels are in all of them."""
    rest = [axis for axis in experiment.axes if axis not in (experiment.chart.x, experiment.chart.series)]
    groups = [{axis: row.labels[axis] for axis in rest if axis in row.labels} for row in table]
    most = max(map(len, groups), default=0)
    facets = {", ".join(f"{axis} {group[axis]}" for axis in group): group for group in groups if len(group) == most}
    return {
        title: [row for row, group in zip(table, groups, strict=True) if group.items() <= facet.items()]
        for title, facet in facets.items()
    }
