"""What the methods over DPPS have in common: rates, noise, how the sensitivity is known, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm, at_nodes
from tacit.algorithms.dpps import DPPS, WATCHED, Consensus
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.algorithms.schedules import Steps
from tacit.algorithms.sensitivity import Certified, Estimated, Real, Replacement, Sensitivity, Unknown
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy.bounded import Bounded, Sampling
from tacit.privacy.ledger import Array
from tacit.privacy.release import Release
from tacit.tasks import Clip, Task

S = TypeVar("S", bound=Consensus)
Mode = Literal["certified", "estimated", "real", "replacement"]
_UNPROVEN = ("real", "estimated")  # they follow the data


@dataclass(frozen=True, kw_only=True)
class OverDPPS(Algorithm[S]):
    """A method whose nodes agree over DPPS on what they perturb by clipped gradient steps.

    `noise_rate` is γ_n and `b` the paper's budget parameter; their quotient is the noise multiplier, which a target ε
    sets instead. All rates, γ_n too, are multiplied by `decay` at each of `decay_rounds`. `sensitivity` says how S is
    known; `c_prime` and `lam` are the constants of the estimated one, `start_norm` whether it counts ‖s(0)‖₁.

    Claim: b/γ_n for each round (Theorem 1). Formal guarantee: the ledger's composition of Laplace mechanisms over all
    rounds, node-level; none where the sensitivity is not proven.
    """

    needs: ClassVar[tuple[str, ...]] = ("doubly-stochastic", "connected")
    name: ClassVar[str]

    local: Literal["private", "exact"] = "exact"  # at node level no local parameter tells more than the node's data do
    lr: float = 0.1
    clip: float | None = 100.0
    noise_rate: float | None = None
    b: float = 1.0
    sync_every: int | None = 5
    sensitivity: Mode = "replacement"
    c_prime: float = 0.78
    lam: float = 0.55
    start_norm: bool = True
    decay: float = 0.1
    decay_rounds: tuple[int, ...] = ()
    scale: float | Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.positive(lr=self.lr, clip=1.0 if self.clip is None else self.clip, b=self.b, decay=self.decay)
        self.positive(c_prime=self.c_prime, lam=self.lam)
        if self.lam >= 1:
            raise TacitError(f"{self.name}: lam must be below 1, not {self.lam}")
        if self.clip is None and self.noise_rate != 0 and self.sensitivity in ("certified", "replacement"):
            raise TacitError(f'{self.name}: sensitivity = "{self.sensitivity}" needs a clip bound')
        if self.noise_rate is not None and not 0 <= self.noise_rate < np.inf:
            raise TacitError(f"{self.name}: noise_rate must be 0 or more, not {self.noise_rate}")
        if any(place < 0 for place in self.decay_rounds):
            raise TacitError(f"{self.name}: decay_rounds are rounds from 0 on, not {list(self.decay_rounds)}")
        if self.sync_every is not None and self.sync_every < 0:
            raise TacitError(f"{self.name}: sync_every must be 0 (never) or more, not {self.sync_every}")

    def positive(self, **values: float) -> None:
        for key, value in values.items():
            if not 0 < value < np.inf:
                raise TacitError(f"{self.name}: {key} must be positive and finite, not {value}")

    def shares_all(self, task: Task) -> None:
        """Refuse a model that leaves some parameters at their node."""
        if task.model.shared < task.d:
            raise TacitError(
                f"{self.title} shares every parameter, and of this model only {task.model.shared} of {task.d} are "
                "shared: remove algorithm.share, or use partpsp"
            )

    def bind(self, task: Task, graph: Graph) -> Self:
        if task.model.weight_decay and self.noise_rate != 0:
            raise TacitError(
                f"{self.title} bounds its steps by clipping gradients, and weight decay is not clipped: leave it out"
            )
        return self

    @property
    def privacy(self) -> DPPSPrivacy:
        return DPPSPrivacy(self)

    @property
    def title(self) -> str:
        return f"{self.name} without noise" if self.noise_rate == 0 else self.name

    @property
    def tolerates_dropout(self) -> bool:
        return not self.sync_every and self.sensitivity == "replacement"  # all else asks every node

    def with_noise(self, scale: Array) -> Self:
        if self.noise_rate == 0:
            return super().with_noise(scale)
        if self.sensitivity in _UNPROVEN:
            raise TacitError(
                f"{self.title}: noise that follows the {self.sensitivity} sensitivity is not proven to protect, so it "
                "meets no ε: leave out privacy.epsilon, or choose another sensitivity"
            )
        return replace(self, scale=scale)

    def traces(self, state: S) -> dict[str, Tensor]:
        """The sensitivities of the last round: the real one, and what each way to know it said."""
        return dict(zip(("real", *self._watched()), state.seen.unbind(1), strict=True))

    def protocol(self, t: int, nodes: Nodes, graph: Graph) -> DPPS:
        """DPPS as it is in round t."""
        modes = tuple(self._mode(name, graph) for name in self._watched())
        return DPPS(self.noise(t, nodes), modes, self.sync_every)

    def noise(self, t: int, nodes: Nodes) -> Array | None:
        """γ_n / b in round t, one a node; None: no noise."""
        if self.noise_rate == 0:
            return None
        if self.scale is None and self.noise_rate is None:
            raise TacitError(
                f"{self.title} does not know how much noise to add: set privacy.epsilon, or algorithm.noise_rate and b"
            )
        scale = (self.noise_rate or 0.0) / self.b if self.scale is None else self.scale
        return self.rate(1.0, t) * at_nodes(scale, nodes)

    def rate(self, start: float, t: int) -> float:
        return Steps(start, self.decay, self.decay_rounds)(t, self.rounds)

    def gradient(self, t: int, params: Tensor, task: Task, purpose: str = "gradient") -> Bounded:
        """The batch's mean gradient, clipped in L1."""
        return task.gradient(params, t, None if self.clip is None else Clip(self.clip, "l1", "batch"), purpose)

    def _mode(self, name: Mode, graph: Graph) -> Sensitivity:
        if name == "real":
            return Real()
        if name == "estimated":
            return Estimated(self.c_prime, self.lam, self.start_norm)
        if self.clip is None:
            return Unknown()
        if name == "replacement":
            return Replacement()
        stretch = min(self.sync_every, self.rounds) if self.sync_every else self.rounds
        return _certified(graph, stretch, needed=self.sensitivity == "certified")

    def _watched(self) -> tuple[Mode, ...]:
        """The sensitivity in use, then those that a simulation watches beside it."""
        beside: tuple[Mode, ...] = ("estimated",) if self.clip is None else ("estimated", "certified")
        return (self.sensitivity, *(mode for mode in beside if mode != self.sensitivity))


