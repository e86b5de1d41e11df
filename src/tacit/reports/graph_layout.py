"""The layout of a communication graph for the page: positions of the nodes, and links of each round."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

from tacit.graphs import Graph

MAX_NODES = 300
_MAX_LINKS = 6_000  # of all rounds
_MAX_ROUNDS = 16
_MAX_KAMADA_KAWAI_NODES = 80  # larger graphs take too long


def graph_layout(graph: Graph) -> dict[str, Any]:
    """What the page shows of a graph. Graphs too large for a readable picture get no positions.

    >>> from tacit.graphs import graphs
    >>> layout = graph_layout(graphs.build("ring", {"nodes": 4, "directed": True}))
    >>> layout["description"], layout["links"], layout["rounds"]
    ('directed ring: 4 nodes, static', [4, 4], [[[0, 1], [1, 2], [2, 3], [3, 0]]])
    """
    rounds = min(graph.period or _MAX_ROUNDS, _MAX_ROUNDS)
    directed = graph.directed
    degrees = np.array([graph.out_degrees(t) for t in range(rounds)])
    counts = [int(sent.sum()) // (1 if directed else 2) for sent in degrees]
    readable = graph.nodes <= MAX_NODES and sum(counts) <= _MAX_LINKS
    links = [_links(graph, t, directed) for t in range(rounds)] if readable else []
    return {
        "description": graph.description,
        "nodes": graph.nodes,
        "period": graph.period,
        "directed": directed,
        "links": [min(counts), max(counts)],
        "sends_to": [int(degrees.min()), int(degrees.max())],
        "window": graph.window() if readable else None,
        "positions": _positions(graph, links) if readable else [],
        "rounds": links,
    }


def _links(graph: Graph, t: int, directed: bool) -> list[list[int]]:
    """(source, target) of round t; an undirected link is listed once."""
    source, target = graph.edges(t)
    keep = slice(None) if directed else source < target
    return [list(link) for link in zip(source[keep].tolist(), target[keep].tolist(), strict=True)]


def _positions(graph: Graph, rounds: list[list[list[int]]]) -> list[list[float]]:
    """A circle for circulant graphs, otherwise a layout by the links of all rounds."""
    if graph.expected().is_circulant:
        angles = np.pi / 2 - 2 * np.pi * np.arange(graph.nodes) / graph.nodes
        return [[round(math.cos(angle), 4), round(math.sin(angle), 4)] for angle in angles]
    union = nx.Graph()
    union.add_nodes_from(range(graph.nodes))
    union.add_edges_from(link for links in rounds for link in links)
    if graph.nodes <= _MAX_KAMADA_KAWAI_NODES and nx.is_connected(union):
        positions = nx.kamada_kawai_layout(union)
    else:
        positions = nx.spring_layout(union, seed=0)
    return [[round(float(place), 4) for place in positions[node]] for node in range(graph.nodes)]
