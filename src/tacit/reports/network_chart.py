"""The communication graph of a run as a Plotly figure."""

from __future__ import annotations

from typing import Any

from tacit.privacy import rounded_up
from tacit.reports.charts import Figure, series_colour
from tacit.reports.run_record import RunRecord

_MAX_LABELLED_NODES = 60
_MAX_WIDE_LINKS = 200


def network_chart(run: RunRecord) -> Figure | None:
    """The nodes, and one trace of links per round, of which the page shows one at a time. None for large graphs."""
    if not run.graph["positions"]:
        return None
    links = [_links(run, t) for t in range(len(run.graph["rounds"]))]
    hidden_axis: dict[str, Any] = {"visible": False, "range": [-1.15, 1.15], "fixedrange": True}
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": 260,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": hidden_axis,
        "yaxis": {**hidden_axis, "scaleanchor": "x"},
    }
    return {"data": [*links, _nodes(run)], "layout": layout}


def _links(run: RunRecord, t: int) -> Figure:
    """One line per link, with gaps between them. A directed link ends in an arrow at its target."""
    positions, directed = run.graph["positions"], run.graph["directed"]
    ends = [(positions[source], positions[target]) for source, target in run.graph["rounds"][t]]
    trace: Figure = {
        "type": "scatter",
        "mode": "lines+markers" if directed else "lines",
        "x": [x for a, b in ends for x in (a[0], b[0], None)],
        "y": [y for a, b in ends for y in (a[1], b[1], None)],
        "line": {"color": "--link", "width": 1.4 if len(ends) <= _MAX_WIDE_LINKS else 0.7},
        "hoverinfo": "skip",
        "visible": t == 0,
        "meta": "links",
    }
    if directed:
        trace["marker"] = {
            "symbol": "arrow",
            "angleref": "previous",
            "standoff": _node_size(run) / 2 + 1,
            "size": [0, 11, 0] * len(ends),
            "color": "--link",
            "opacity": 1,
        }
    return trace


def _nodes(run: RunRecord) -> Figure:
    positions = run.graph["positions"]
    rows = {row["node"]: row for row in run.nodes}
    return {
        "type": "scatter",
        "mode": "markers+text" if len(positions) <= _MAX_LABELLED_NODES else "markers",
        "x": [x for x, _ in positions],
        "y": [y for _, y in positions],
        "text": [str(node) for node in range(len(positions))],
        "textfont": {"color": "--on-node", "size": 11},
        "marker": {"size": _node_size(run), "color": series_colour(0), "line": {"color": "--card", "width": 1}},
        "customdata": [_hover(rows.get(node)) for node in range(len(positions))],
        "hovertemplate": "node %{text}%{customdata}<extra></extra>",
        "meta": "nodes",
    }


def _hover(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    spent = "no guarantee" if row["guaranteed"] is None else f"guaranteed ε = {rounded_up(row['guaranteed'], 3)}"
    return f"<br>{row['records']:,} records<br>{spent}"


def _node_size(run: RunRecord) -> int:
    return 22 if run.graph["nodes"] <= 30 else 16 if run.graph["nodes"] <= _MAX_LABELLED_NODES else 8
