"""The base class of PPGL and its baselines: the parameters of problem (9), local steps, and releases."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_args

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.privacy_plan import GRAPH_PURPOSE, GraphPrivacyPlan
from tacit.graph_learning.private_solver import solution_bound, solution_sensitivity
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graph_learning.sensitivity import iterate_sensitivity
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.statistic import StatisticName, check_statistic, gram_differences
from tacit.graph_learning.triangle import vertex_count
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Array, Bounded, epsilon_to_mu
from tacit.registry import Registry

S = TypeVar("S")
graph_methods: Registry[GraphMethod[Any]] = Registry("graph learning method", given=("rounds", "noise"))
_ROUNDING_MARGIN = 1 + 1e-8  # on the noise, so that rounding cannot push a calibrated ε above its target


@dataclass(frozen=True, kw_only=True)
class GraphMethod(ABC, Generic[S]):
    """A graph learning method: a frozen dataclass of the paper's parameters.

    Its state `S` is a dataclass of tensors with one row per client. A subclass in a module of this package registers
    itself with `@graph_methods.register("name")` and is then available to every command.

    Attributes:
        alpha: α, the weight of the log-degree term.
        beta: β, the weight of the squared weights. A larger β gives more edges.
        zeta: ζ, the offset inside the logarithm.
        K: The number of local steps per round, or None: clients solve their problems exactly.
        step: η_w, the step size, or None for 1/L (see `tacit.graph_learning.problem`).
        momentum: ξ, the momentum of the local steps.
        initial: The initial weight of every pair, or None to derive it from the parameters.
        rounds: T. If rounds cost no privacy, this is the maximum, and a run stops as soon as it has converged.
        release: What is released with noise. "once": each client's statistic, once, with the whole budget; local steps,
            rounds and graphs are then post-processing. "rounds": each client's graph in every round, as in the paper.
        statistic: What a client computes from its signals. "differences": z̄, the mean squared differences, as in the
            paper; noise needs a clip. "gram": the Gram matrix of its signals, each scaled to norm 1.
        noise: The noise multiplier, one for all clients or one per client id. None: no noise and no privacy.
    """

    title: ClassVar[str]
    exact_values_stay_local: ClassVar[bool] = False

    alpha: float = 1.0
    beta: float = 0.1
    zeta: float = 1e-3
    K: int | None = None
    step: float | None = None
    momentum: float = 0.1
    initial: float | None = None
    rounds: int = 1000
    release: Literal["once", "rounds"] = "once"
    statistic: StatisticName = "differences"
    noise: float | Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for key in ("alpha", "beta"):
            self._require(key, 0 < getattr(self, key) < math.inf, "positive and finite")
        self._require("zeta", 0 <= self.zeta < math.inf, "at least 0 and finite")
        self._require("K", self.K is None or self.K >= 1, "at least 1, or None for an exact solution")
        self._require("step", self.step is None or 0 < self.step < math.inf, "positive and finite")
        self._require("initial", self.initial is None or 0 <= self.initial < math.inf, "at least 0 and finite")
        self._require("momentum", 0 <= self.momentum < 1, "in [0, 1)")
        self._require("rounds", self.rounds >= 1, "at least 1")
        self._require("release", self.release in ("once", "rounds"), '"once" or "rounds"')
        self._require("statistic", self.statistic in get_args(StatisticName), '"gram" or "differences"')
        once = self.statistic == "differences" or self.release == "once"
        self._require("statistic", once, '"differences" if release = "rounds"')

    def _require(self, key: str, holds: bool, accepted: str) -> None:
        if not holds:
            raise TacitError(f"{self.title}: {key} must be {accepted}, got {getattr(self, key)!r}")

    @property
    def privacy(self) -> GraphPrivacyPlan:
        """What the method releases and what its paper claims."""
        return GraphPrivacyPlan(self)

    @abstractmethod
    def start(self, task: Signals, graph: Graph, z: Tensor | None = None) -> S:
        """Return the state before round 0. `z` is the result of `prepare_z`, if it was called before."""

    @abstractmethod
    def round(self, t: int, state: S, task: Signals, network: Network) -> S:
        """Return the state after round t."""

    @abstractmethod
    def graphs(self, state: S) -> Tensor:
        """Return each hosted client's graph, (n, p)."""

    @abstractmethod
    def consensus(self, state: S) -> Tensor | None:
        """Return the consensus graph (p,), or None if the method has none."""

    @abstractmethod
    def objective(self, state: S, network: Network) -> float:
        """Return the objective of the method, summed over all clients."""

    @abstractmethod
    def residual(self, state: S) -> Tensor:
        """Return each client's distance from the minimum, (n,). It is 0 at the minimum."""

    @property
    def noise_in_rounds(self) -> bool:
        """Whether every round adds noise (`release="rounds"`). Then z, the objective and the residual are secret."""
        return self.noise is not None and self.release == "rounds"

    @property
    def solves_in_one_round(self) -> bool:
        """Whether one round finds the minimum."""
        return False

    def with_noise(self, scale: float | Array) -> Self:
        """Return the method with these noise multipliers, one for all clients or one per client id."""
        return replace(self, noise=scale)

    def with_privacy(self, epsilon: float, delta: float) -> Self:
        """Return the method with the least noise that guarantees (ε, δ) over the whole run.

        The composition of Gaussian releases is exact, so no smaller noise gives this guarantee.

        >>> from tacit.graph_learning import PPGL
        >>> rounds = PPGL(release="rounds", rounds=50)
        >>> round(PPGL().with_privacy(1.0, 1e-5).noise, 3), round(rounds.with_privacy(1.0, 1e-5).noise, 2)
        (3.731, 26.38)
        """
        releases = self.rounds if self.release == "rounds" else 1
        return self.with_noise(math.sqrt(releases) / epsilon_to_mu(epsilon, delta) * _ROUNDING_MARGIN)

    def check(self, task: Signals, graph: Graph | None = None) -> None:
        """Raise a `TacitError` if the method cannot run on this task and graph. Called before anything is released."""
        check_statistic(self.statistic, self.noise is not None, task.clip, task.sizes)
        if self.noise is None:
            task.require_variation()

    def prepare_z(self, task: Signals) -> Tensor:
        """Return the z (n, p) that the rounds use.

        With `release="once"` and noise this releases the statistic. Otherwise z stays inside the client. No entry of an
        exact z is negative. Entries that the noise makes negative are set to 0, which can only reduce the error.
        """
        self.check(task)
        if self.noise is not None and self.release == "once":
            return self.release_z(task).clamp_(min=0)
        return self._as_z(self._statistic(task).use_locally(), task)

    def release_z(self, task: Signals) -> Tensor:
        """Release every client's statistic with the method's mechanism. Return the z (n, p) computed from it."""
        return self._as_z(self.privacy.mechanism(task.nodes).release(self._statistic(task)), task)

    def _statistic(self, task: Signals) -> Bounded:
        return task.gram(0) if self.statistic == "gram" else task.mean(0)

    def _as_z(self, value: Tensor, task: Signals) -> Tensor:
        return gram_differences(value, task.sizes) if self.statistic == "gram" else value

    def client_problem(
        self, z: Tensor, pull: Tensor, con: Tensor, row_mean_bound: float | None = None
    ) -> ClientProblem:
        """Return problem (9) of every client. If z is secret, its floor depends on the public `row_mean_bound` only."""
        d = vertex_count(z.shape[1])
        row = row_means(z) if row_mean_bound is None else z.new_full((len(z), d), row_mean_bound)
        floor = floors(row, self.alpha, 4 * self.beta + pull, self.zeta, d)
        return ClientProblem(z, self.alpha, self.beta, self.zeta, pull, con, floor)

    def initial_weights(self, task: Signals, pull: float = 0.0) -> Tensor:
        """Return w⁽⁰⁾ (p,), which is public and the same for all clients.

        By default it is the solution for z = 0, which is above every floor. If every round adds noise, there are too
        few rounds to come down from there, so it is the geometric mean of that and the smallest floor.
        """
        if self.initial is not None:
            return torch.full((task.p,), self.initial, dtype=torch.float64)
        bound = task.row_mean_bound if self.noise_in_rounds else None
        rows = torch.tensor([[0.0], [bound or 0.0]], dtype=torch.float64)
        kappa = torch.full((2,), 4 * self.beta + pull, dtype=torch.float64)
        most, least = floors(rows, self.alpha, kappa, self.zeta, task.d).flatten().tolist()
        return torch.full((task.p,), max(math.sqrt(most * least), 1e-6) / (task.d - 1), dtype=torch.float64)

    def release_graphs(
        self, t: int, w: Tensor, problem: ClientProblem, task: Signals, past: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Return the graphs of round t as they leave the clients: with noise for their sensitivity, or exactly.

        Args:
            t: The round.
            w: The results of the local steps or solutions, (n, p).
            problem: The problems that they were computed for.
            task: The clients' signals.
            past: The two released graphs from which the local steps began, (n, p) each.
        """
        sensitivity = None
        if self.noise is not None:
            sensitivity = self._graph_sensitivity(problem, task, past)
        return self.privacy.mechanism(task.nodes).release(task.bounded(w, sensitivity, t, GRAPH_PURPOSE))

    def _graph_sensitivity(self, problem: ClientProblem, task: Signals, past: tuple[Tensor, Tensor]) -> Array:
        own, z_bound = task.bounds
        if self.K is None:
            return solution_sensitivity(problem, own, solution_bound(problem, own, z_bound))
        return iterate_sensitivity(problem, past, self.K, self.step, self.momentum, own, z_bound)

    def gradient_steps(self, problem: ClientProblem, w: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Take K steps (Eqs 10–12). Return w̌ after the last step, not yet projected, and the w before it."""
        assert self.K is not None
        eta = 1 / problem.lipschitz[:, None] if self.step is None else self.step
        for k in range(self.K):
            ahead = w + self.momentum * (w - before)
            raw = ahead - eta * problem.gradient(ahead)
            before, w = w, raw if k == self.K - 1 else raw.clamp(min=0)
        return w, before
