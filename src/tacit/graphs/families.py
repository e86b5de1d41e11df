"""Graphs that a formula defines: ring, d-out, exponential, complete, star, grid, torus."""

from math import isqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs.base import Graph, graphs
from tacit.graphs.periodic import Periodic
from tacit.graphs.weights import Rule, lazy, undirected_adjacency, weigh

MAX_WEIGHTS = 100_000_000  # 1.2 GB


def check_node_count(name: str, nodes: int) -> None:
    """Raise a `TacitError` if a graph has no nodes."""
    if nodes < 1:
        raise TacitError(f"{name}: nodes must be at least 1, got {nodes}")


def _circulant(name: str, nodes: int, offsets: ArrayLike, weight: float | None = None) -> sparse.csr_array:
    """Node i sends to i + o for each offset o, with equal weights, by default 1 / number of receivers."""
    check_node_count(name, nodes)
    steps, times = np.unique(np.asarray(offsets, dtype=np.int64) % nodes, return_counts=True)
    if nodes * len(steps) > MAX_WEIGHTS:
        raise TacitError(
            f"{name} on {nodes} nodes has {nodes * len(steps):,} weights; the limit is {MAX_WEIGHTS:,}. "
            "Use a sparser graph such as exponential"
        )
    shares = np.full(len(steps), 1 / len(steps)) if weight is None else weight * times
    sources = (np.arange(nodes)[:, None] - steps).ravel() % nodes
    starts = np.arange(nodes + 1) * len(steps)
    return sparse.csr_array((np.tile(shares, nodes), sources, starts), shape=(nodes, nodes))


@graphs.register("ring")
def ring(nodes: int, directed: bool = False, lazy: bool = False) -> Graph:
    """Each node exchanges values with its predecessor and successor; if directed, it only sends to its successor.

    Args:
        directed: If true, a node sends to its successor only.

    >>> ring(5, directed=True).edges(0)
    (array([0, 1, 2, 3, 4]), array([1, 2, 3, 4, 0]))
    """
    name = "directed ring" if directed else "ring"
    return _static(name, _circulant(name, nodes, [0, 1] if directed else [-1, 0, 1]), lazy)


@graphs.register("d-out")
def d_out(nodes: int, d: int = 2) -> Graph:
    """Each node i sends to i, i+1, …, i+d−1: d receivers including itself, with weight 1/d each.

    Args:
        d: Number of receivers, the node itself included.

    >>> d_out(4, d=2).at(0).toarray()[:, 0]
    array([0.5, 0.5, 0. , 0. ])
    """
    check_node_count("d-out", nodes)
    if not 1 <= d <= nodes:
        raise TacitError(f"d-out: d must be in 1 to {nodes} for {nodes} nodes (it counts the node itself), got {d}")
    return Periodic([_circulant(f"{d}-out", nodes, np.arange(d))], f"{d}-out")


@graphs.register("one-peer-exponential")
def one_peer_exponential(nodes: int, period: Literal["floor", "ceil"] = "floor") -> Graph:
    """Each node sends half of its value to one peer per round, at distance 1, 2, 4, … in turn.

    The distance is 2^(t mod p), with p = floor(log2(N−1)) + 1 as in SGP, or ceil(log2(N−1)) + 1 as in the text of
    PartPSP.

    Args:
        period: "floor" for the period of SGP, "ceil" for that of PartPSP.

    >>> one_peer_exponential(10).period, one_peer_exponential(10, period="ceil").period
    (4, 5)
    """
    check_node_count("one-peer-exponential", nodes)
    if period not in ("floor", "ceil"):
        raise TacitError(f'one-peer-exponential: period must be "floor" or "ceil", got "{period}"')
    rounding = (nodes - 1).bit_length() if period == "floor" else max(nodes - 2, 0).bit_length() + 1
    offsets = [2**k for k in range(max(rounding, 1))]
    name = "one-peer-exponential"
    # Offsets are taken modulo N. If one returns to the sender, the sender keeps both halves.
    return Periodic([_circulant(name, nodes, [0, offset], weight=0.5) for offset in offsets], name)


