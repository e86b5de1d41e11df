"""DP-SGD between neighbours, and its reference: one node with the data of all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.clipped import Clipped, ClippedPrivacy
from tacit.algorithms.privacy_plan import Nodes
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Sampling
from tacit.privacy.claims import dp_sgd_claim
from tacit.privacy.ledger import Array
from tacit.tasks import Clip, Task


@dataclass(frozen=True)
class Parameters:
    """x (n, d)."""

    x: Tensor


@algorithms.register("dp-sgd")
@dataclass(frozen=True, kw_only=True)
class DPSGD(Clipped[Parameters]):
    """DP-SGD, decentralised, as the DP-Norm paper compares with it: K private steps, then the neighbours' average.

        K times   w ← w − μ ĝ(w),   ĝ = mean of clipped gradients of records + N(0, (σ/μ)²)
        w ← Σ_j W_ij w_j, which with the usual weights of a regular graph is (w_i + Σ_j w_j)/(E + 1)

    μ is `lr` and K `local_steps`; `sigma` is the deviation on ĝ, σ/μ of the paper's, which noises w.

    Claim: σ = μ √(KR ln(1/δ)) / (ε d_i), Table II; the theorem it rests on has an unknown constant, taken as 1 there.
    Formal guarantee: the ledger's composition of the subsampled Gaussian mechanisms of all K R steps.
    """

    needs: ClassVar[tuple[str, ...]] = ("doubly-stochastic", "connected")
    name: ClassVar[str] = "DP-SGD"
    norm: ClassVar[Literal["smooth", "l2"]] = "l2"

    lr: float = 0.03
    local_steps: int = 10

    @property
    def title(self) -> str:
        return self.name if self.sigma != 0 else "DSGD"

    @property
    def privacy(self) -> DPSGDPrivacy:
        return DPSGDPrivacy(self)

    @property
    def steps(self) -> int:
        return self.local_steps

    def start(self, task: Task, graph: Graph) -> Parameters:
        return Parameters(task.initial())

    def round(self, t: int, state: Parameters, task: Task, network: Network) -> Parameters:
        w = state.x
        for step in self.draws(t):
            w = w - self.lr * self.private(w, step, task)
        (w,) = network.mix(t, w)
        return Parameters(w)

    def models(self, state: Parameters) -> Tensor:
        return state.x


@dataclass(frozen=True)
class DPSGDPrivacy(ClippedPrivacy):
    """K noised gradients per round and node; Table II of the DP-Norm paper is the claim."""

    algorithm: DPSGD

    def mixing_only_clip(self, t: int) -> Clip | None:
        return self.algorithm.bound if self.algorithm.steps == 1 else None

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        steps = self.algorithm.rounds * self.algorithm.steps
        return sampling.rate * math.sqrt(steps * math.log(1 / delta)) / epsilon / self.moved(sampling)

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        if self.algorithm.sigma == 0:
            return None
        noise = self.mechanism(0, nodes).multipliers(len(nodes)) * self.moved(sampling)
        pairs = set(zip(sampling.rate.tolist(), noise.tolist(), strict=True))
        return max(dp_sgd_claim(rate, multiplier, rounds * self.algorithm.steps, delta) for rate, multiplier in pairs)


@dataclass(frozen=True, kw_only=True)
class SingleNode(DPSGD):
    """SGD with all nodes' batches, K steps a round: w ← w − μ mean_i g_i(w). The mean is a server's, or one's own."""

    needs: ClassVar[tuple[str, ...]] = ("connected",)
    name: ClassVar[str] = "single node"

    @property
    def title(self) -> str:
        return self.name

    def round(self, t: int, state: Parameters, task: Task, network: Network) -> Parameters:
        w = state.x
        for step in self.draws(t):
            w = network.mean(w - self.lr * self.private(w, step, task)).expand_as(w)
        return Parameters(w.clone())


@algorithms.register("single-node")
def single_node(lr: float = 0.03, local_steps: int = 10) -> SingleNode:
    """Single-node reference: one node with the data of all, without privacy: no clip, no noise."""
    return SingleNode(lr=lr, local_steps=local_steps, clip=None, sigma=0.0)
