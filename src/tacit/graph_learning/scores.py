"""Scores of learned graphs: as a set of edges, as weights, as communities, and for reconstructing signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graph_learning.triangle import pair_count
from tacit.privacy import Array


class EdgeScores(NamedTuple):
    """Precision, recall and F1 of the edges (Eq. 29), and the relative error of the weights (Eq. 30).

    The scores of several graphs are their means.
    """

    precision: float
    recall: float
    f1: float
    relative_error: float


class CommunityScores(NamedTuple):
    """Normalised mutual information, Rand index and Fowlkes–Mallows index of communities against known labels."""

    nmi: float
    ri: float
    fmi: float


def edges(w: npt.ArrayLike, threshold: float = 1e-4) -> npt.NDArray[np.bool_]:
    """Return which pairs are edges: those above `threshold` times the largest weight of their graph."""
    rows = np.asarray(w, np.float64)
    result: npt.NDArray[np.bool_] = rows > threshold * np.maximum(rows.max(-1, keepdims=True), 1e-300)
    return result


def edge_scores(learned: npt.ArrayLike, truth: npt.ArrayLike, threshold: float = 1e-4) -> EdgeScores:
    """Compare learned graphs (p,) or (n, p) with the true ones. A graph without edges has precision 0.

    >>> edge_scores([1.0, 0.5, 0.0], [1.0, 0.0, 0.0])
    EdgeScores(precision=0.5, recall=1.0, f1=0.666..., relative_error=0.5)
    """
    w, true = np.atleast_2d(np.asarray(learned, np.float64)), np.atleast_2d(np.asarray(truth, np.float64))
    if w.shape[-1] != true.shape[-1]:
        raise TacitError(
            f"Learned and true graphs must have the same size, got {w.shape[-1]} and {true.shape[-1]} pairs"
        )
    found, there = edges(w, threshold), np.broadcast_to(true > 0, w.shape)
    hits = (found & there).sum(1)
    precision, recall = hits / np.maximum(found.sum(1), 1), hits / np.maximum(there.sum(1), 1)
    f1 = 2 * hits / np.maximum(found.sum(1) + there.sum(1), 1)
    size = np.linalg.norm(true, axis=1)
    error = np.where(size > 0, np.linalg.norm(w - true, axis=1) / np.where(size > 0, size, 1.0), np.inf)
    return EdgeScores(*(float(each.mean()) for each in (precision, recall, f1, error)))


def best_edge_scores(
    learned: npt.ArrayLike, truth: npt.ArrayLike, thresholds: npt.ArrayLike | None = None
) -> EdgeScores:
    """Return the scores at the threshold with the best F1. Only for experiments in which the truth is known."""
    tried = np.concatenate([[1e-4], np.geomspace(1e-3, 0.5, 28)]) if thresholds is None else np.asarray(thresholds)
    return max((edge_scores(learned, truth, float(at)) for at in tried), key=lambda found: found.f1)


def communities(square: npt.ArrayLike, seed: int = 0) -> npt.NDArray[np.int64]:
    """Return the community of each vertex by Louvain's method on a weight matrix (d, d)."""
    graph = nx.from_numpy_array(np.asarray(square, np.float64))
    labels = np.zeros(len(graph), np.int64)
    for label, members in enumerate(nx.community.louvain_communities(graph, seed=seed)):
        labels[list(members)] = label
    return labels


def community_scores(
    square: npt.ArrayLike, labels: Sequence[int] | npt.NDArray[np.int64], seed: int = 0
) -> CommunityScores:
    """Compare the Louvain communities of a weight matrix with known labels.

    >>> blocks = np.kron(np.eye(2), np.ones((3, 3))) - np.eye(6)
    >>> community_scores(blocks, [0, 0, 0, 1, 1, 1])
    CommunityScores(nmi=1.0, ri=1.0, fmi=1.0)
    """
    found = communities(square, seed)
    from sklearn import metrics as sklearn_metrics  # slow to import

    return CommunityScores(
        float(sklearn_metrics.normalized_mutual_info_score(labels, found)),
        float(sklearn_metrics.rand_score(labels, found)),
        float(sklearn_metrics.fowlkes_mallows_score(labels, found)),
    )


def reconstruct(signals: npt.ArrayLike, masked: npt.ArrayLike, square: npt.ArrayLike, ridge: float = 1e-6) -> Array:
    """Return signals with the values at the masked vertices replaced by the smoothest ones on a graph.

    Minimising xᵀL x over the masked values gives x_m = −L_mm⁻¹ L_mo x_o.

    Args:
        signals: Signals (N, d).
        masked: The indices of the masked vertices.
        square: The weight matrix of the graph, (d, d).
        ridge: Regularisation relative to the mean degree. It draws vertices that no edge connects to an observed one
            towards the mean of the observed values.
    """
    x, weights = np.array(signals, np.float64), np.asarray(square, np.float64)
    hidden = np.zeros(len(weights), bool)
    chosen = np.asarray(masked)
    if chosen.size:
        hidden[chosen] = True
    if x.ndim != 2 or x.shape[1] != len(weights):
        raise TacitError(f"Signals must have shape (N, {len(weights)}) for this graph, got {x.shape}")
    if hidden.all() or not hidden.any():
        raise TacitError(f"Between 1 and {len(weights) - 1} vertices must be masked, got {hidden.sum()}")
    laplacian = np.diag(weights.sum(1)) - weights
    middle = x[:, ~hidden].mean(1, keepdims=True)
    own = laplacian[np.ix_(hidden, hidden)] + max(ridge * weights.sum(1).mean(), 1e-12) * np.eye(int(hidden.sum()))
    pull = weights[np.ix_(hidden, ~hidden)] @ (x[:, ~hidden] - middle).T
    x[:, hidden] = np.linalg.solve(own, pull).T + middle
    return x


def reconstruction_error(
    signals: npt.ArrayLike, masked: npt.ArrayLike, square: npt.ArrayLike, ridge: float = 1e-6
) -> float:
    """Return ‖x̂ − x‖ ÷ ‖x‖ over the masked values of all signals; see `reconstruct`.

    >>> chain = np.diag(np.ones(2), 1) + np.diag(np.ones(2), -1)
    >>> round(reconstruction_error([[0.0, 1.0, 2.0]], [1], chain), 6)
    0.0
    """
    x, hidden = np.asarray(signals, np.float64), np.asarray(masked)
    filled = reconstruct(x, hidden, square, ridge)
    return float(np.linalg.norm((filled - x)[:, hidden])) / max(float(np.linalg.norm(x[:, hidden])), 1e-300)


def triangles(squares: npt.ArrayLike) -> Array:
    """Return the upper triangles (…, p) of weight matrices (…, d, d)."""
    values = np.asarray(squares, np.float64)
    d = values.shape[-1]
    result: Array = values[..., *np.triu_indices(d, 1)]
    assert result.shape[-1] == pair_count(d)
    return result
