"""What each node can learn about each other, as a heat map."""

from __future__ import annotations

from typing import Any

from tacit.privacy.statement import rounded_up
from tacit.reports.charts import Figure
from tacit.reports.record import Record

_WRITTEN = 16  # nodes beyond which the cells are too small for their numbers


def chart(run: Record) -> Figure | None:
    """A row for whose record, a column for who looks; None where it makes no difference who does."""
    cells = run.threats["pairs"]
    if cells is None or len({cell for row in cells for cell in row if cell is not None}) < 2:
        return None
    nodes = [str(node) for node in range(len(cells))]
    words = [["" if cell is None else rounded_up(cell, 3) for cell in row] for row in cells]
    trace: Figure = {
        "type": "heatmap",
        "z": cells,
        "x": nodes,
        "y": nodes,
        "text": words,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "hovertemplate": "a record of node %{y}, node %{x} looks: ε at most %{text}<extra></extra>",
        "colorscale": [[0, "--rule"], [1, "--run-0"]],
        "colorbar": {"title": {"text": "ε"}, "thickness": 12, "outlinewidth": 0},
        "texttemplate": "%{text}" if len(cells) <= _WRITTEN else "",
    }
    axis: dict[str, Any] = {"type": "category", "showgrid": False}
    layout = {
        "height": 440,
        "margin": {"l": 44, "r": 12, "t": 12, "b": 44},
        "xaxis": {**axis, "title": {"text": "Who looks"}},
        "yaxis": {**axis, "title": {"text": "Whose record"}, "autorange": "reversed"},
    }
    return {"data": [trace], "layout": layout}
