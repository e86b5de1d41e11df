"""`GraphLearner`: graphs from signals in one call, in the manner of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal

import networkx as nx
import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graph_learning.default_parameters import ProblemParameters, check_neighbours, with_defaults
from tacit.graph_learning.method import GraphMethod, graph_methods
from tacit.graph_learning.observer import GraphObserver
from tacit.graph_learning.run import GraphLearningRun
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.triangle import vertex_count
from tacit.graphs import Graph, complete
from tacit.networks import Simulated
from tacit.privacy.budget import Budget
from tacit.privacy.ledger import Array, Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.planning import plan
from tacit.privacy.statement import Privacy

EDGE_THRESHOLD = 1e-4  # relative to the largest weight of the graph; a pair below it is not an edge


class GraphLearner:
    """Learn a graph for each client and a consensus of all from signals that do not leave the clients.

    `signals` are tables, one a client, a row a signal, a column a vertex. Without `epsilon` nothing is private. With
    it, and with `clip`, a bound on the norm of a signal's squared differences that must not come from the signals,
    (ε, δ) is guaranteed for every signal, against everyone who sees all messages and graphs.

    `parameters` are the method's; β, ρ, λ, ζ and ε_γ that are not given are chosen from what has been released, for so
    many `neighbours` per vertex (`tacit.graph_learning.selection`). `graph` says who talks to whom: a star has a
    server, others have none.

    After `fit`: `graphs_` (n, d, d) and `consensus_` (d, d), weight matrices; `privacy_`, `history_`, `converged_`,
    `parameters_`. Noise comes from the operating system, unless a `seed` makes it a simulation.

    >>> from tacit.graph_learning import synthetic
    >>> data = synthetic.rbf(clients=3, signals=100, seed=0)
    >>> learner = GraphLearner(epsilon=2.0, clip=20.0, seed=0).fit(data.signals)
    >>> learner.graphs_.shape, learner.consensus_.shape, learner.privacy_.guaranteed <= 2.0
    ((3, 20, 20), (20, 20), True)
    >>> learner.to_networkx().number_of_nodes()
    20
    """

    def __init__(
        self,
        method: str | GraphMethod[Any] = "ppgl",
        *,
        beta: float | None = None,
        rho: float | None = None,
        lam: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        clip: float | None = None,
        release: Literal["once", "rounds"] = "once",
        graph: Graph | None = None,
        seed: int | None = None,
        tolerance: float = 1e-6,
        neighbours: float | None = None,
        **parameters: Any,
    ) -> None:
        self.method, self.beta, self.rho, self.lam = method, beta, rho, lam
        self.epsilon, self.delta, self.clip, self.release = epsilon, delta, clip, release
        self.graph, self.seed, self.tolerance = graph, seed, tolerance
        self.neighbours, self.parameters = neighbours, parameters

    def fit(
        self,
        signals: Sequence[npt.ArrayLike],
        *,
        ledger: Ledger | None = None,
        observers: Sequence[GraphObserver] = (),
    ) -> GraphLearner:
        """Learn from every client's signals; `ledger` records what is released."""
        noise = Noise.from_system() if self.seed is None else Noise.from_seed(self.seed)
        task = Signals(signals, clip=self.clip, noise=noise, ledger=ledger)
        graph = self.graph or complete(task.n)
        if graph.nodes != task.n:
            raise TacitError(f"there are signals of {task.n} clients for a graph of {graph.nodes} nodes")
        method, missing = self._method()
        method.check(task, graph)
        check_neighbours(self.neighbours, task.d)
        needed = [key for key in missing if key in ("beta", "rho", "lam")]
        if needed and method.noise_in_rounds:
            raise TacitError(
                f"with noise in every round {' and '.join(needed)} cannot be chosen from the signals: "
                'set them, or use release = "once"'
            )
        if self.epsilon is not None:
            task.ledger.budget = Budget(self.epsilon, self.delta)
            task.ledger.budget.accept(plan(method, method.rounds, task.sampling, task.nodes))
        z = method.prepare_z(task) if not method.noise_in_rounds else None
        if z is not None:
            method = with_defaults(method, z, missing, self.neighbours)
        network = Simulated(graph)
        self.run_ = GraphLearningRun(
            task, method, network, delta=self.delta, tolerance=self.tolerance, z=z, observers=observers
        )
        self.run_.go()
        self.method_ = method
        self.parameters_ = {key: getattr(method, key) for key in ProblemParameters._fields if hasattr(method, key)}
        self.graphs_: Array = matrices(self.run_.graphs.numpy())
        consensus = self.run_.consensus
        self.consensus_: Array | None = None if consensus is None else matrices(consensus.numpy())
        self.privacy_: Privacy = self.run_.privacy
        self.history_ = self.run_.history
        self.converged_ = self.run_.converged
        return self

    def to_networkx(
        self, client: int | None = None, names: Sequence[str] | None = None, threshold: float = EDGE_THRESHOLD
    ) -> nx.Graph:
        """The consensus, or a client's graph, with `weight` on its edges."""
        chosen = self.consensus_ if client is None else self.graphs_[client]
        if chosen is None:
            raise TacitError(f"{self.method_.title} has no consensus: say which client's graph you want")
        return to_networkx(chosen, names, threshold)

    def _method(self) -> tuple[GraphMethod[Any], list[str]]:
        """The method with its noise, and the names of the parameters that were not given."""
        missing: list[str] = []
        if isinstance(self.method, GraphMethod):
            method = self.method
            ignored = [key for key in ("beta", "rho", "lam") if getattr(self, key) is not None] + list(self.parameters)
            if ignored or self.release != "once":
                raise TacitError(f"a method that is made already has its own {(*ignored, 'release')[0]}: set it there")
        else:
            method, missing = self._named(graph_methods[self.method])
        if self.epsilon is None:
            return method, missing
        if method.noise is not None:
            raise TacitError("epsilon and the method's noise both set the noise: leave one of them out")
        return method.with_privacy(self.epsilon, self.delta), missing

    def _named(self, kind: Any) -> tuple[GraphMethod[Any], list[str]]:
        asked = {"beta": self.beta, "rho": self.rho, "lam": self.lam}
        given = {key: value for key, value in asked.items() if value is not None} | self.parameters
        known = [each.name for each in fields(kind)]
        wrong = [key for key in given if key not in known]
        if wrong:
            raise TacitError(f"{kind.title} has no {wrong[0]}: it knows {', '.join(known)}")
        missing = [key for key in ProblemParameters._fields if key in known and key not in given]
        return kind(release=self.release, **given), missing


def matrices(w: npt.ArrayLike) -> Array:
    """Weight matrices (…, d, d) of triangles (…, p)."""
    rows = np.asarray(w, np.float64)
    d = vertex_count(rows.shape[-1])
    square = np.zeros((*rows.shape[:-1], d, d))
    first, second = np.triu_indices(d, 1)
    square[..., first, second] = square[..., second, first] = rows
    return square


def to_networkx(square: Array, names: Sequence[str] | None = None, threshold: float = EDGE_THRESHOLD) -> nx.Graph:
    """A weight matrix as a networkx graph: all vertices, and the edges above `threshold` times the largest weight."""
    kept = np.where(square > threshold * max(square.max(), 1e-300), square, 0.0)
    graph = nx.from_numpy_array(kept)
    return graph if names is None else nx.relabel_nodes(graph, dict(enumerate(names)))
