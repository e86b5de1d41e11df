"""The guaranteed ε of every pair of nodes as a heat map."""

from __future__ import annotations

from typing import Any

from tacit.privacy import rounded_up
from tacit.reports.charts import Figure
from tacit.reports.run_record import RunRecord

_MAX_NODES_WITH_NUMBERS = 16  # more cells are too small for their numbers


def pair_chart(run: RunRecord) -> Figure | None:
    """One row per protected node, one column per observing node; None if all pairs have the same ε."""
    cells = run.threats["pairs"]
    if cells is None or len({cell for row in cells for cell in row if cell is not None}) < 2:
        return None
    nodes = [str(node) for node in range(len(cells))]
    trace: Figure = {
        "type": "heatmap",
        "z": cells,
        "x": nodes,
        "y": nodes,
        "text": [["" if cell is None else rounded_up(cell, 3) for cell in row] for row in cells],
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "hovertemplate": "data of node %{y}, observed by node %{x}: ε ≤ %{text}<extra></extra>",
        "colorscale": [[0, "--rule"], [1, "--run-0"]],
        "colorbar": {"title": {"text": "ε"}, "thickness": 12, "outlinewidth": 0},
        "texttemplate": "%{text}" if len(cells) <= _MAX_NODES_WITH_NUMBERS else "",
    }
    axis: dict[str, Any] = {"type": "category", "showgrid": False}
    layout = {
        "height": 440,
        "margin": {"l": 44, "r": 12, "t": 12, "b": 44},
        "xaxis": {**axis, "title": {"text": "Observing node"}},
        "yaxis": {**axis, "title": {"text": "Protected node"}, "autorange": "reversed"},
    }
    return {"data": [trace], "layout": layout}