@lru_cache(maxsize=64)
def _certified(graph: Graph, stretch: int, needed: bool) -> Sensitivity:
    """The certified sensitivity on a graph; where it is only watched, its lack stops nothing."""
    if needed:
        return Certified.for_graph(graph, stretch)
    if graph.nodes > WATCHED:
        return Unknown()
    try:
        return Certified.for_graph(graph, stretch)
    except TacitError:
        return Unknown()


@dataclass(frozen=True)
class DPPSPrivacy(PrivacyPlan):
    """One Laplace-noised message per round and node; all data of a node are protected."""

    algorithm: OverDPPS[Any]
    unit: ClassVar[Literal["record", "node"]] = "node"
    adversary: ClassVar[str] = "sees every message a node ever sends and knows all data of every other node"
    claimed_for: ClassVar[Literal["run", "round"]] = "round"
    norm: ClassVar[Literal["l1", "l2"]] = "l1"

    @property
    def noise_depends_on_data(self) -> bool:
        return self.algorithm.sensitivity in _UNPROVEN

    @property
    def notes(self) -> tuple[str, ...]:
        if self.algorithm.noise_rate == 0:
            return ()
        return (
            f"The noise was scaled to the {self.algorithm.sensitivity} sensitivity.",
            "Sensitivities that a simulation keeps are computed from the data, and nothing here covers them.",
        )

    def sampling(self, task: Task) -> Sampling:
        return Sampling("none", np.ones(task.n), "replace-one")

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> tuple[Release, ...]:
        # A plan needs no graph: what matters is whether the sensitivity follows the data.
        mode = Real() if self.algorithm.sensitivity in _UNPROVEN else Replacement()
        return (Release(t, "gradient", DPPS(self.algorithm.noise(t, nodes), (mode,)).planned(), sampling),)

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """b/γ_n of the round with the least noise."""
        least = [float(noise.min()) for t in range(rounds) if (noise := self.algorithm.noise(t, nodes)) is not None]
        return 1 / min(least) if least else None
