"""The base class of every graph: a sequence of weighted directed graphs with their properties."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from tacit.errors import TacitError
from tacit.graphs import analysis
from tacit.graphs.analysis import Floats, Integers
from tacit.registry import Registry

if TYPE_CHECKING:
    import networkx as nx

HORIZON = 64  # rounds that represent an aperiodic graph if its class does not define a property
TOLERANCE = 1e-9  # the largest deviation of a sum of weights from 1
_CONTRACTION_TARGET = 0.01  # the table of contractions is extended until its last entry is below this
_MAX_ROUNDS_TIMES_NODES = 1 << 18  # the size limit of that table

graphs: Registry[Graph] = Registry("graph")
graphs.describe_parameters(
    nodes="Number of nodes.",
    lazy="If true, every node keeps half of its value.",
    weights='Rule for the weights of links: "metropolis" (doubly stochastic) or "uniform-out" (equal shares).',
    seed="Seed of the random links.",
    connected="Whether links are drawn again until the graph is connected.",
)


class Graph(ABC):
    """A sequence of weighted directed graphs over `nodes` nodes.

    `at(t)` depends only on t and on the parameters of the graph, so every site derives the same sequence. Properties
    are computed over one period. A graph without a period is represented by its first `HORIZON` rounds, unless its
    class overrides the property.

    Attributes:
        nodes: The number of nodes N.
        period: 1 for a static graph, p for a graph that repeats after p rounds, None for one that never repeats.
        name: The name in messages and reports.

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
        """Return the mixing matrix W(t), (N, N). Entry [i, j] is the weight of what i receives from j."""

    def cycle(self) -> list[sparse.csr_array]:
        """Return the matrices of one period, or of the first `HORIZON` rounds if there is no period."""
        return [self.at(t) for t in range(self.period or HORIZON)]

    def expected(self) -> Graph:
        """Return the graph of expected weights: the graph itself, unless its rounds are random."""
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
        """Whether both directions of every link have the same weight: W(t) = W(t)ᵀ."""
        return all(abs(w - w.T).max() <= TOLERANCE for w in self.cycle())

    @cached_property
    def self_loops(self) -> bool:
        """Whether every node keeps a part of its own value in every round."""
        return all(bool(np.all(w.diagonal() > 0)) for w in self.cycle())

    @cached_property
    def column_stochastic(self) -> bool:
        """Whether Σ_i W_ij = 1: the parts that a node sends and keeps add up to its value, so mass is conserved."""
        return all(bool(np.all(abs(w.sum(axis=0) - 1) <= TOLERANCE)) for w in self.cycle())

    @cached_property
    def row_stochastic(self) -> bool:
        """Whether Σ_j W_ij = 1: every node computes a weighted average, so equal values stay equal."""
        return all(bool(np.all(abs(w.sum(axis=1) - 1) <= TOLERANCE)) for w in self.cycle())

    @property
    def doubly_stochastic(self) -> bool:
        """Whether the graph is column-stochastic and row-stochastic."""
        return self.column_stochastic and self.row_stochastic

    # Connectivity and mixing

    @cached_property
    def _window(self) -> int | None:
        return analysis.smallest_window(self.cycle())

    def window(self) -> int | None:
        """Return the smallest B such that the union of any B successive graphs is strongly connected, or None."""
        return self._window

    def strongly_connected(self, window: int = 1) -> bool:
        """Whether the union of *every* `window` successive graphs is strongly connected."""
        smallest = self.window()
        return smallest is not None and smallest <= window

    def spectral_gap(self) -> float:
        """Return 1 − |λ₂| of the product over one period, with expected weights if rounds are random."""
        return analysis.spectral_gap(self.expected().cycle())

    def product(self, start: int, stop: int) -> sparse.csr_array:
        """Return Φ(stop, start) = W(stop−1)…W(start); the identity if start = stop."""
        if stop < start:
            raise TacitError(f"stop must be at least start, got start {start} and stop {stop}")
        result = analysis.identity(self.nodes)
        for t in range(start, stop):
            result = self.at(t) @ result
        return result

    def dobrushin(self, start: int, stop: int) -> float:
        """Return the Dobrushin coefficient τ(Φ(stop, start)), with τ(M) = ½ max_ij Σ_k |M_ik − M_jk|.

        >>> from tacit.graphs import d_out
        >>> [d_out(10, d=2).dobrushin(0, t) for t in (4, 5)]
        [1.0, 0.9375]
        """
        key = (start % self.period if self.period else start, stop - start)
        if key not in self._dobrushin:
            self._dobrushin[key] = analysis.dobrushin(self.product(start, stop), self.is_circulant)
        return self._dobrushin[key]

    def contractions(self, length: int) -> Floats:
        """Return the table of τ(Φ(s + k, s)) at [s, k], for every start s in a period and k = 0 … `length`.

        >>> from tacit.graphs import one_peer_exponential
        >>> one_peer_exponential(8).contractions(3)[0]
        array([1., 1., 1., 0.])
        """
        if self.period is None:
            raise TacitError(
                f"{self.name} has no period, so it has no table of contractions: use dobrushin(start, stop)"
            )
        table = np.empty((self.period, length + 1))
        for s in range(self.period):
            product = analysis.identity(self.nodes)
            for k in range(length + 1):
                table[s, k:] = analysis.dobrushin(product, self.is_circulant)
                if self.row_stochastic and table[s, k] < TOLERANCE:
                    break  # τ cannot increase again, so this value bounds all later ones
                product = self.at(s + k) @ product
        return table

    def certified_constants(self) -> tuple[float, float]:
        """Return (C′, λ) with τ(Φ(t, k)) ≤ C′ λ^(t−k) for all k ≤ t and the smallest C′ / (1 − λ).

        >>> from tacit.graphs import d_out
        >>> c, lam = d_out(10, d=8).certified_constants()
        >>> round(c, 3), round(lam, 3)
        (1.0, 0.25)
        """
        if not self.row_stochastic:
            raise TacitError(f"No contraction can be certified for {self.name}: its rows do not sum to 1")
        return analysis.dominating(self._contracted())

    def _contracted(self) -> Floats:
        """Return max_s τ(Φ(s + k, s)) for k = 0, 1, …, long enough for a geometric bound."""
        if self.window() is None:
            raise TacitError(f"No contraction can be certified for {self.name}: it is never connected. Add links")
        length = 8
        while True:
            worst: Floats = self.contractions(length).max(axis=0)
            if worst[-1] < _CONTRACTION_TARGET:
                return worst
            if length * self.nodes > _MAX_ROUNDS_TIMES_NODES:
                raise TacitError(f"No contraction can be certified for {self.name}: it mixes too slowly. Add links")
            length *= 2

    @cached_property
    def is_circulant(self) -> bool:
        """Whether the graph repeats and every node has the same links, relative to its number."""
        return self.period is not None and all(analysis.circulant_column(w) is not None for w in self.cycle())

    # Links

    def edges(self, t: int) -> tuple[Integers, Integers]:
        """Return the sources and targets of the links of round t, without self-loops, sorted by (source, target)."""
        return analysis.links(self.at(t))

    def out_degrees(self, t: int) -> Integers:
        """Return the number of nodes to which each node sends in round t, without itself."""
        if self.period is None:
            return self._out_degrees(t)
        if t % self.period not in self._degrees:
            self._degrees[t % self.period] = self._out_degrees(t)
        return self._degrees[t % self.period]

    def _out_degrees(self, t: int) -> Integers:
        return np.bincount(self.edges(t)[0], minlength=self.nodes)

    def in_degrees(self, t: int) -> Integers:
        """Return the number of nodes from which each node receives in round t, without itself."""
        return np.bincount(self.edges(t)[1], minlength=self.nodes)

    def to_networkx(self, t: int = 0) -> nx.DiGraph:
        """Return round t as a networkx graph: edges from sender to receiver with their `weight`, with self-loops."""
        import networkx as nx  # slow to import

        return nx.from_scipy_sparse_array(self.at(t).T, create_using=nx.DiGraph)
