"""PriSMA (as described), a baseline of the LT-ADMM-DP paper."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.clipped import Clipped, ClippedPrivacy
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Bounded
from tacit.privacy.mechanism import Gaussian, Mechanism
from tacit.tasks import Clip, Task


@dataclass(frozen=True)
class Momentum:
    """Parameters x, those of the round before, and the recursive momentum v; all (n, d)."""

    x: Tensor
    before: Tensor
    v: Tensor


@algorithms.register("prisma")
@dataclass(frozen=True, kw_only=True)
class Prisma(Clipped[Momentum]):
    """PriSMA (as described): recursive momentum from clipped gradients and clipped differences of gradients.

        v₀ = clip_C1(g(x₀)) + N(0, σ₀²),   x ← x − γ mean(v)
        v ← (1 − η)(v + clip_C2(g(x) − g(x_before))) + η clip_C1(g(x)) + N(0, σ₁²), both gradients on one batch

    Its own text is not at hand; this follows the description in `lr` = γ, `eta`, `clip` = C1, `clip_difference` = C2,
    `sigma_first` = σ₀ and `sigma` = σ₁. The mean is a server's, or each node's neighbours' (`average = "gossip"`).

    Formal guarantee: v is made of the noised terms, one release a round, in which a record takes part by its clipped
    gradient and its clipped difference: the sensitivity is that of C1 first and of (1 − η) C2 + η C1 then.
    """

    needs: ClassVar[tuple[str, ...]] = ("doubly-stochastic", "connected")
    name: ClassVar[str] = "PriSMA (as described)"
    norm: ClassVar[Literal["smooth", "l2"]] = "l2"

    lr: float = 0.025
    eta: float = 0.025
    clip_difference: float = 1.0
    sigma_first: float | None = None
    average: Literal["server", "gossip"] = "server"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.eta <= 1:
            raise TacitError(f"{self.name}: eta lies between 0 and 1, and {self.eta} does not")
        if not 0 < self.clip_difference < math.inf:
            raise TacitError(f"{self.name}: clip_difference must be positive and finite, not {self.clip_difference}")
        if self.sigma and not self.sigma_first:
            raise TacitError(f"{self.name}: sigma needs sigma_first, the deviation of the first round's noise")

    @property
    def privacy(self) -> PrismaPrivacy:
        return PrismaPrivacy(self)

    @property
    def weight(self) -> float:
        return (1 - self.eta) * self.clip_difference / (self.clip or 1.0) + self.eta

    def start(self, task: Task, graph: Graph) -> Momentum:
        x = task.initial()
        return Momentum(x, x, torch.zeros_like(x))

    def round(self, t: int, state: Momentum, task: Task, network: Network) -> Momentum:
        u = task.gradient(state.x, t, self.bound)
        if t > 0:
            difference = task.gradient(state.x, t, self._difference(), "difference", before=state.before)
            u = self._together(u, difference)
        v = self.known(task).privacy.mechanism(t, task.nodes).release(u).add(state.v, alpha=1 - self.eta)
        if self.average == "server":
            x = state.x - self.lr * network.mean(v)
        else:
            (x,) = network.mix(t, state.x - self.lr * v)
        return Momentum(x, state.x, v)

    def models(self, state: Momentum) -> Tensor:
        return state.x

    def _difference(self) -> Clip | None:
        return None if self.clip is None else Clip(self.clip_difference, "l2", self.clip_per)

    def _together(self, gradient: Bounded, difference: Bounded) -> Bounded:
        value = self.eta * gradient.value + (1 - self.eta) * difference.use_locally()
        if gradient.sensitivity is None or difference.sensitivity is None:
            return replace(gradient, value=value)
        moved = self.eta * gradient.sensitivity + (1 - self.eta) * difference.sensitivity
        return replace(gradient, value=value, sensitivity=moved)


@dataclass(frozen=True)
class PrismaPrivacy(ClippedPrivacy):
    """One noised combination of gradient and gradient difference per round and node."""

    algorithm: Prisma

    def mechanism(self, step: int, nodes: Nodes) -> Mechanism:
        """A target ε gives every round the same multiplier; deviations that were set give the first its own."""
        method, usual = self.algorithm, super().mechanism(step, nodes)
        if step > 0 or not method.sigma or not isinstance(usual, Gaussian):
            return usual
        return Gaussian(usual.noise_multiplier * ((method.sigma_first or 0.0) / method.sigma * method.weight))
