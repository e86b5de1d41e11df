"""Graphs that repeat, and the wrapper that makes any graph lazy."""

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
    """The matrix as sorted float64 CSR without stored zeros, or a refusal if it cannot weigh a graph.

    >>> canonical([[1.0, -0.5], [0.0, 1.5]], "my matrix")
    Traceback (most recent call last):
    tacit.errors.TacitError: my matrix: link 1 → 0 weighs -0.5: weights must be finite and at least 0
    """
    try:
        dense: Any = matrix if sparse.issparse(matrix) else np.asarray(matrix, dtype=np.float64)
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1] or dense.shape[0] == 0:
            shape = " × ".join(map(str, dense.shape)) or "a single number"
            raise TacitError(f"{where}: weights must be a square matrix, one row and column a node, not {shape}")
        weights = sparse.csr_array(dense, dtype=np.float64, copy=True)
    except (TypeError, ValueError):
        raise TacitError(f"{where}: weights must be a square matrix of numbers") from None
    weights.sum_duplicates()
    weights.eliminate_zeros()
    entries = weights.tocoo()
    wrong = np.flatnonzero(~(np.isfinite(entries.data) & (entries.data >= 0)))
    if wrong.size:
        i, j, weight = (values[wrong[0]] for values in (entries.row, entries.col, entries.data))
        raise TacitError(f"{where}: link {j} → {i} weighs {weight:g}: weights must be finite and at least 0")
    return weights


class Periodic(Graph):
    """The given matrices, one a round, over and over: W(t) = W(t mod p).

    >>> swap = Periodic([[[0.5, 0.5], [0.5, 0.5]], [[1, 0], [0, 1]]], name="every other round")
    >>> swap, swap.window(), swap.spectral_gap()
    (<every other round: 2 nodes, period 2>, 2, 1.0)
    """

    def __init__(self, matrices: Sequence[ArrayLike | sparse.sparray], name: str) -> None:
        if not len(matrices):
            raise TacitError(f"{name}: a graph needs at least one matrix of weights")
        self._matrices = [canonical(matrix, f"{name}, round {t}") for t, matrix in enumerate(matrices)]
        sizes = [matrix.shape[0] for matrix in self._matrices]
        for t, size in enumerate(sizes):
            if size != sizes[0]:
                raise TacitError(f"{name}: round {t} has {size} nodes and round 0 has {sizes[0]}: they must agree")
        super().__init__(sizes[0], len(sizes), name)

    def at(self, t: int) -> sparse.csr_array:
        return self._matrices[t % len(self._matrices)]


def from_matrices(matrices: Sequence[ArrayLike | sparse.sparray], name: str = "custom matrices") -> Periodic:
    """Your own weights, one matrix a round, repeated; entry [i, j] weighs what i receives from j.

    >>> from_matrices([[[0.5, 0.5], [0.5, 0.5]]]).doubly_stochastic
    True
    """
    return Periodic(matrices, name)


class Wrapper(Graph):
    """A graph made from another, round by round, that answers as the other does unless it says otherwise."""

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


class Lazy(Wrapper):
    """Any graph, with every node keeping half of its value: (I + W(t)) / 2.

    >>> from tacit.graphs import complete
    >>> Lazy(complete(2)).at(0).toarray()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, graph.period, f"lazy {graph.name}")
        self._made: dict[int, sparse.csr_array] = {}

    def at(self, t: int) -> sparse.csr_array:
        if self.period is None:
            return lazy(self.graph.at(t))
        if t % self.period not in self._made:
            self._made[t % self.period] = lazy(self.graph.at(t))
        return self._made[t % self.period]

    @cached_property
    def self_loops(self) -> bool:
        return True

    def expected(self) -> Graph:
        return self if self.graph.expected() is self.graph else Lazy(self.graph.expected())
