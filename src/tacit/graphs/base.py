"""The contract every graph keeps: a sequence of weighted graphs that answers questions about itself."""

from abc import ABC, abstractmethod
from functools import cached_property

import networkx as nx
import numpy as np
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs import analysis
from tacit.graphs.analysis import Floats, Integers
from tacit.registry import Registry

HORIZON = 64  # rounds from which an aperiodic graph is judged, where its structure does not give the answer
TOLERANCE = 1e-9  # how far a sum of weights may be from 1
_CONTRACTED = 0.01  # of a disagreement: what is left when a geometric bound of the contraction is drawn
_LONGEST = 1 << 18  # rounds × nodes looked at for that

graphs: Registry["Graph"] = Registry("graph")


class Graph(ABC):
    """A sequence of weighted directed graphs over `nodes` nodes.

    `at(t)` may depend on t and on how the graph was made, on nothing else: every site derives the same
    sequence by itself. `period` is 1 for a static graph, p for one that repeats after p rounds, None for one
    that never does. Questions are answered over one period; a graph without one is judged by its first
    `HORIZON` rounds, as if they repeated, unless its class knows better.

    >>> from tacit.graphs import ring
    >>> graph = ring(4)
    >>> graph
    <ring: 4 nodes, static>
    >>> graph.at(0).toarray().round(2)
    array([[0.33, 0.33, 0.  , 0.33],
           [0.33, 0.33, 0.33, 0.  ],
           [0.  , 0.33, 0.33, 0.33],
           [0.33, 0.  , 0.33, 0.33]])
    >>> graph.directed, graph.doubly_stochastic, graph.window(), round(graph.spectral_gap(), 3)
    (False, True, 1, 0.667)
    """

    def __init__(self, nodes: int, period: int | None, name: str) -> None:
        self.nodes = nodes
        self.period = period
        self.name = name
        self._dobrushin: dict[tuple[int, int], float] = {}
        self._degrees: dict[int, Integers] = {}

    @abstractmethod
    def at(self, t: int) -> sparse.csr_array:
        """The weights W(t), (N, N): entry [i, j] weighs what i receives from j, itself included."""

    def cycle(self) -> list[sparse.csr_array]:
        """The matrices of one period, or of the first `HORIZON` rounds where there is none."""
        return [self.at(t) for t in range(self.period or HORIZON)]

    def expected(self) -> "Graph":
        """The graph of expected weights: itself, unless the rounds are drawn at random."""
        return self

    @property
    def description(self) -> str:
        if self.period is None:
            change = "random in every round"
        else:
            change = "static" if self.period == 1 else f"period {self.period}"
        return f"{self.name}: {self.nodes} node{'s' if self.nodes > 1 else ''}, {change}"

    def __repr__(self) -> str:
        return f"<{self.description}>"

    # Structure

    @cached_property
    def directed(self) -> bool:
        """Whether some link, in some round, has no link back in the same round."""
        patterns = (analysis.pattern(w) for w in self.cycle())
        return any((links - links.T).nnz > 0 for links in patterns)

    @cached_property
    def symmetric(self) -> bool:
        """Whether both directions of every link weigh the same: W(t) = W(t)ᵀ."""
        return all(abs(w - w.T).max() <= TOLERANCE for w in self.cycle())

    @cached_property
    def self_loops(self) -> bool:
        """Whether every node keeps some of its own value in every round."""
        return all(bool(np.all(w.diagonal() > 0)) for w in self.cycle())

    @cached_property
    def column_stochastic(self) -> bool:
        """Σ_i W_ij = 1: what a node sends adds up to what it had, so mass is conserved."""
        return all(bool(np.all(abs(w.sum(axis=0) - 1) <= TOLERANCE)) for w in self.cycle())

    @cached_property
    def row_stochastic(self) -> bool:
        """Σ_j W_ij = 1: what a node receives is an average, so agreement is kept."""
        return all(bool(np.all(abs(w.sum(axis=1) - 1) <= TOLERANCE)) for w in self.cycle())

    @property
    def doubly_stochastic(self) -> bool:
        return self.column_stochastic and self.row_stochastic

    # Connectivity and mixing

    @cached_property
    def _window(self) -> int | None:
        return analysis.smallest_window(self.cycle())

    def window(self) -> int | None:
        """Smallest B such that the union of any B successive graphs is strongly connected; None: none is."""
        return self._window

    def strongly_connected(self, window: int = 1) -> bool:
        """Whether the union of *every* `window` successive graphs is strongly connected."""
        smallest = self.window()
        return smallest is not None and smallest <= window

    def spectral_gap(self) -> float:
        """1 − |λ₂| of the product over one period, of expected weights where they are random."""
        return analysis.spectral_gap(self.expected().cycle())

    def product(self, start: int, stop: int) -> sparse.csr_array:
        """Φ(stop, start) = W(stop−1)…W(start); the identity when start = stop."""
        if stop < start:
            raise TacitError(f"a product of rounds runs forward in time, not from {start} to {stop}")
        result = analysis.identity(self.nodes)
        for t in range(start, stop):
            result = self.at(t) @ result
        return result

    def dobrushin(self, start: int, stop: int) -> float:
        """τ(Φ(stop, start)), with τ(M) = ½ max_ij Σ_k |M_ik − M_jk|.

        >>> from tacit.graphs import d_out
        >>> [d_out(10, d=2).dobrushin(0, t) for t in (4, 5)]
        [1.0, 0.9375]
        """
        key = (start % self.period if self.period else start, stop - start)
        if key not in self._dobrushin:
            self._dobrushin[key] = analysis.dobrushin(self.product(start, stop), self._circulant)
        return self._dobrushin[key]

    def contractions(self, length: int) -> Floats:
        """τ(Φ(s + k, s)) at [s, k], for each start s in a period and k = 0 … `length`: all τ, computed once.

        >>> from tacit.graphs import one_peer_exponential
        >>> one_peer_exponential(8).contractions(3)[0]
        array([1., 1., 1., 0.])
        """
        if self.period is None:
            raise TacitError(
                f"{self.name} never repeats, so it has no table of contractions: ask dobrushin(start, stop)"
            )
        table = np.empty((self.period, length + 1))
        for s in range(self.period):
            product = analysis.identity(self.nodes)
            for k in range(length + 1):
                table[s, k:] = analysis.dobrushin(product, self._circulant)
                if self.row_stochastic and table[s, k] < TOLERANCE:
                    break  # τ cannot grow again, so the last value bounds all later ones
                product = self.at(s + k) @ product
        return table

    def certified_constants(self) -> tuple[float, float]:
        """(C′, λ) with τ(Φ(t, k)) ≤ C′ λ^(t−k) for all k ≤ t: of all such pairs that with the least C′ / (1 − λ).

        >>> from tacit.graphs import d_out
        >>> c, lam = d_out(10, d=8).certified_constants()
        >>> round(c, 3), round(lam, 3)
        (1.0, 0.25)
        """
        if not self.row_stochastic:
            raise TacitError(f"{self.name} does not keep agreement (its rows do not sum to 1), so nothing contracts")
        return analysis.dominating(self._contracted())

    def _contracted(self) -> Floats:
        """max_s τ(Φ(s + k, s)) for k = 0, 1, …, far enough that no geometric bound would gain by going on."""
        if self.window() is None:
            raise TacitError(f"{self.name} never brings all its nodes together, so nothing can be certified on it")
        length = 8
        while True:
            worst: Floats = self.contractions(length).max(axis=0)
            if worst[-1] < _CONTRACTED:
                return worst
            if length * self.nodes > _LONGEST:
                raise TacitError(f"{self.name} brings its nodes together too slowly to be certified: add links")
            length *= 2

    @cached_property
    def _circulant(self) -> bool:
        return self.period is not None and all(analysis.circulant_column(w) is not None for w in self.cycle())

    # Links

    def edges(self, t: int) -> tuple[Integers, Integers]:
        """Sources and targets of the links of round t, without self-loops, sorted by (source, target)."""
        return analysis.links(self.at(t))

    def out_degrees(self, t: int) -> Integers:
        """How many others each node sends to in round t."""
        if self.period is None:
            return self._out_degrees(t)
        if t % self.period not in self._degrees:
            self._degrees[t % self.period] = self._out_degrees(t)
        return self._degrees[t % self.period]

    def _out_degrees(self, t: int) -> Integers:
        return np.bincount(self.edges(t)[0], minlength=self.nodes)

    def in_degrees(self, t: int) -> Integers:
        """How many others each node hears from in round t."""
        return np.bincount(self.edges(t)[1], minlength=self.nodes)

    def to_networkx(self, t: int = 0) -> nx.DiGraph:
        """Round t in networkx: an edge from sender to receiver with its `weight`, self-loops included."""
        return nx.from_scipy_sparse_array(self.at(t).T, create_using=nx.DiGraph)
