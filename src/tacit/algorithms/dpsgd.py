"""Decentralised DP-SGD, and its reference: one node that has the data of all nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.mixing_options import ONE_MODEL
from tacit.algorithms.noisy_gradient import NoisyGradientAlgorithm, NoisyGradientPrivacy
from tacit.algorithms.privacy_plan import Nodes
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Array, Sampling
from tacit.tasks import Clip, Task


@dataclass(frozen=True)
class ModelState:
    """Parameters x (n, d)."""

    x: Tensor


@algorithms.register("dp-sgd", example={"local_steps": 1})
@dataclass(frozen=True, kw_only=True)
class DPSGD(NoisyGradientAlgorithm[ModelState]):
    """DP-SGD, decentralised: K private gradient steps, then the average over the neighbours.

        K times   w ← w − μ ĝ(w),   ĝ = mean of clipped gradients of records + N(0, (σ/μ)²)
        w ← Σ_j W_ij w_j, which is (w_i + Σ_j w_j)/(E + 1) with the usual weights of a regular graph

    Args:
        lr: Step size μ.
        clip: Clipping bound of a record's gradient.
        clip_per: Clip each record's gradient ("record") or the batch's mean ("batch").
        sigma: Standard deviation of the noise on ĝ; the paper's σ, which is added to w, divided by μ.
        local_steps: Local steps K per round.

    References:
        The baseline DP-SGD in Fukami et al.: DP-Norm.
    """

    needs: ClassVar[tuple[str, ...]] = ("doubly-stochastic", "connected")
    models_are_released: ClassVar[bool] = True
    mixes_only: ClassVar[bool] = True
    mixed: ClassVar[tuple[str, ...]] = ("x",)
    refused_options: ClassVar[Mapping[str, str]] = {}
    sums_gradients: ClassVar[bool] = True
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
    def gradients_per_round(self) -> int:
        return self.local_steps

    def start(self, task: Task, graph: Graph) -> ModelState:
        return ModelState(task.initial())

    def round(self, t: int, state: ModelState, task: Task, network: Network) -> ModelState:
        w = state.x
        for step in self.steps(t):
            w = w - self.lr * self.private_gradient(w, step, task)
        (w,) = network.mix(t, w)
        return ModelState(w)

    def models(self, state: ModelState) -> Tensor:
        return state.x


@dataclass(frozen=True)
class DPSGDPrivacy(NoisyGradientPrivacy):
    """K noised gradients per round and node.

    Claim: σ = μ √(KR ln(1/δ)) / (ε d_i), Table II of the DP-Norm paper. The theorem behind it has an unknown constant,
    which the table takes as 1.
    """

    algorithm: DPSGD

    @property
    def refuses_pairs(self) -> str | None:
        return "it adds no noise" if self.algorithm.sigma == 0 else None

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        steps = self.algorithm.rounds * self.algorithm.local_steps
        return sampling.rate * math.sqrt(steps * math.log(1 / delta)) / epsilon / self.sum_sensitivity(sampling)

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        if self.algorithm.sigma == 0 or self.algorithm.bandwidth is not None:
            return None
        multipliers = self.mechanism(0, nodes).multipliers(len(nodes)) * self.sum_sensitivity(sampling)
        pairs = set(zip(sampling.rate.tolist(), multipliers.tolist(), strict=True))
        steps = rounds * self.algorithm.local_steps
        return max(dp_sgd_claim(rate, multiplier, steps, delta) for rate, multiplier in pairs)

    def mixing_only_clip(self, t: int) -> Clip | None:
        mixes_only = self.algorithm.local_steps == 1 and self.algorithm.mixing.keeps_rounds
        return self.algorithm.gradient_clip if mixes_only else None


def dp_sgd_claim(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """Return the ε of Table II for DP-SGD; `multiplier` is σ B/C, the noise on the clipped sum. Not a guarantee.

    >>> round(dp_sgd_claim(0.5, 185.8, 20_000, 1e-3), 3)
    1.0
    """
    return rate * math.sqrt(steps * math.log(1 / delta)) / multiplier


@dataclass(frozen=True, kw_only=True)
class SingleNode(DPSGD):
    """SGD with the batches of all nodes, K steps per round: w ← w − μ mean_i g_i(w), averaged by a server."""

    needs: ClassVar[tuple[str, ...]] = ("connected",)
    refused_options: ClassVar[Mapping[str, str]] = ONE_MODEL
    name: ClassVar[str] = "single node"

    @property
    def title(self) -> str:
        return self.name

    def round(self, t: int, state: ModelState, task: Task, network: Network) -> ModelState:
        w = state.x
        for step in self.steps(t):
            w = network.mean(w - self.lr * self.private_gradient(w, step, task)).expand_as(w)
        return ModelState(w.clone())


@algorithms.register("single-node", example={"local_steps": 2})
def single_node(lr: float = 0.03, local_steps: int = 10) -> SingleNode:
    """Single-node reference: SGD with the data of all nodes, without privacy (no clipping, no noise).

    Args:
        lr: Step size μ.
        local_steps: Steps K per round.
    """
    return SingleNode(lr=lr, local_steps=local_steps, clip=None, sigma=0.0)
