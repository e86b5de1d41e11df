"""Which nodes share the keys of paired noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graphs import Graph

if TYPE_CHECKING:
    import networkx as nx

Edges = npt.NDArray[np.int64]

KEY_GRAPHS = ("complete", "regular", "graph")
"""Values of `privacy.keys` that are not the path of a file."""
_MAX_COMPLETE = 64  # nodes up to which every pair shares a key by default
_DEGREE = 16  # keys per node of a regular key graph
_SEED = 0  # the key graph is public


def default_colluders(nodes: int) -> int:
    """Return the number of colluding nodes that paired noise withstands if the config does not say: a quarter."""
    return max(1, nodes // 4)


def key_edges(keys: str | None, graph: Graph, colluders: int) -> Edges:
    """Return the pairs of nodes (E, 2) that share a key, the smaller id first.

    Args:
        keys: "complete", "regular" (16 keys per node, at random), "graph" (the edges of the communication graph) or
            the path of a file with two node numbers per line. None: complete up to 64 nodes, else regular.
        graph: The communication graph.
        colluders: The number of nodes that may collude. If they can separate the key graph, the honest nodes of a part
            rely on few others; this is refused.

    Raises:
        TacitError: The key graph cannot be built, or so many colluders can separate it.
    """
    import networkx as nx  # slow to import

    nodes = graph.nodes
    kind = keys or ("complete" if nodes <= _MAX_COMPLETE else "regular")
    if kind == "complete" or (kind == "regular" and nodes <= _DEGREE + 1):
        found = nx.complete_graph(nodes)
    elif kind == "regular":
        found = nx.random_regular_graph(_DEGREE, nodes, seed=_SEED)
    elif kind == "graph":
        found = _communication_edges(graph)
    else:
        found = _read_edges(Path(kind), nodes)
    _check_connectivity(found, kind, colluders)
    edges = np.array(sorted(tuple(sorted(edge)) for edge in found.edges), np.int64)
    return edges.reshape(-1, 2)


def _communication_edges(graph: Graph) -> nx.Graph:
    import networkx as nx  # slow to import

    if graph.period is None:
        raise TacitError('privacy.keys = "graph" needs a graph that repeats: use "complete" or "regular"')
    found = nx.empty_graph(graph.nodes)
    for t in range(graph.period):
        source, target = graph.edges(t)
        found.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
    return found


def _read_edges(path: Path, nodes: int) -> nx.Graph:
    import networkx as nx  # slow to import

    known = "privacy.keys must be complete, regular, graph or a file with two node numbers per line"
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise TacitError(f"{known}, got {path}") from None
    found = nx.empty_graph(nodes)
    for number, line in enumerate(lines, 1):
        ends = line.split()
        if not ends or ends[0].startswith("#"):
            continue
        if len(ends) != 2 or not all(end.isdigit() and int(end) < nodes for end in ends) or ends[0] == ends[1]:
            raise TacitError(f"{path}, line {number}: expected two different nodes from 0 to {nodes - 1}")
        found.add_edge(*map(int, ends))
    return found


def _check_connectivity(keys: nx.Graph, kind: str, colluders: int) -> None:
    import networkx as nx  # slow to import

    nodes = keys.number_of_nodes()
    if nodes < 2:
        raise TacitError("Paired noise needs at least 2 nodes")
    if colluders >= nodes:
        raise TacitError(f"privacy.colluders must be below the number of nodes {nodes}, got {colluders}")
    if keys.number_of_edges() == nodes * (nodes - 1) // 2:
        return
    node, degree = min(keys.degree, key=lambda each: each[1])
    if degree <= colluders:
        raise TacitError(
            f"privacy.keys = {kind}: node {node} shares keys with {degree} nodes, so {colluders} colluders know all "
            "noise that it shares: use more keys or fewer colluders"
        )
    separated = nx.node_connectivity(keys)
    if separated <= colluders:
        raise TacitError(
            f"privacy.keys = {kind}: {separated} colluders can separate the key graph: use more keys or fewer colluders"
        )
