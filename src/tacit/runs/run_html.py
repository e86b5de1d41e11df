"""A run as HTML for notebooks: the key numbers and a curve of the main metric, in the colours of the page."""

from __future__ import annotations

import math
from html import escape

from tacit.runs.metrics import Metric
from tacit.runs.run_summary import RunSummary

_WIDTH, _HEIGHT = 420, 148
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 410, 30, 122  # the edges of the plot
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


def run_html(run: RunSummary) -> str:
    """Return the summary of a run as an HTML fragment. All text is escaped."""
    rows = [("Algorithm", run.title), ("Size", run.size), *_metric_rows(run)]
    rows += [("Privacy", line) for line in run.privacy_lines]
    rows += [(term, text) for term, text in (("Stopped", run.stopped), ("Results", run.folder)) if text]
    table = "".join(
        f'<tr><th style="{_CELL};white-space:nowrap">{escape(term)}</th><td style="{_CELL}">{escape(text)}</td></tr>'
        for term, text in rows
    )
    curve = _curve(run, run.metrics[0]) if run.metrics else ""
    return f'<div class="tacit-run"><table style="border-collapse:collapse">{table}</table>{curve}</div>'


def _metric_rows(run: RunSummary) -> list[tuple[str, str]]:
    rows = []
    for metric in run.metrics:
        text, trivial = metric.text(run.last[metric.name]), run.trivial.get(metric.name)
        beside = "" if trivial is None else f" (trivial predictor {metric.text(trivial)})"
        rows.append((metric.title, text + beside))
    return rows


def _curve(run: RunSummary, metric: Metric) -> str:
    """An SVG of the metric over rounds, the trivial predictor as a dashed line; empty for fewer than two points."""
    points = [(int(row["round"]), float(row[metric.name])) for row in run.history if row.get(metric.name) is not None]
    points = [(t, value) for t, value in points if math.isfinite(value)]
    if len(points) < 2:
        return ""
    trivial: float | None = run.trivial.get(metric.name)
    values = [value for _, value in points] + ([] if trivial is None else [trivial])
    low, high = min(values), max(values)
    first, last = points[0][0], points[-1][0]

    def x(t: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (t - first) / max(last - first, 1)

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * ((value - low) / (high - low) if high > low else 0.5)

    heading = metric.title if trivial is None else f"{metric.title} (dashed: trivial predictor)"
    line = " ".join(f"{x(t):.1f},{y(value):.1f}" for t, value in points)
    marks = [f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="2"/>', _axes()]
    if trivial is not None:
        marks.append(
            f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y(trivial):.1f}" y2="{y(trivial):.1f}" stroke="currentColor" '
            'stroke-opacity="0.6" stroke-dasharray="4 4"/>'
        )
    for value in sorted({low, high}):
        marks.append(_label(_LEFT - 6, y(value) + 4, metric.text(value), "end"))
    marks += [
        _label(_LEFT, _TOP - 14, heading, "start"),
        _label(_LEFT, _BOTTOM + 18, f"round {first}", "start"),
        _label(_RIGHT, _BOTTOM + 18, f"round {last}", "end"),
    ]
    title = escape(f"{metric.title} over rounds")
    return (
        f'<svg role="img" aria-label="{title}" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{title}</title>{"".join(marks)}</svg>'
    )


def _axes() -> str:
    return (
        f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" fill="none" stroke="currentColor" stroke-opacity="0.35" '
        'stroke-width="1"/>'
    )


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" font-family="system-ui, sans-serif" '
        f'fill="currentColor">{escape(text)}</text>'
    )
