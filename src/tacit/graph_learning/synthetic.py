"""Synthetic graphs and signals: random graphs with a common part, and smooth signals on them (Section V-A).

A base graph G₀ is drawn. A random share q of its edges is the consensus. Each client adds (1 − q)|E₀| random edges of
its own to the consensus. The signals of client i are drawn from N(0, L_i⁺ + σ_w² I). The seed determines everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graph_learning.triangle import pair_count, vertex_count
from tacit.privacy import Array


@dataclass(frozen=True)
class Synthetic:
    """Synthetic signals and the graphs that they were drawn from.

    Attributes:
        signals: The signals of each client, (N_i, d).
        graphs: The clients' true graphs, (n, p).
        consensus: The part that the graphs have in common, (p,).
    """

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
    min_weight: float = 0.7,
    sigma_w: float = 0.1,
    seed: int | Sequence[int] = 0,
) -> Synthetic:
    """Return signals on random geometric graphs with RBF weights, as in the paper.

    Vertices are uniform in the unit square. The weight of a pair is exp(−dist²/2σ_r²).

    Args:
        vertices: d.
        clients: The number of clients.
        signals: The number of signals per client, one for all or one per client.
        q: The share of common edges, one for all or one per client (see `from_graph`).
        width: σ_r.
        min_weight: Pairs with a smaller weight are not edges.
        sigma_w: σ_w, the standard deviation of the noise on the signals.
        seed: The seed of all random numbers.

    >>> data = rbf(clients=2, signals=[10, 30], q=0.5, seed=1)
    >>> [x.shape for x in data.signals], data.graphs.shape
    ([(10, 20), (30, 20)], (2, 190))
    """
    rng = np.random.default_rng(seed)
    places = rng.uniform(size=(vertices, 2))
    first, second = np.triu_indices(vertices, 1)
    w = np.exp(-((places[first] - places[second]) ** 2).sum(1) / (2 * width**2))
    return from_graph(np.where(w >= min_weight, w, 0.0), clients, signals, q=q, sigma_w=sigma_w, seed=rng)


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
    """Return signals on Erdős–Rényi graphs: every pair is an edge with `probability`, weights are 1."""
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
    """Return signals on Barabási–Albert graphs: every new vertex gets `links` edges, weights are 1."""
    if not 1 <= links < vertices:
        raise TacitError(f"links must be in 1 to {vertices - 1} for {vertices} vertices, got {links}")
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
    """Return clients' graphs and signals derived from the base graph w (p,).

    With one q for all clients, a random share q of the edges of w is the consensus, which all clients have. With one q
    per client, w is the consensus, and each client keeps its own random share of it (the paper's Table III).
    """
    rng = np.random.default_rng(seed)
    base = np.asarray(w, np.float64)
    counts = [signals] * clients if isinstance(signals, int | np.integer) else [int(count) for count in signals]
    shares = np.asarray(q, np.float64)
    if clients < 1 or len(counts) != clients or min(counts) < 1:
        raise TacitError(
            f"signals must be at least 1, one number for all or one for each of {clients} clients, got {signals}"
        )
    if shares.shape not in ((), (clients,)) or not ((shares >= 0) & (shares <= 1)).all():
        raise TacitError(f"q must be in [0, 1], one value for all clients or one per client, got {q}")
    if not sigma_w >= 0:
        raise TacitError(f"sigma_w must be at least 0, got {sigma_w}")
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
    """Return w with only a random share of its edges."""
    edges = np.flatnonzero(w)
    chosen = rng.permutation(edges)[: round(share * len(edges))]
    result = np.zeros_like(w)
    result[chosen] = w[chosen]
    return result


def add_random_edges(w: Array, like: Array, rng: np.random.Generator) -> Array:
    """Return w with random edges added until it has as many as `like`. Their weights are drawn from `like`."""
    count = np.count_nonzero(like) - np.count_nonzero(w)
    result = w.copy()
    if count:
        result[rng.permutation(np.flatnonzero(w == 0))[:count]] = rng.choice(like[like > 0], count)
    return result


def smooth_signals(w: npt.ArrayLike, count: int, sigma_w: float, rng: np.random.Generator) -> Array:
    """Return `count` signals from N(0, L⁺ + σ_w² I) on the graph w (Eq. 28), one per row."""
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
