"""`GraphLearner`: learn graphs from signals in one call, as a scikit-learn estimator."""

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
from tacit.graph_learning.records import reserve_signals
from tacit.graph_learning.run import GraphLearningRun
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.statistic import StatisticName, default_statistic
from tacit.graph_learning.triangle import vertex_count
from tacit.graphs import Graph, complete
from tacit.networks import Simulated
from tacit.privacy import Array, Budget, Ledger, Noise, Privacy, plan

EDGE_THRESHOLD = 1e-4  # relative to the largest weight of the graph; a pair below it is not an edge


class GraphLearner:
    """Learn a graph for each client, and a consensus of all, from signals that stay with the clients.

    Without `epsilon` nothing is private. With `epsilon`, (ε, δ) is guaranteed for every signal, against anyone who sees
    all messages and all learned graphs.

    Args:
        method: The name of a method ("ppgl", "igl" or "fedavg"), or a `GraphMethod`.
        beta: β, the weight of the squared weights.
        rho: ρ, the weight of the distance to the consensus.
        lam: λ, the weight of the sparsity of the consensus.
        epsilon: The ε to guarantee for every signal; None for no privacy.
        delta: The δ of the guarantee.
        clip: A bound on the norm of a signal's squared differences. Noise on them needs it. Choose it without looking
            at the signals.
        release: "once" adds noise to each client's statistic once, "rounds" to the graphs of every round.
        statistic: "gram" or "differences" (see `GraphMethod`). By default "gram" if noise is added once and there is no
            clip, and "differences" otherwise.
        graph: Which clients communicate; by default all with all. A star has a server.
        seed: Derives the noise from this seed, which is a simulation; by default noise comes from the operating system.
        tolerance: The tolerance of the convergence test.
        neighbours: The mean number of edges per vertex, for the default β.
        population: The name of the population of these signals. Declare it if they change: ε of all runs adds up.
        population_budget: Refuse the run if all runs on the population would exceed this ε.
        parameters: Other parameters of the method, such as K or rounds.

    Values of β, ρ, λ, ζ and ε_γ that are not given are chosen from the released z
    (`tacit.graph_learning.default_parameters`), which costs no privacy.

    Attributes:
        graphs_: The clients' weight matrices, (n, d, d).
        consensus_: The weight matrix of the consensus (d, d), or None.
        privacy_: The privacy statement.
        history_: One row per round.
        converged_: Whether the run has converged; None if that is secret.
        parameters_: The values of β, ρ, λ, ζ and ε_γ.
        method_, run_: The method with its parameters and noise, and the finished run.

    Example:
        >>> from tacit.graph_learning import synthetic
        >>> data = synthetic.rbf(clients=3, signals=100, seed=0)
        >>> learner = GraphLearner(epsilon=2.0, seed=0).fit(data.signals)
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
        statistic: StatisticName | None = None,
        graph: Graph | None = None,
        seed: int | None = None,
        tolerance: float = 1e-6,
        neighbours: float | None = None,
        population: str | None = None,
        population_budget: float | None = None,
        **parameters: Any,
    ) -> None:
        self.method, self.beta, self.rho, self.lam = method, beta, rho, lam
        self.epsilon, self.delta, self.clip = epsilon, delta, clip
        self.release, self.statistic = release, statistic
        self.graph, self.seed, self.tolerance = graph, seed, tolerance
        self.neighbours, self.parameters = neighbours, parameters
        self.population, self.population_budget = population, population_budget

    def fit(
        self,
        signals: Sequence[npt.ArrayLike],
        *,
        ledger: Ledger | None = None,
        observers: Sequence[GraphObserver] = (),
    ) -> GraphLearner:
        """Learn from the clients' signals.

        Args:
            signals: One table per client, with one row per signal and one column per vertex.
            ledger: Records the releases; by default a new ledger in memory.
            observers: Notified of every round.

        Returns:
            The learner itself.

        Raises:
            TacitError: If signals or parameters cannot be used. Nothing has been released then.
        """
        noise = Noise.from_system() if self.seed is None else Noise.from_seed(self.seed)
        task = Signals(signals, clip=self.clip, noise=noise, ledger=ledger)
        graph = self.graph or complete(task.n)
        if graph.nodes != task.n:
            raise TacitError(f"The graph must have one node per client: got {graph.nodes} nodes for {task.n} clients")
        method, missing = self._method()
        method.check(task.without_records(), graph)
        check_neighbours(self.neighbours, task.d)
        needed = [key for key in missing if key in ("beta", "rho", "lam")]
        if needed and method.noise_in_rounds:
            raise TacitError(
                f"Set {', '.join(needed)}: with noise in every round they cannot be chosen from the signals. "
                'Or use release="once"'
            )
        if self.epsilon is not None:
            task.ledger.budget = Budget(self.epsilon, self.delta)
            task.ledger.budget.accept(plan(method.privacy, method.rounds, task.sampling, task.nodes))
        if method.noise is not None:
            reserve_signals(task, method, self.delta, self.population, self.population_budget)
        z = None if method.noise_in_rounds else method.prepare_z(task.without_records())
        if z is not None:
            method = with_defaults(method, z, missing, self.neighbours)
        self.method_ = method
        self.run_ = GraphLearningRun(
            task, method, Simulated(graph), delta=self.delta, tolerance=self.tolerance, z=z, observers=observers
        )
        self._keep_results(self.run_.go())
        return self

    def to_networkx(
        self, client: int | None = None, names: Sequence[str] | None = None, threshold: float = EDGE_THRESHOLD
    ) -> nx.Graph:
        """Return the consensus, or a client's graph, as a networkx graph; see the function `to_networkx`."""
        chosen = self.consensus_ if client is None else self.graphs_[client]
        if chosen is None:
            raise TacitError(f"{self.method_.title} has no consensus: give the index of a client")
        return to_networkx(chosen, names, threshold)

    def _keep_results(self, run: GraphLearningRun) -> None:
        method = run.method
        self.parameters_ = {key: getattr(method, key) for key in ProblemParameters._fields if hasattr(method, key)}
        self.graphs_: Array = matrices(run.graphs.numpy())
        self.consensus_: Array | None = None if run.consensus is None else matrices(run.consensus.numpy())
        self.privacy_: Privacy = run.privacy
        self.history_ = run.history
        self.converged_ = run.converged

    def _method(self) -> tuple[GraphMethod[Any], list[str]]:
        """Return the method with its noise, and the names of the parameters that were not given."""
        missing: list[str] = []
        if isinstance(self.method, GraphMethod):
            method = self.method
            ignored = [key for key in ("beta", "rho", "lam") if getattr(self, key) is not None] + list(self.parameters)
            ignored += ["release"] * (self.release != "once") + ["statistic"] * (self.statistic is not None)
            if ignored:
                raise TacitError(f"Set {ignored[0]} in the GraphMethod, not in the GraphLearner")
        else:
            method, missing = self._named_method(graph_methods[self.method])
        if self.epsilon is None:
            return method, missing
        if method.noise is not None:
            raise TacitError("epsilon and the method's noise both set the noise: leave out one of them")
        return method.with_privacy(self.epsilon, self.delta), missing

    def _named_method(self, kind: Any) -> tuple[GraphMethod[Any], list[str]]:
        asked = {"beta": self.beta, "rho": self.rho, "lam": self.lam}
        given = {key: value for key, value in asked.items() if value is not None} | self.parameters
        known = [each.name for each in fields(kind)]
        wrong = [key for key in given if key not in known]
        if wrong:
            raise TacitError(f"{kind.title} has no parameter {wrong[0]}; its parameters are {', '.join(known)}")
        missing = [key for key in ProblemParameters._fields if key in known and key not in given]
        private = self.epsilon is not None or given.get("noise") is not None
        statistic = self.statistic or default_statistic(private=private, release=self.release, clip=self.clip)
        return kind(release=self.release, statistic=statistic, **given), missing


def matrices(w: npt.ArrayLike) -> Array:
    """Return the weight matrices (…, d, d) of upper triangles (…, p)."""
    rows = np.asarray(w, np.float64)
    d = vertex_count(rows.shape[-1])
    square = np.zeros((*rows.shape[:-1], d, d))
    first, second = np.triu_indices(d, 1)
    square[..., first, second] = square[..., second, first] = rows
    return square


def to_networkx(square: Array, names: Sequence[str] | None = None, threshold: float = EDGE_THRESHOLD) -> nx.Graph:
    """Return a weight matrix as a networkx graph with the attribute `weight` on its edges.

    Args:
        square: The weight matrix, (d, d).
        names: The vertices' names; by default 0, 1, ….
        threshold: Pairs above this share of the largest weight are edges.
    """
    edges = np.where(square > threshold * max(square.max(), 1e-300), square, 0.0)
    graph = nx.from_numpy_array(edges)
    return graph if names is None else nx.relabel_nodes(graph, dict(enumerate(names)))
