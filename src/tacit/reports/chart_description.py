"""What a chart shows, in one sentence, for readers who do not see it."""

from __future__ import annotations

from html import unescape
from re import sub
from typing import Any

from tacit.reports.charts import Figure

_MAX_SERIES = 6


def describe_chart(figure: Figure, heading: str) -> str:
    """The heading, the axis and the first and last values of each series.

    >>> trace = {"type": "scatter", "x": [0, 10], "y": [0.1, 0.861], "name": "a"}
    >>> describe_chart({"data": [trace], "layout": {"xaxis": {"title": {"text": "Round"}}}}, "Accuracy")
    'Chart: Accuracy by round. a: 0.1 at 0, 0.861 at 10.'
    """
    title = figure["layout"].get("xaxis", {}).get("title", {}).get("text", "")
    shown = [trace for trace in figure["data"] if trace.get("hoverinfo") != "skip" and "meta" not in trace]
    shown += [trace for trace in figure["data"] if isinstance(trace.get("meta"), int) and "fill" not in trace]
    series = [text for trace in shown if (text := _series(trace))]
    more = [f"And {len(series) - _MAX_SERIES} more series."] if len(series) > _MAX_SERIES else []
    by = f" by {title[:1].lower()}{title[1:]}" if title else ""
    return " ".join([f"Chart: {heading}{by}.", *series[:_MAX_SERIES], *more])


def _series(trace: Figure) -> str:
    if trace["type"] == "heatmap":
        cells = [cell for row in trace["z"] for cell in row if cell is not None]
        return f"From {min(cells):.3g} to {max(cells):.3g}."
    points = [(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if x is not None and y is not None]
    if not points or (trace.get("mode") == "markers" and "text" in trace):
        return ""
    if trace["type"] == "bar":
        listed = ", ".join(f"{_text(x)}: {_text(y)}" for x, y in _labelled(trace, points))
        return f"{_name(trace)}{listed}."
    (x_first, first), (x_last, last) = points[0], points[-1]
    if len(points) == 1:
        return f"{_name(trace)}{_text(first)} at {_text(x_first)}."
    return f"{_name(trace)}{_text(first)} at {_text(x_first)}, {_text(last)} at {_text(x_last)}."


def _labelled(trace: Figure, points: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return [(y, x) for x, y in points] if trace.get("orientation") == "h" else points


def _name(trace: Figure) -> str:
    return f"{_text(trace['name'])}: " if trace.get("name") else ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return unescape(sub(r"<br ?/?>", " ", sub(r"</?b>", "", value)))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