@graphs.register("exponential")
def exponential(nodes: int) -> Graph:
    """Each node sends to the nodes at distance 1, 2, 4, 8, … in every round, with equal weights.

    >>> exponential(10).edges(0)[1][:4]
    array([1, 2, 4, 8])
    """
    check_node_count("exponential", nodes)
    offsets = [0] + [2**k for k in range((nodes - 1).bit_length())]
    return Periodic([_circulant("exponential", nodes, offsets)], "exponential")


@graphs.register("complete")
def complete(nodes: int, lazy: bool = False) -> Graph:
    """Every node exchanges values with every other: one round gives the exact average.

    >>> complete(5).dobrushin(0, 1)
    0.0
    """
    return _static("complete", _circulant("complete", nodes, np.arange(max(nodes, 1))), lazy)


@graphs.register("star")
def star(nodes: int, weights: Rule = "metropolis", lazy: bool = False) -> Graph:
    """Node 0 exchanges values with every other node; the others only with node 0.

    >>> star(4).in_degrees(0)
    array([3, 1, 1, 1])
    """
    check_node_count("star", nodes)
    leaves = np.arange(1, nodes)
    return Periodic([weigh(undirected_adjacency(nodes, np.zeros_like(leaves), leaves), weights, lazy)], "star")


@graphs.register("grid")
def grid(nodes: int, rows: int | None = None, weights: Rule = "metropolis", lazy: bool = False) -> Graph:
    """A rectangle, as square as N allows: each node exchanges values with its horizontal and vertical neighbours.

    Args:
        rows: Number of rows, a divisor of the number of nodes; by default as square as possible.

    >>> grid(6), grid(6).edges(0)[1][:2]
    (<grid 2 × 3: 6 nodes, static>, array([1, 3]))
    """
    rows, columns = _sides("grid", nodes, rows)
    place = np.arange(nodes).reshape(rows, columns)
    ends = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    others = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    return Periodic([weigh(undirected_adjacency(nodes, ends, others), weights, lazy)], f"grid {rows} × {columns}")


@graphs.register("torus")
def torus(nodes: int, rows: int | None = None, weights: Rule = "metropolis", lazy: bool = False) -> Graph:
    """A grid with joined opposite borders: every node has neighbours on all four sides.

    Args:
        rows: Number of rows, a divisor of the number of nodes; by default as square as possible.

    >>> torus(16).out_degrees(0).max()
    np.int64(4)
    """
    rows, columns = _sides("torus", nodes, rows)
    place = np.arange(nodes).reshape(rows, columns)
    others = np.concatenate([np.roll(place, -1, axis=axis).ravel() for axis in (0, 1)])
    return Periodic(
        [weigh(undirected_adjacency(nodes, np.tile(place.ravel(), 2), others), weights, lazy)],
        f"torus {rows} × {columns}",
    )


def _static(name: str, matrix: sparse.csr_array, lazily: bool) -> Graph:
    return Periodic([lazy(matrix) if lazily else matrix], name)


def _sides(name: str, nodes: int, rows: int | None) -> tuple[int, int]:
    """Return the rows and columns of the most square rectangle. A prime number of nodes above 3 is refused."""
    check_node_count(name, nodes)
    if rows is not None:
        if rows < 1 or nodes % rows:
            raise TacitError(f"{name}: rows must divide the {nodes} nodes, got {rows}")
        return rows, nodes // rows
    rows = _shorter_side(nodes)
    if rows == 1 and nodes > 3:
        fit = " or ".join(f"{n} ({_shorter_side(n)} × {n // _shorter_side(n)})" for n in (nodes - 1, nodes + 1))
        raise TacitError(f"{name}: {nodes} is prime, so {nodes} nodes form no rectangle: use {fit}, or a ring")
    return rows, nodes // rows


def _shorter_side(nodes: int) -> int:
    return max(side for side in range(1, isqrt(nodes) + 1) if nodes % side == 0)
