"""PriSMA (as described), a baseline of the LT-ADMM-DP paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tacit.algorithms.algorithm import algorithms, check_positive
from tacit.algorithms.mixing_options import ONE_MODEL
from tacit.algorithms.noisy_gradient import NoisyGradientAlgorithm, NoisyGradientPrivacy
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Bounded, Exact, Mechanism
from tacit.tasks import Clip, Task


@dataclass(frozen=True)
class PrismaState:
    """Parameters x, those of the previous round, and the recursive momentum v; all (n, d)."""

    x: Tensor
    previous_x: Tensor
    v: Tensor


@algorithms.register("prisma", example={"average": "gossip"})
@dataclass(frozen=True, kw_only=True)
class Prisma(NoisyGradientAlgorithm[PrismaState]):
    """PriSMA (as described): recursive momentum from clipped gradients and clipped differences of gradients.

        v₀ = clip_C1(g(x₀)) + N(0, σ₀²),   x ← x − γ mean(v)
        v ← (1 − η)(v + clip_C2(g(x) − g(x_previous))) + η clip_C1(g(x)) + N(0, σ₁²), both gradients on the same batch

    The paper's text is not available; this follows its description in the LT-ADMM-DP paper.

    Args:
        lr: Step size γ.
        eta: Momentum parameter η.
        clip: Clipping bound C1 of gradients.
        clip_difference: Clipping bound C2 of differences of gradients.
        clip_per: Clip each record's gradient ("record") or the batch's mean ("batch").
        sigma: Standard deviation σ₁ of the noise; privacy.epsilon sets it instead.
        sigma_first: Standard deviation σ₀ of the first round's noise; needed if sigma is set.
        average: Whether v is averaged by a "server" or x over the neighbours ("gossip").

    References:
        The baseline PriSMA in Ren et al.: LT-ADMM-DP.
    """

    needs: ClassVar[tuple[str, ...]] = ("doubly-stochastic", "connected")
    noise_parameters: ClassVar[tuple[str, ...]] = ("sigma", "sigma_first")
    models_are_released: ClassVar[bool] = True
    mixed: ClassVar[tuple[str, ...]] = ("x",)
    refused_options: ClassVar[Mapping[str, str]] = {"momentum": "it has a momentum of its own, algorithm.eta"}
    name: ClassVar[str] = "PriSMA (as described)"
    norm: ClassVar[Literal["smooth", "l2"]] = "l2"

    lr: float = 0.025
    eta: float = 0.025
    clip_difference: float = 1.0
    sigma_first: float | None = None
    average: Literal["server", "gossip"] = "server"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, clip_difference=self.clip_difference)
        if not 0 < self.eta <= 1:
            raise TacitError(f"{self.name}: eta must be in (0, 1], got {self.eta}")
        if self.sigma and not self.sigma_first:
            raise TacitError(f"{self.name}: sigma needs sigma_first, the standard deviation of the first round's noise")

    @property
    def privacy(self) -> PrismaPrivacy:
        return PrismaPrivacy(self)

    @property
    def sensitivity_factor(self) -> float:
        return (1 - self.eta) * self.clip_difference / (self.clip or 1.0) + self.eta

    def option_refusal(self, option: str) -> str | None:
        by_server = ONE_MODEL.get(option) if self.average == "server" else None
        return super().option_refusal(option) or by_server

    def start(self, task: Task, graph: Graph) -> PrismaState:
        x = task.initial()
        return PrismaState(x, x, torch.zeros_like(x))

    def round(self, t: int, state: PrismaState, task: Task, network: Network) -> PrismaState:
        u = task.gradient(state.x, t, self.gradient_clip)
        if t > 0:
            clip = None if self.clip is None else Clip(self.clip_difference, "l2", self.clip_per)
            difference = task.gradient(state.x, t, clip, "difference", before=state.previous_x)
            u = self._combine(u, difference)
        mechanism = self.bound_to(task).privacy.mechanism(t, task.nodes)
        v = mechanism.release(u).add(state.v, alpha=1 - self.eta)
        if self.average == "server":
            x = state.x - self.lr * network.mean(v)
        else:
            (x,) = network.mix(t, state.x - self.lr * v)
        return PrismaState(x, state.x, v)

    def models(self, state: PrismaState) -> Tensor:
        return state.x

    def _combine(self, gradient: Bounded, difference: Bounded) -> Bounded:
        """Return η · gradient + (1 − η) · difference; one record can move both, so sensitivities add."""
        return gradient.scaled(self.eta).plus(difference.scaled(1 - self.eta))


@dataclass(frozen=True)
class PrismaPrivacy(NoisyGradientPrivacy):
    """One noised combination of gradient and gradient difference per round and node.

    Formal guarantee: v is a function of these releases. One record affects a release through its clipped gradient and
    its clipped difference, so the sensitivity is that of C1 in round 0 and of (1 − η) C2 + η C1 afterwards.
    """

    algorithm: Prisma

    def mechanism(self, step: int, nodes: Nodes) -> Mechanism:
        """Return the mechanism of round `step`.

        A target ε gives every round the same noise multiplier. With `sigma`, round 0 has that of `sigma_first`.
        """
        algorithm, usual = self.algorithm, super().mechanism(step, nodes)
        if step > 0 or isinstance(usual, Exact):
            return usual
        factor, ratio = algorithm.sensitivity_factor, 1.0
        if algorithm.sigma:
            ratio = (algorithm.sigma_first or 0.0) / algorithm.sigma * factor
        return self.gaussian(self._multipliers(nodes), nodes, self._steps, ratio, 1 / factor)

    @property
    def refuses_pairs(self) -> str | None:
        return "it adds no noise" if self.algorithm.sigma == 0 else None
