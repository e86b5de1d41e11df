"""What PPGL and its baselines share: the parameters of problem (9), who adds noise where, and what that costs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import torch
from torch import Tensor

from tacit.algorithms.algorithm import at_nodes
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graph_learning.sensitivity import iterate_sensitivity
from tacit.graph_learning.signals import PURPOSE, Signals
from tacit.graph_learning.triangle import vertex_count
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Sampling
from tacit.privacy.gdp import epsilon_to_mu
from tacit.privacy.ledger import Array
from tacit.privacy.mechanism import Exact, Gaussian, Mechanism
from tacit.privacy.release import Release
from tacit.registry import Registry

S = TypeVar("S")
graph_methods: Registry[GraphMethod[Any]] = Registry("graph learning method", given=("rounds", "noise"))
_SAFE = 1 + 1e-8  # keeps a calibrated ε below its target whatever rounding does
GRAPH = "graph"


@dataclass(frozen=True, kw_only=True)
class GraphMethod(ABC, Generic[S]):
    """A frozen dataclass of the paper's parameters. Its state `S` is a dataclass of tensors with a row a client.

    `noise` is the noise multiplier, one for all clients or one each; None is no privacy. With `release="once"` z̄ of
    each client leaves once, with the whole budget, and all the rest, local steps, rounds and the client's own graph, is
    post-processing of it. With `release="rounds"` every round releases each client's graph (the paper).

    `K` local steps of length `step` (η_w) with `momentum` ξ, or None: clients solve their problems exactly. `step`
    None is 1/L, which `problem` proves; `initial` is the weight of all pairs to begin with. `rounds` is T, or, where
    rounds cost no privacy, the most that may be needed.
    """

    title: ClassVar[str]
    unit: ClassVar[str] = "record"

    alpha: float = 1.0
    beta: float = 0.1
    zeta: float = 1e-3
    K: int | None = None
    step: float | None = None
    momentum: float = 0.1
    initial: float | None = None
    rounds: int = 1000
    release: Literal["once", "rounds"] = "once"
    noise: float | Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for key in ("alpha", "beta"):
            if not 0 < getattr(self, key) < math.inf:
                raise TacitError(f"{self.title}: {key} must be positive and finite, not {getattr(self, key)}")
        if not 0 <= self.zeta < math.inf:
            raise TacitError(f"{self.title}: zeta must be 0 or more, not {self.zeta}")
        if self.K is not None and self.K < 1:
            raise TacitError(f"{self.title}: K must be at least 1, or None to solve to the end, not {self.K}")
        if self.step is not None and not 0 < self.step < math.inf:
            raise TacitError(f"{self.title}: step must be positive and finite, not {self.step}")
        if self.initial is not None and not 0 <= self.initial < math.inf:
            raise TacitError(f"{self.title}: initial must be 0 or more, not {self.initial}")
        if not 0 <= self.momentum < 1:
            raise TacitError(f"{self.title}: momentum must be at least 0 and below 1, not {self.momentum}")
        if self.rounds < 1:
            raise TacitError(f"{self.title}: rounds must be at least 1, not {self.rounds}")
        if self.release not in ("once", "rounds"):
            raise TacitError(f'{self.title}: release is "once" or "rounds", not "{self.release}"')

    @abstractmethod
    def start(self, task: Signals, graph: Graph, z: Tensor | None = None) -> S:
        """The state before round 0; `z` is what `prepare_z` gave, where it was asked before."""

    @abstractmethod
    def round(self, t: int, state: S, task: Signals, network: Network) -> S:
        """The state after round t."""

    @abstractmethod
    def graphs(self, state: S) -> Tensor:
        """Each hosted client's graph, (n, p)."""

    @abstractmethod
    def consensus(self, state: S) -> Tensor | None:
        """The graph that all agree on, (p,); None where there is none."""

    @abstractmethod
    def objective(self, state: S, network: Network) -> float:
        """What is minimised, over all clients."""

    @abstractmethod
    def residual(self, state: S) -> Tensor:
        """How far each client is from the minimum (n,), 0 being there."""

    @property
    def noise_in_rounds(self) -> bool:
        """Whether every round releases graphs with noise. Then z stays secret, and so do objective and residual."""
        return self.noise is not None and self.release == "rounds"

    @property
    def adversary(self) -> str:
        return "sees every message and every learned graph, and knows every signal but one"

    @property
    def solves_in_one_round(self) -> bool:
        """Whether one round finds the minimum."""
        return False

    @property
    def unprotected_reason(self) -> str | None:
        """Why what is learned is not private although nothing is sent without noise."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that belong to any statement about its privacy."""
        return ()

    def mechanism(self, nodes: Nodes) -> Mechanism:
        return Exact() if self.noise is None else Gaussian(at_nodes(self.noise, nodes))

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> Iterable[Release]:
        """What the given clients release in round t."""
        if self.release == "rounds" or self.noise is None:
            yield Release(t, GRAPH, self.mechanism(nodes), sampling)
        elif t == 0:
            yield Release(0, PURPOSE, self.mechanism(nodes), sampling)

    def with_noise(self, scale: float | Array) -> Self:
        """The same method with these noise multipliers, clients by their ids."""
        return replace(self, noise=scale)

    def with_privacy(self, epsilon: float, delta: float) -> Self:
        """The same method with the least noise that guarantees (ε, δ) over the whole run: Gaussian releases, exactly.

        >>> from tacit.graph_learning import PPGL
        >>> rounds = PPGL(release="rounds", rounds=50)
        >>> round(PPGL().with_privacy(1.0, 1e-5).noise, 3), round(rounds.with_privacy(1.0, 1e-5).noise, 2)
        (3.731, 26.38)
        """
        times = self.rounds if self.release == "rounds" else 1
        return self.with_noise(math.sqrt(times) / epsilon_to_mu(epsilon, delta) * _SAFE)

    def claim(self, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """The ε that the paper claims; None where what is done is not the paper's."""
        return None

    def check(self, task: Signals, graph: Graph | None = None) -> None:
        """Refuse what cannot work, before anything is released."""
        if self.noise is not None and task.clip is None:
            raise TacitError(
                "noise protects only what is clipped: set clip, a bound on the norm of a signal's squared differences "
                "that is chosen without looking at the signals"
            )

    def prepare_z(self, task: Signals) -> Tensor:
        """z (n, p) for the rounds: what was released of z̄, once, or z̄ itself, which then stays inside the client.

        No entry of z̄ is negative. Those that noise has made so are set to 0, which can only bring z nearer to z̄.
        """
        self.check(task)
        z = task.mean(0)
        if self.noise is not None and self.release == "once":
            return self.mechanism(task.nodes).release(z).clamp_(min=0)
        return z.use_locally()

    def problem(self, z: Tensor, pull: Tensor, con: Tensor, row_mean_bound: float | None = None) -> ClientProblem:
        """Problem (9) of every client. If z is secret, the floor is computed from the public `row_mean_bound`."""
        d = vertex_count(z.shape[1])
        row = row_means(z) if row_mean_bound is None else z.new_full((len(z), d), row_mean_bound)
        floor = floors(row, self.alpha, 4 * self.beta + pull, self.zeta, d)
        return ClientProblem(z, self.alpha, self.beta, self.zeta, pull, con, floor)

    def initial_weights(self, task: Signals, pull: float = 0.0) -> Tensor:
        """w⁽⁰⁾ (p,), public and alike for all: what would be learned from z = 0, which lies above every floor.

        Where noisy rounds must do, that is too far off: there it is the geometric mean of it and the least floor.
        """
        if self.initial is not None:
            return torch.full((task.p,), self.initial, dtype=torch.float64)
        rows = torch.tensor(
            [[0.0], [0.0 if not self.noise_in_rounds else task.row_mean_bound or 0.0]], dtype=torch.float64
        )
        kappa = torch.full((2,), 4 * self.beta + pull, dtype=torch.float64)
        most, least = floors(rows, self.alpha, kappa, self.zeta, task.d).flatten().tolist()
        return torch.full((task.p,), max(math.sqrt(most * least), 1e-6) / (task.d - 1), dtype=torch.float64)

    def release_graphs(self, t: int, w: Tensor, problem: ClientProblem, task: Signals) -> Tensor:
        """The graphs w of round t as they may leave: with noise for what one signal can change, or exactly."""
        far = None
        if task.sensitivity is not None:
            far = iterate_sensitivity(problem, self.K, self.step, self.momentum, task.sensitivity)
        return self.mechanism(task.nodes).release(task.bounded(w, far, t, GRAPH))

    def gradient_steps(self, problem: ClientProblem, w: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """K times (10)–(12): w̌ after the last step, not yet projected, and the w before it."""
        assert self.K is not None
        eta = 1 / problem.lipschitz[:, None] if self.step is None else self.step
        for k in range(self.K):
            ahead = w + self.momentum * (w - before)
            raw = ahead - eta * problem.gradient(ahead)
            before, w = w, raw if k == self.K - 1 else raw.clamp(min=0)
        return w, before
