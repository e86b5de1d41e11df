"""A graph as a picture: where the nodes stand, and the links of each round that is shown."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

from tacit.graphs import Graph
from tacit.graphs.analysis import circulant_column

MOST_NODES = 300
MOST_LINKS = 6_000  # all rounds together
MOST_ROUNDS = 16
_SPRINGS = 80  # nodes beyond which the slower layout takes too long


def drawing(graph: Graph) -> dict[str, Any]:
    """What the page needs of a graph. One too large to be read as a picture has statistics and no positions.

    >>> from tacit.graphs import graphs
    >>> drawn = drawing(graphs.build("ring", {"nodes": 4, "directed": True}))
    >>> drawn["description"], drawn["links"], drawn["rounds"]
    ('directed ring: 4 nodes, static', [4, 4], [[[0, 1], [1, 2], [2, 3], [3, 0]]])
    """
    shown = min(graph.period or MOST_ROUNDS, MOST_ROUNDS)
    directed = graph.directed
    degrees = np.array([graph.out_degrees(t) for t in range(shown)])
    counts = [int(sent.sum()) // (1 if directed else 2) for sent in degrees]
    small = graph.nodes <= MOST_NODES and sum(counts) <= MOST_LINKS
    rounds = [_links(graph, t, directed) for t in range(shown)] if small else []
    return {
        "description": graph.description,
        "nodes": graph.nodes,
        "period": graph.period,
        "directed": directed,
        "links": [min(counts), max(counts)],
        "sends_to": [int(degrees.min()), int(degrees.max())],
        "window": graph.window() if small else None,
        "positions": _positions(graph, rounds) if small else [],
        "rounds": rounds,
    }


def _links(graph: Graph, t: int, directed: bool) -> list[list[int]]:
    """(source, target) of round t; a link that goes both ways is told once."""
    source, target = graph.edges(t)
    keep = slice(None) if directed else source < target
    return [list(link) for link in zip(source[keep].tolist(), target[keep].tolist(), strict=True)]


def _positions(graph: Graph, rounds: list[list[list[int]]]) -> list[list[float]]:
    """On a circle where every node looks the same from its place, otherwise by the links of all rounds."""
    if all(circulant_column(weights) is not None for weights in graph.expected().cycle()):
        angles = np.pi / 2 - 2 * np.pi * np.arange(graph.nodes) / graph.nodes
        return [[round(math.cos(angle), 4), round(math.sin(angle), 4)] for angle in angles]
    union = nx.Graph()
    union.add_nodes_from(range(graph.nodes))
    union.add_edges_from(link for links in rounds for link in links)
    if graph.nodes <= _SPRINGS and nx.is_connected(union):
        places = nx.kamada_kawai_layout(union)
    else:
        places = nx.spring_layout(union, seed=0)
    return [[round(float(place), 4) for place in places[node]] for node in range(graph.nodes)]
