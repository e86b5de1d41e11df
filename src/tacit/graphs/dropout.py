"""Random failures of links and nodes that conserve mass."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs.analysis import links as links_of
from tacit.graphs.base import Graph
from tacit.graphs.periodic import GraphWrapper, Periodic
from tacit.graphs.random_graphs import check_seed


def drop(matrix: sparse.csr_array, lost: NDArray[np.bool_]) -> sparse.csr_array:
    """Return W without the lost links. The weight of each is added to the *sender's* diagonal entry.

    Column sums do not change, so mass is conserved. If both directions of a link are lost, a symmetric matrix stays
    doubly stochastic.

    Args:
        matrix: W, (N, N).
        lost: One entry per link, in the order of `Graph.edges`: by source, then target.

    >>> drop(sparse.csr_array([[0.5, 0.5], [0.5, 0.5]]), np.array([True, False])).toarray()
    array([[1. , 0.5],
           [0. , 0.5]])
    """
    entries = matrix.tocsc().tocoo()  # column by column, which is the order of the links
    other = np.flatnonzero(entries.row != entries.col)
    if lost.shape != other.shape:
        raise TacitError(f"lost must have one entry per link, got {lost.size} entries for {len(other)} links")
    gone = other[lost]
    returned = np.bincount(entries.col[gone], weights=entries.data[gone], minlength=matrix.shape[0])
    keep = np.ones(entries.nnz, dtype=bool)
    keep[gone] = False
    kept = (entries.data[keep], (entries.row[keep], entries.col[keep]))
    result = sparse.csr_array(
        sparse.csr_array(kept, shape=matrix.shape) + sparse.diags_array(returned, dtype=np.float64)
    )
    result.eliminate_zeros()
    return result


class Dropout(GraphWrapper):
    """A graph whose links and nodes fail at random in every round.

    The weight of a failed link stays with its sender. A failed node neither sends nor receives, and keeps its value. On
    an undirected graph both directions of a link fail together. Round t is drawn from SeedSequence([seed, t]).

    The result is column-stochastic if the graph is, and doubly stochastic if the graph is also symmetric. `window` is
    that of the graph, and `spectral_gap` that of the expected weights: both hold in expectation, not in every run.

    Args:
        graph: The graph without failures.
        links: The probability that a link fails in a round.
        nodes: The probability that a node fails in a round.
        seed: The seed of the failures.

    >>> from tacit.graphs import ring
    >>> Dropout(ring(8), links=0.5, nodes=0, seed=1).at(0).sum(axis=0)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """

    def __init__(self, graph: Graph, links: float = 0.1, nodes: float = 0.05, seed: int = 0) -> None:
        for what, probability in (("links", links), ("nodes", nodes)):
            if not 0 <= probability < 1:
                raise TacitError(f"drop-out: {what} must be a probability in [0, 1), got {probability:g}")
        check_seed("drop-out", seed)
        super().__init__(graph, None, f"{graph.name} with drop-out")
        self.link_failure = links
        self.node_failure = nodes
        self.seed = seed
        self._last: tuple[int, sparse.csr_array] | None = None

    def at(self, t: int) -> sparse.csr_array:
        if self._last is None or self._last[0] != t:
            self._last = (t, self._draw(t))
        return self._last[1]

    def _draw(self, t: int) -> sparse.csr_array:
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, t]))
        matrix = self.graph.at(t)
        sources, targets = links_of(matrix)
        down = rng.random(self.nodes) < self.node_failure
        first, second = (
            (sources, targets) if self.directed else (np.minimum(sources, targets), np.maximum(sources, targets))
        )
        pairs, which = np.unique(first * self.nodes + second, return_inverse=True)
        failed = rng.random(len(pairs)) < self.link_failure
        return drop(matrix, failed[which] | down[sources] | down[targets])

    @cached_property
    def row_stochastic(self) -> bool:
        return self.graph.symmetric and self.graph.row_stochastic

    def expected(self) -> Graph:
        """Return E[W] = q W + (1 − q) diag(1ᵀW), with q = (1 − links)(1 − nodes)² the probability that a link works."""
        q = (1 - self.link_failure) * (1 - self.node_failure) ** 2
        mean = [q * w + (1 - q) * sparse.diags_array(w.sum(axis=0)) for w in self.graph.expected().cycle()]
        return Periodic(mean, f"{self.name}, expected")
