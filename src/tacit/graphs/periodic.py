"""Graphs that repeat after a number of rounds, and wrappers of other graphs."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs.base import Graph
from tacit.graphs.weights import lazy


def canonical(matrix: ArrayLike | sparse.sparray, where: str) -> sparse.csr_array:
    """Return the matrix as sorted float64 CSR without stored zeros. Invalid weights are refused.

    >>> canonical([[1.0, -0.5], [0.0, 1.5]], "my matrix")
    Traceback (most recent call last):
    tacit.errors.TacitError: my matrix: the weight of link 1 → 0 must be finite and at least 0, got -0.5
    """
    try:
        dense: Any = matrix if sparse.issparse(matrix) else np.asarray(matrix, dtype=np.float64)
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1] or dense.shape[0] == 0:
            shape = " × ".join(map(str, dense.shape)) or "a single number"
            raise TacitError(
                f"{where}: weights must be a square matrix with one row and one column per node, got {shape}"
            )
        weights = sparse.csr_array(dense, dtype=np.float64, copy=True)
    except (TypeError, ValueError):
        raise TacitError(f"{where}: weights must be a square matrix of numbers") from None
    weights.sum_duplicates()
    weights.eliminate_zeros()
    entries = weights.tocoo()
    wrong = np.flatnonzero(~(np.isfinite(entries.data) & (entries.data >= 0)))
    if wrong.size:
        i, j, weight = (values[wrong[0]] for values in (entries.row, entries.col, entries.data))
        raise TacitError(f"{where}: the weight of link {j} → {i} must be finite and at least 0, got {weight:g}")
    return weights


class Periodic(Graph):
    """A graph that repeats the given matrices, one per round: W(t) = W(t mod p).

    >>> swap = Periodic([[[0.5, 0.5], [0.5, 0.5]], [[1, 0], [0, 1]]], name="every other round")
    >>> swap, swap.window(), swap.spectral_gap()
    (<every other round: 2 nodes, period 2>, 2, 1.0)
    """

    def __init__(self, matrices: Sequence[ArrayLike | sparse.sparray], name: str) -> None:
        if not len(matrices):
            raise TacitError(f"{name}: give at least one matrix of weights")
        self._matrices = [canonical(matrix, f"{name}, round {t}") for t, matrix in enumerate(matrices)]
        sizes = [matrix.shape[0] for matrix in self._matrices]
        for t, size in enumerate(sizes):
            if size != sizes[0]:
                raise TacitError(
                    f"{name}: all rounds must have the same nodes, but round {t} has {size} and round 0 has {sizes[0]}"
                )
        super().__init__(sizes[0], len(sizes), name)

    def at(self, t: int) -> sparse.csr_array:
        return self._matrices[t % len(self._matrices)]


def from_matrices(matrices: Sequence[ArrayLike | sparse.sparray], name: str = "custom matrices") -> Periodic:
    """Return a graph that repeats these matrices, one per round. Entry [i, j] is the weight of what i receives from j.

    >>> from_matrices([[[0.5, 0.5], [0.5, 0.5]]]).doubly_stochastic
    True
    """
    return Periodic(matrices, name)


class GraphWrapper(Graph):
    """A graph derived from another. It has the properties of the other unless a subclass overrides them."""

    def __init__(self, graph: Graph, period: int | None, name: str) -> None:
        super().__init__(graph.nodes, period, name)
        self.graph = graph

    @cached_property
    def directed(self) -> bool:
        return self.graph.directed

    @cached_property
    def symmetric(self) -> bool:
        return self.graph.symmetric

    @cached_property
    def self_loops(self) -> bool:
        return self.graph.self_loops

    @cached_property
    def column_stochastic(self) -> bool:
        return self.graph.column_stochastic

    @cached_property
    def row_stochastic(self) -> bool:
        return self.graph.row_stochastic

    def window(self) -> int | None:
        return self.graph.window()


class Lazy(GraphWrapper):
    """A graph in which every node keeps half of its value: (I + W(t)) / 2.

    >>> from tacit.graphs import complete
    >>> Lazy(complete(2)).at(0).toarray()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, graph.period, f"lazy {graph.name}")
        self._matrices_by_round: dict[int, sparse.csr_array] = {}

    def at(self, t: int) -> sparse.csr_array:
        if self.period is None:
            return lazy(self.graph.at(t))
        if t % self.period not in self._matrices_by_round:
            self._matrices_by_round[t % self.period] = lazy(self.graph.at(t))
        return self._matrices_by_round[t % self.period]

    @cached_property
    def self_loops(self) -> bool:
        return True

    def expected(self) -> Graph:
        return self if self.graph.expected() is self.graph else Lazy(self.graph.expected())
