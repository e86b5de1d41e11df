"""Graphs given by a formula: rings, d-out, exponential, complete, star, grid, torus."""

from math import isqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs.base import Graph, graphs
from tacit.graphs.periodic import Periodic
from tacit.graphs.weights import Rule, both_ways, lazy, weigh

MAX_WEIGHTS = 100_000_000  # 1.2 GB


def at_least_one(name: str, nodes: int) -> None:
    if nodes < 1:
        raise TacitError(f"{name} needs at least 1 node, not {nodes}")


def _circulant(name: str, nodes: int, offsets: ArrayLike, weight: float | None = None) -> sparse.csr_array:
    """Node i sends to i + o for each offset o, with equal weights: 1 / number of receivers by default."""
    at_least_one(name, nodes)
    steps, times = np.unique(np.asarray(offsets, dtype=np.int64) % nodes, return_counts=True)
    if nodes * len(steps) > MAX_WEIGHTS:
        raise TacitError(
            f"{name} on {nodes} nodes has {nodes * len(steps):,} weights, too many for memory "
            f"(at most {MAX_WEIGHTS:,}): use a sparser graph such as exponential"
        )
    shares = np.full(len(steps), 1 / len(steps)) if weight is None else weight * times
    sources = (np.arange(nodes)[:, None] - steps).ravel() % nodes
    starts = np.arange(nodes + 1) * len(steps)
    return sparse.csr_array((np.tile(shares, nodes), sources, starts), shape=(nodes, nodes))


@graphs.register("ring")
def ring(nodes: int, directed: bool = False, lazy: bool = False) -> Graph:
    """Each node exchanges with the nodes before and after it; one way only when directed.

    >>> ring(5, directed=True).edges(0)
    (array([0, 1, 2, 3, 4]), array([1, 2, 3, 4, 0]))
    """
    name = "directed ring" if directed else "ring"
    return _static(name, _circulant(name, nodes, [0, 1] if directed else [-1, 0, 1]), lazy)


@graphs.register("d-out")
def d_out(nodes: int, d: int = 2) -> Graph:
    """Each node i sends to i, i+1, …, i+d−1: d receivers, itself among them, weight 1/d each.

    >>> d_out(4, d=2).at(0).toarray()[:, 0]
    array([0.5, 0.5, 0. , 0. ])
    """
    at_least_one("d-out", nodes)
    if not 1 <= d <= nodes:
        raise TacitError(f"d-out on {nodes} nodes needs d from 1 to {nodes} (d counts the node itself), not {d}")
    return Periodic([_circulant(f"{d}-out", nodes, np.arange(d))], f"{d}-out")


@graphs.register("one-peer-exponential")
def one_peer_exponential(nodes: int, period: Literal["floor", "ceil"] = "floor") -> Graph:
    """Each node sends half its value to one peer, 1, 2, 4, … places on, another one in every round.

    The offset is 2^(t mod p), with p = floor(log2(N−1)) + 1 as in SGP, or ceil(log2(N−1)) + 1 as PartPSP
    prints it.

    >>> one_peer_exponential(10).period, one_peer_exponential(10, period="ceil").period
    (4, 5)
    """
    at_least_one("one-peer-exponential", nodes)
    if period not in ("floor", "ceil"):
        raise TacitError(f'one-peer-exponential: period must be "floor" or "ceil", not "{period}"')
    rounding = (nodes - 1).bit_length() if period == "floor" else max(nodes - 2, 0).bit_length() + 1
    offsets = [2**k for k in range(max(rounding, 1))]
    name = "one-peer-exponential"
    # Offsets are taken modulo N: one that comes back to the sender leaves both halves with it.
    return Periodic([_circulant(name, nodes, [0, offset], weight=0.5) for offset in offsets], name)


@graphs.register("exponential")
def exponential(nodes: int) -> Graph:
    """Each node sends to the nodes 1, 2, 4, 8, … places on, in every round, with equal weights.

    >>> exponential(10).edges(0)[1][:4]
    array([1, 2, 4, 8])
    """
    at_least_one("exponential", nodes)
    offsets = [0] + [2**k for k in range((nodes - 1).bit_length())]
    return Periodic([_circulant("exponential", nodes, offsets)], "exponential")


@graphs.register("complete")
def complete(nodes: int, lazy: bool = False) -> Graph:
    """Everyone exchanges with everyone: one round gives the exact average.

    >>> complete(5).dobrushin(0, 1)
    0.0
    """
    return _static("complete", _circulant("complete", nodes, np.arange(max(nodes, 1))), lazy)


@graphs.register("star")
def star(nodes: int, weights: Rule = "metropolis", lazy: bool = False) -> Graph:
    """Node 0 exchanges with every other; the others only with node 0.

    >>> star(4).in_degrees(0)
    array([3, 1, 1, 1])
    """
    at_least_one("star", nodes)
    leaves = np.arange(1, nodes)
    return Periodic([weigh(both_ways(nodes, np.zeros_like(leaves), leaves), weights, lazy)], "star")


@graphs.register("grid")
def grid(nodes: int, rows: int | None = None, weights: Rule = "metropolis", lazy: bool = False) -> Graph:
    """Rows and columns, as square as N allows; each node exchanges with those beside, above and below.

    >>> grid(6), grid(6).edges(0)[1][:2]
    (<grid 2 × 3: 6 nodes, static>, array([1, 3]))
    """
    rows, columns = _sides("grid", nodes, rows)
    place = np.arange(nodes).reshape(rows, columns)
    ends = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    others = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    return Periodic([weigh(both_ways(nodes, ends, others), weights, lazy)], f"grid {rows} × {columns}")


@graphs.register("torus")
def torus(nodes: int, rows: int | None = None, weights: Rule = "metropolis", lazy: bool = False) -> Graph:
    """A grid whose opposite borders are joined, so that every node has the same neighbourhood.

    >>> torus(16).out_degrees(0).max()
    np.int64(4)
    """
    rows, columns = _sides("torus", nodes, rows)
    place = np.arange(nodes).reshape(rows, columns)
    others = np.concatenate([np.roll(place, -1, axis=axis).ravel() for axis in (0, 1)])
    return Periodic(
        [weigh(both_ways(nodes, np.tile(place.ravel(), 2), others), weights, lazy)],
        f"torus {rows} × {columns}",
    )


def _static(name: str, matrix: sparse.csr_array, lazily: bool) -> Graph:
    return Periodic([lazy(matrix) if lazily else matrix], name)


def _sides(name: str, nodes: int, rows: int | None) -> tuple[int, int]:
    """Rows and columns of the most square rectangle, refusing the lines that primes would give."""
    at_least_one(name, nodes)
    if rows is not None:
        if rows < 1 or nodes % rows:
            raise TacitError(f"{name}: {nodes} nodes do not fill {rows} rows: use a divisor of {nodes}")
        return rows, nodes // rows
    rows = _shorter_side(nodes)
    if rows == 1 and nodes > 3:
        fit = " or ".join(f"{n} ({_shorter_side(n)} × {n // _shorter_side(n)})" for n in (nodes - 1, nodes + 1))
        raise TacitError(f"{name}: {nodes} nodes fill no rectangle, since {nodes} is prime: use {fit}, or a ring")
    return rows, nodes // rows


def _shorter_side(nodes: int) -> int:
    return max(side for side in range(1, isqrt(nodes) + 1) if nodes % side == 0)
