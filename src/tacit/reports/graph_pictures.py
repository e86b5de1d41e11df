"""Pictures of learned graphs: the edges of the consensus in one colour, those of one client only in another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt

from tacit.graph_learning import EDGE_THRESHOLD, GraphLearner
from tacit.privacy import Array
from tacit.reports.charts import Figure

Edges = npt.NDArray[np.bool_]
"""Symmetric matrix (d, d): whether two vertices have an edge."""
_MAX_CLIENTS, _MAX_VERTICES, _MAX_EDGES = 12, 300, 6000
_MAX_LARGE_VERTICES, _MAX_WIDE_EDGES = 60, 200
_CONSENSUS_COLOUR, _CLIENT_COLOUR = "--run-6", "--run-0"


class GraphPicture(NamedTuple):
    """One figure of the page."""

    id: str
    title: str
    figure: Figure


def graph_pictures(learner: GraphLearner, names: Sequence[str], labels: Sequence[str]) -> list[GraphPicture]:
    """The consensus and one picture per client; no pictures if they would be too large to read.

    Args:
        names: Names of the clients.
        labels: Labels of the vertices.
    """
    clients = [edges_of(weights) for weights in learner.graphs_][:_MAX_CLIENTS]
    consensus = None if learner.consensus_ is None else edges_of(learner.consensus_)
    if len(labels) > _MAX_VERTICES or sum(int(edges.sum()) // 2 for edges in clients) > _MAX_EDGES:
        return []
    if learner.run_.method.title == "FedAvg":  # all clients have the same graph
        clients = []
    positions = _positions(np.sum(learner.graphs_, 0), consensus)
    pictures = []
    if consensus is not None:
        title = "Consensus" if clients else "Graph of all clients"
        pictures.append(GraphPicture("consensus", title, _picture(consensus, consensus, positions, labels)))
    for i, edges in enumerate(clients):
        pictures.append(GraphPicture(f"client-{i}", names[i], _picture(edges, consensus, positions, labels)))
    return pictures


def edges_of(weights: Array) -> Edges:
    """The edges of a weight matrix: weights above the threshold."""
    edges: Edges = weights > EDGE_THRESHOLD * max(weights.max(), 1e-300)
    return edges


def _positions(total: Array, consensus: Edges | None) -> Array:
    """One layout for all pictures: heavy edges are short, and the consensus counts most."""
    pull = total / max(total.max(), 1e-300) + (0 if consensus is None else consensus)
    graph = nx.from_numpy_array(np.where(pull > 0.02, pull, 0))
    start = nx.circular_layout(graph)
    layout = nx.spring_layout(graph, pos=start, seed=0, iterations=100, k=1.6 / np.sqrt(len(total)))
    positions: Array = np.array([layout[v] for v in range(len(total))])
    positions -= (positions.max(0) + positions.min(0)) / 2
    result: Array = positions / np.maximum(np.abs(positions).max(0), 1e-9)
    return result


def _picture(edges: Edges, consensus: Edges | None, positions: Array, labels: Sequence[str]) -> Figure:
    shared = edges & consensus if consensus is not None else np.zeros_like(edges)
    vertices = {
        "type": "scatter",
        "mode": "markers",
        "x": positions[:, 0].round(4).tolist(),
        "y": positions[:, 1].round(4).tolist(),
        "text": [f"{label}<br>{count} edges" for label, count in zip(labels, edges.sum(1).tolist(), strict=True)],
        "marker": {
            "size": 9 if len(labels) <= _MAX_LARGE_VERTICES else 5,
            "color": "--ink",
            "line": {"color": "--card", "width": 1},
        },
        "hovertemplate": "%{text}<extra></extra>",
    }
    hidden_axis: dict[str, Any] = {"visible": False, "range": [-1.08, 1.08], "fixedrange": True}
    layout = {
        "showlegend": False,
        "hovermode": "closest",
        "height": 300,
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "xaxis": hidden_axis,
        "yaxis": hidden_axis,
    }
    lines = [
        _lines(edges & ~shared, positions, _CLIENT_COLOUR, 1.1),
        _lines(shared, positions, _CONSENSUS_COLOUR, 2.2),
    ]
    return {"data": [*(line for line in lines if line["x"]), vertices], "layout": layout}


def _lines(edges: Edges, positions: Array, colour: str, width: float) -> Figure:
    first, second = np.nonzero(np.triu(edges, 1))
    gaps = np.full((len(first), 1), np.nan)
    x, y = (np.hstack([positions[first, [axis]][:, None], positions[second, [axis]][:, None], gaps]) for axis in (0, 1))
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [None if np.isnan(value) else round(value, 4) for value in x.ravel().tolist()],
        "y": [None if np.isnan(value) else round(value, 4) for value in y.ravel().tolist()],
        "line": {"color": colour, "width": width * (1.0 if len(first) <= _MAX_WIDE_EDGES else 0.6)},
        "hoverinfo": "skip",
    }
