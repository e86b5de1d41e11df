"""The covariance of paired noise over nodes, and how well it hides one node from nodes that collude.

Every node j adds its own noise of standard deviation s_j, and every pair (j, k) of a key graph K adds noise of standard
deviation κ with opposite signs. Over the nodes, each coordinate has the covariance Σ = diag(s²) + κ² L_K, with the
Laplacian L_K. Colluders Q know their own noise and that of their pairs. For the honest nodes H there remains

    Σ_H = diag(s_H²) + κ² L_{K[H]},

and a change of node i's value is hidden as well as by Gaussian noise of variance v_i = 1 / [Σ_H⁻¹]_ii.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import combinations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Edges = npt.NDArray[np.int64]

_MAX_WORK = 2e8  # coalitions × nodes³ for which every coalition is examined: about a second
_ROUND_DOWN = 1 - 1e-9  # more than the rounding errors of the closed forms


def joint_covariance(own: Array, pair: float, edges: Edges, colluders: Collection[int] = ()) -> Array:
    """Return Σ_H as an (n, n) matrix. Rows and columns of colluders are diagonal: they share no unknown noise.

    Args:
        own: (n,) standard deviation s of each node's own noise.
        pair: Standard deviation κ of the noise of each pair.
        edges: (E, 2) pairs of nodes that share a key, each once.
        colluders: The nodes that collude.
    """
    open_edges = edges[~np.isin(edges, list(colluders)).any(axis=1)]
    covariance = np.diag(own**2)
    first, second = open_edges.T
    np.add.at(covariance, (first, first), pair**2)
    np.add.at(covariance, (second, second), pair**2)
    covariance[first, second] = covariance[second, first] = -(pair**2)
    return covariance


def variances_against(own: Array, pair: float, edges: Edges, colluders: Collection[int] = ()) -> Array:
    """Return v_i = 1 / [Σ_H⁻¹]_ii (n,) against these colluders, NaN for the colluders themselves.

    It is rounded down by more than the error of the inverse, which grows with the condition of Σ_H.
    """
    covariance = joint_covariance(own, pair, edges, colluders)
    condition = 2 * covariance.diagonal().max() / (own**2).min()  # Gershgorin: no eigenvalue is larger than 2 max Σ_ii
    margin = _ROUND_DOWN - 16 * len(own) * np.finfo(np.float64).eps * condition
    variances = max(margin, 0.0) / np.diag(np.linalg.inv(covariance))
    variances[list(colluders)] = math.nan
    return np.asarray(variances)


def least_variances(own: Array, pair: float, edges: Edges, colluders: int) -> Array:
    """Return a lower bound (n,) on v_i against any coalition of at most `colluders` other nodes.

    It is exact for a complete key graph, and where all coalitions can be examined. Elsewhere it is the star bound.
    More colluders are never better for node i: they learn more, so only coalitions of full size are examined.
    """
    n = len(own)
    colluders = min(colluders, n - 1)
    if len(edges) == n * (n - 1) // 2:
        return _complete_graph(own, pair, colluders)
    if math.comb(n, colluders) * n**3 > _MAX_WORK:
        return star_variances(own, pair, edges, colluders)
    least = np.full(n, math.inf)
    for coalition in combinations(range(n), colluders):
        least = np.fmin(least, variances_against(own, pair, edges, coalition))
    return least


def star_variances(own: Array, pair: float, edges: Edges, colluders: int) -> Array:
    """Return the star bound (n,): v_i ≥ s_i² + Σ_j κ² s_j² / (κ² + s_j²) over i's partners without the largest terms.

    Proof: removing edges that do not touch i makes Σ_H smaller in the Loewner order and its inverse larger. What is
    left is a star around i, whose Schur complement is the formula. Colluders remove at most as many terms as there are
    colluders, at worst the largest.
    """
    term = pair**2 * own**2 / (pair**2 + own**2)
    ends = np.concatenate([edges, edges[:, ::-1]])
    order = np.lexsort((-term[ends[:, 1]], ends[:, 0]))  # by node, then by falling term
    node, terms = ends[order, 0], term[ends[order, 1]]
    first = np.searchsorted(node, np.arange(len(own)))
    terms[np.arange(len(node)) - first[node] < colluders] = 0.0
    return (own**2 + np.bincount(node, terms, minlength=len(own))) * _ROUND_DOWN


def _complete_graph(own: Array, pair: float, colluders: int) -> Array:
    """The exact least variance if every pair shares a key.

    Σ_H = diag(a) − κ² 11ᵀ with a_j = s_j² + κ² |H|, inverted by Sherman–Morrison. v_i grows with the noise of every
    other node and depends on their set alone. So the worst colluders are those with the most noise.
    """
    n, honest = len(own), len(own) - colluders
    order = np.argsort(own, kind="stable")
    rank = np.argsort(order, kind="stable")
    a = own**2 + pair**2 * honest
    # 1 − κ² Σ_j 1/a_j over H, written without cancellation
    share = own**2 / (honest * a)
    quiet = share[order[: honest - 1]].sum()
    last = share[order[honest - 1]]
    slack = quiet + np.where(rank < honest, last, share)  # i itself and the quietest others
    inverse = 1 / a + pair**2 / (a**2 * slack)
    return np.asarray(1 / inverse * _ROUND_DOWN) if n > 1 else own**2 * _ROUND_DOWN
