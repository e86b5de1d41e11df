"""Graphs and signals to try methods on: random graphs that share a part, and smooth signals on them (Section V-A).

A graph G₀ is drawn; a share q of its edges, drawn at random, is the consensus; each client adds (1 − q)|E₀| random
edges of its own to that. Signals of client i are N(0, L_i⁺ + σ_w² I). All is a function of the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graph_learning.triangle import pair_count, vertex_count
from tacit.privacy.ledger import Array


@dataclass(frozen=True)
class Synthetic:
    """Signals of each client (N_i, d), the graphs they come from (n, p), and what those have in common (p,)."""

    signals: list[Array]
    graphs: Array
    consensus: Array


def rbf(
    vertices: int = 20,
    clients: int = 5,
    signals: int | Sequence[int] = 100,
    *,
    q: float | Sequence[float] = 0.5,
    width: float = 0.5,
    least: float = 0.7,
    sigma_w: float = 0.1,
    seed: int | Sequence[int] = 0,
) -> Synthetic:
    """The paper's: vertices in the unit square, weights exp(−dist²/2σ_r²) with σ_r = `width`, none below `least`.

    >>> data = rbf(clients=2, signals=[10, 30], q=0.5, seed=1)
    >>> [x.shape for x in data.signals], data.graphs.shape
    ([(10, 20), (30, 20)], (2, 190))
    """
    rng = np.random.default_rng(seed)
    places = rng.uniform(size=(vertices, 2))
    first, second = np.triu_indices(vertices, 1)
    w = np.exp(-((places[first] - places[second]) ** 2).sum(1) / (2 * width**2))
    return from_graph(np.where(w >= least, w, 0.0), clients, signals, q=q, sigma_w=sigma_w, seed=rng)


def erdos_renyi(
    vertices: int = 20,
    clients: int = 5,
    signals: int | Sequence[int] = 100,
    *,
    probability: float = 0.3,
    q: float | Sequence[float] = 0.5,
    sigma_w: float = 0.1,
    seed: int | Sequence[int] = 0,
) -> Synthetic:
    """Every pair is an edge with the same probability; weights are 1."""
    rng = np.random.default_rng(seed)
    w = (rng.uniform(size=pair_count(vertices)) < probability).astype(np.float64)
    return from_graph(w, clients, signals, q=q, sigma_w=sigma_w, seed=rng)


def barabasi_albert(
    vertices: int = 20,
    clients: int = 5,
    signals: int | Sequence[int] = 100,
    *,
    links: int = 2,
    q: float | Sequence[float] = 0.5,
    sigma_w: float = 0.1,
    seed: int | Sequence[int] = 0,
) -> Synthetic:
    """Every new vertex links to `links` others, those with many links first; weights are 1."""
    if not 1 <= links < vertices:
        raise TacitError(f"links must be at least 1 and below the {vertices} vertices, not {links}")
    rng = np.random.default_rng(seed)
    graph = nx.barabasi_albert_graph(vertices, links, seed=int(rng.integers(2**31)))
    w = nx.to_numpy_array(graph)[np.triu_indices(vertices, 1)]
    return from_graph(w, clients, signals, q=q, sigma_w=sigma_w, seed=rng)


def from_graph(
    w: npt.ArrayLike,
    clients: int,
    signals: int | Sequence[int],
    *,
    q: float | Sequence[float] = 0.5,
    sigma_w: float = 0.1,
    seed: int | Sequence[int] | np.random.Generator = 0,
) -> Synthetic:
    """Clients' graphs and signals around the graph w (p,). With a q for each client, each keeps that share of w itself,
    and w is what they have in common (the paper's Table III)."""
    rng = np.random.default_rng(seed)
    base = np.asarray(w, np.float64)
    counts = [signals] * clients if isinstance(signals, int | np.integer) else [int(count) for count in signals]
    shares = np.asarray(q, np.float64)
    if clients < 1 or len(counts) != clients or min(counts) < 1:
        raise TacitError(f"{clients} clients need as many numbers of signals, each at least 1, not {counts}")
    if shares.shape not in ((), (clients,)) or not ((shares >= 0) & (shares <= 1)).all():
        raise TacitError(f"q is a share from 0 to 1, one for all or one a client, not {q}")
    if not sigma_w >= 0:
        raise TacitError(f"sigma_w must be 0 or more, not {sigma_w}")
    if shares.ndim:
        consensus = base
        graphs = np.stack([add_random_edges(keep_random_edges(base, share, rng), base, rng) for share in shares])
    else:
        consensus = keep_random_edges(base, float(shares), rng)
        graphs = np.stack([add_random_edges(consensus, base, rng) for _ in range(clients)])
    return Synthetic(
        [smooth_signals(g, n, sigma_w, rng) for g, n in zip(graphs, counts, strict=True)], graphs, consensus
    )


def keep_random_edges(w: Array, share: float, rng: np.random.Generator) -> Array:
    """w with a random share of its edges, the others gone."""
    edges = np.flatnonzero(w)
    stay = rng.permutation(edges)[: round(share * len(edges))]
    result = np.zeros_like(w)
    result[stay] = w[stay]
    return result


def add_random_edges(w: Array, like: Array, rng: np.random.Generator) -> Array:
    """w with new edges at random places, until it has as many as the graph `like`, whose weights they take."""
    count = np.count_nonzero(like) - np.count_nonzero(w)
    result = w.copy()
    if count:
        result[rng.permutation(np.flatnonzero(w == 0))[:count]] = rng.choice(like[like > 0], count)
    return result


def smooth_signals(w: npt.ArrayLike, count: int, sigma_w: float, rng: np.random.Generator) -> Array:
    """`count` signals N(0, L⁺ + σ_w² I) (28) on the graph w, a row each."""
    weights = np.asarray(w, np.float64)
    d = vertex_count(len(weights))
    laplacian = np.zeros((d, d))
    first, second = np.triu_indices(d, 1)
    laplacian[first, second] = laplacian[second, first] = -weights
    np.fill_diagonal(laplacian, -laplacian.sum(1))
    values, vectors = np.linalg.eigh(laplacian)
    root = np.sqrt(np.where(values > 1e-9, 1 / np.maximum(values, 1e-9), 0.0))
    smooth = rng.normal(size=(count, d)) * root @ vectors.T
    signals: Array = smooth + sigma_w * rng.normal(size=(count, d))
    return signals
