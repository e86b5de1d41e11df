"""Base class of the algorithms whose nodes agree over DPPS: step sizes, noise and sensitivity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Literal, Self, TypeVar

from torch import Tensor

from tacit.algorithms.algorithm import (
    Algorithm,
    check_non_negative,
    check_positive,
    no_noise_level,
    select_nodes,
)
from tacit.algorithms.dpps import DPPS, MAX_MEASURED_NODES, DPPSState
from tacit.algorithms.dpps_privacy import DPPSPrivacy
from tacit.algorithms.privacy_plan import Nodes
from tacit.algorithms.schedules import StepDecay
from tacit.algorithms.sensitivity import (
    MAX_TABLE_ROUNDS,
    CertifiedSensitivity,
    EstimatedSensitivity,
    RealSensitivity,
    ReplacementSensitivity,
    SensitivityMode,
    UnknownSensitivity,
)
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy import Array, Bounded
from tacit.tasks import Clip, Task

S = TypeVar("S", bound=DPPSState)
ModeName = Literal["certified", "estimated", "real", "replacement"]


@dataclass(frozen=True, kw_only=True)
class DPPSAlgorithm(Algorithm[S]):
    """An algorithm whose nodes agree over DPPS on a vector that they perturb by clipped gradient steps.

    Args:
        lr: Step size γ_s of the shared parameters.
        clip: Bound 𝔠 on the L1 norm of the batch's mean gradient; None does not clip.
        noise_rate: γ_n. The noise multiplier is γ_n / b; a target ε sets it instead. 0 adds no noise.
        b: The paper's budget parameter b.
        sync_every: Rounds from one synchronisation of all nodes to the next; 0 or None never synchronises.
        sensitivity: How the sensitivity S is determined; see `tacit.algorithms.sensitivity`.
        c_prime: Constant C′ of the estimated sensitivity.
        lam: Constant λ of the estimated sensitivity.
        start_norm: Whether the estimated sensitivity includes ‖s(0)‖₁.
        decay: Factor for all step sizes and γ_n at each of `decay_rounds`.
        decay_rounds: Rounds in which the decay is applied.
        scale: Noise multiplier γ_n / b, one for all nodes or one per node; a target ε sets it.
    """

    needs: ClassVar[tuple[str, ...]] = ("doubly-stochastic", "connected")
    noise_parameters: ClassVar[tuple[str, ...]] = ("noise_rate", "b")
    mixed: ClassVar[tuple[str, ...]] = ("s", "a")
    refused_options: ClassVar[Mapping[str, str]] = {
        "momentum": "its noise hides the models, and not gradients that a velocity could add up",
        "weights": "the bound on a step must be the same at every node",
    }
    name: ClassVar[str]

    local: Literal["private", "exact"] = "exact"  # at node level, local parameters reveal no more than the node's data
    lr: float = 0.1
    clip: float | None = 100.0
    noise_rate: float | None = None
    b: float = 1.0
    sync_every: int | None = 5
    sensitivity: ModeName = "replacement"
    c_prime: float = 0.78
    lam: float = 0.55
    start_norm: bool = True
    decay: float = 0.1
    decay_rounds: tuple[int, ...] = ()
    scale: float | Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_positive(self.name, lr=self.lr, clip=self.clip, b=self.b, decay=self.decay)
        check_positive(self.name, c_prime=self.c_prime, lam=self.lam)
        check_non_negative(self.name, noise_rate=self.noise_rate)
        if self.lam >= 1:
            raise TacitError(f"{self.name}: lam must be below 1, got {self.lam}")
        if self.clip is None and self.noise_rate != 0 and self.sensitivity in ("certified", "replacement"):
            raise TacitError(f'{self.name}: sensitivity = "{self.sensitivity}" needs a clipping bound: set clip')
        if any(t < 0 for t in self.decay_rounds):
            raise TacitError(f"{self.name}: decay_rounds must be 0 or more, got {list(self.decay_rounds)}")
        if self.sync_every is not None and self.sync_every < 0:
            raise TacitError(f"{self.name}: sync_every must be 0 (never) or more, got {self.sync_every}")

    @property
    def title(self) -> str:
        return f"{self.name} without noise" if self.noise_rate == 0 else self.name

    @property
    def privacy(self) -> DPPSPrivacy:
        return DPPSPrivacy(self)

    @property
    def tolerates_dropout(self) -> bool:
        return not self.sync_every and self.sensitivity == "replacement"  # everything else needs all nodes

    def bind(self, task: Task, graph: Graph) -> Self:
        if task.model.weight_decay and self.noise_rate != 0:
            raise TacitError(
                f"{self.title} bounds its steps by clipping gradients, and weight decay is not clipped: "
                "leave out model.weight_decay"
            )
        return self

    def check_extension(self, rounds: int) -> None:
        if self.sensitivity == "certified" and self.mixing.closing_rounds:
            raise TacitError(
                f"{self.title}: the certified sensitivity does not cover rounds after closing mixings, so a run with "
                "algorithm.closing_rounds cannot be extended"
            )
        synchronises = bool(self.sync_every) and self._unsynchronised == self.sync_every
        if self.clip is not None and not synchronises and self.rounds <= MAX_TABLE_ROUNDS:
            raise TacitError(
                f"{self.title}: the certified sensitivity is tabulated for {self.rounds} rounds, so the run cannot be "
                f"extended to {rounds} rounds. Only a run with algorithm.sync_every of at most its rounds can be"
            )

    def check_shares_all(self, task: Task) -> None:
        """Raise an error if the model leaves some parameters at their node."""
        if task.model.shared < task.d:
            raise TacitError(
                f"{self.title} shares every parameter, but this model shares only {task.model.shared} of {task.d}: "
                "remove algorithm.share, or use partpsp"
            )

    def with_noise(self, scale: Array) -> Self:
        if self.noise_rate == 0:
            return super().with_noise(scale)
        if self.privacy.noise_depends_on_data:
            raise TacitError(
                f"{self.title}: no ε is proven for noise that is scaled to the {self.sensitivity} sensitivity: "
                "leave out privacy.epsilon, or choose another sensitivity"
            )
        return replace(self, scale=scale)

    def traces(self, state: S) -> dict[str, Tensor]:
        """Return the sensitivities of the last round: the real one and that of each mode."""
        return dict(zip(("real", *self._mode_names()), state.sensitivities.unbind(1), strict=True))

    def protocol(self, t: int, nodes: Nodes, graph: Graph) -> DPPS:
        """Return DPPS with the noise of round t."""
        modes = tuple(self._mode(name, graph) for name in self._mode_names())
        return DPPS(self.noise(t, nodes), modes, self.sync_every)

    def noise(self, t: int, nodes: Nodes) -> Array | None:
        """Return γ_n / b of round t per node; None if no noise is added."""
        if self.noise_rate == 0:
            return None
        if self.scale is None and self.noise_rate is None:
            raise no_noise_level(self.title, *self.noise_parameters)
        scale = (self.noise_rate or 0.0) / self.b if self.scale is None else self.scale
        return self.decayed(1.0, t) * select_nodes(scale, nodes)

    def decayed(self, start: float, t: int) -> float:
        """Return the value in round t of a step size that is `start` in round 0."""
        return StepDecay(start, self.decay, self.decay_rounds)(t, self.rounds)

    def gradient(self, t: int, params: Tensor, task: Task, purpose: str = "gradient") -> Bounded:
        """Return the batch's mean gradient, clipped in L1."""
        return task.gradient(params, t, None if self.clip is None else Clip(self.clip, "l1", "batch"), purpose)

    def _mode_names(self) -> tuple[ModeName, ...]:
        """The mode in use, then those that a simulation records for comparison."""
        compared: tuple[ModeName, ...] = ("estimated",) if self.clip is None else ("estimated", "certified")
        return (self.sensitivity, *(mode for mode in compared if mode != self.sensitivity))

    def _mode(self, name: ModeName, graph: Graph) -> SensitivityMode:
        if name == "real":
            return RealSensitivity()
        if name == "estimated":
            return EstimatedSensitivity(self.c_prime, self.lam, self.start_norm)
        if self.clip is None:
            return UnknownSensitivity()
        if name == "replacement":
            return ReplacementSensitivity()
        return _certified(graph, self._unsynchronised, in_use=self.sensitivity == "certified")

    @property
    def _unsynchronised(self) -> int:
        """The largest number of rounds without synchronisation."""
        return min(self.sync_every, self.rounds) if self.sync_every else self.rounds


@lru_cache(maxsize=64)
def _certified(graph: Graph, rounds: int, in_use: bool) -> SensitivityMode:
    """Return the certified mode for a graph; if it is only recorded for comparison, it may be unknown."""
    if in_use:
        return CertifiedSensitivity.for_graph(graph, rounds)
    if graph.nodes > MAX_MEASURED_NODES:
        return UnknownSensitivity()
    try:
        return CertifiedSensitivity.for_graph(graph, rounds)
    except TacitError:
        return UnknownSensitivity()
