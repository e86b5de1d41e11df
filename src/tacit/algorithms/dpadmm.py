"""DP-ADMM, a baseline of the DP-Norm paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import algorithms, check_positive
from tacit.algorithms.edges import degrees, sum_over_neighbours
from tacit.algorithms.mixing_options import NO_MIXING
from tacit.algorithms.noisy_gradient import NoisyGradientAlgorithm, NoisyGradientPrivacy
from tacit.algorithms.privacy_plan import EDGE_VARIABLES_REFUSE_PAIRS, Nodes
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Array, Sampling
from tacit.tasks import Task


@dataclass(frozen=True)
class DPADMMState:
    """Parameters x = w and dual variables λ; both (n, d)."""

    x: Tensor
    dual: Tensor


@algorithms.register("dp-admm", example={"local_steps": 2, "lr": 0.1, "rho": 2.5})
@dataclass(frozen=True, kw_only=True)
class DPADMM(NoisyGradientAlgorithm[DPADMMState]):
    """DP-ADMM with several private steps per round, as the DP-Norm paper uses it.

        send w,   λ ← λ + ρ Σ_j (w_i − w_j)
        u = w,   K times   u ← (η u − ĝ(u) − λ + ρ Σ_j (w_i + w_j)) / (2ρE + η),   w ← mean of the iterates u

    The paper's noise on u is the noise on ĝ divided by 2ρE + η.

    Args:
        lr: 1/η, if `diameter` is not set; the paper's figures use it.
        clip: Clipping bound G of a record's gradient.
        clip_per: Clip each record's gradient ("record") or the batch's mean ("batch").
        sigma: Standard deviation of the noise on ĝ; privacy.epsilon sets it instead.
        rho: Penalty ρ.
        local_steps: Local steps K per round.
        diameter: D of Table II: η = √(2kr)/D · √(G²/N² + pσ²/8) in step k of round r, σ the deviation on ĝ.
        average: Whether w is the "mean" of the iterates or the "last" one.

    References:
        Huang and Gong: DP-ADMM; the baseline in Fukami et al.: DP-Norm.
    """

    needs: ClassVar[tuple[str, ...]] = ("undirected", "connected", "static")
    models_are_released: ClassVar[bool] = True
    refused_options: ClassVar[Mapping[str, str]] = NO_MIXING
    name: ClassVar[str] = "DP-ADMM"
    norm: ClassVar[Literal["smooth", "l2"]] = "l2"

    lr: float = 0.03
    rho: float = 1e-4
    local_steps: int = 10
    diameter: float | None = None
    average: Literal["mean", "last"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, rho=self.rho, diameter=self.diameter)

    @property
    def title(self) -> str:
        return self.name if self.sigma != 0 else "ADMM"

    @property
    def privacy(self) -> DPADMMPrivacy:
        return DPADMMPrivacy(self)

    @property
    def gradients_per_round(self) -> int:
        return self.local_steps

    def start(self, task: Task, graph: Graph) -> DPADMMState:
        x = task.initial()
        return DPADMMState(x, torch.zeros_like(x))

    def round(self, t: int, state: DPADMMState, task: Task, network: Network) -> DPADMMState:
        edges, w = network.edges(t), state.x
        degree = degrees(edges, task.n, w)
        received = sum_over_neighbours(network.swap(t, w[edges.row]), edges, task.n)
        dual = state.dual + self.rho * (degree * w - received)
        correction = self.rho * (degree * w + received) - dual
        u, total = w, torch.zeros_like(w)
        for k, step in enumerate(self.steps(t)):
            eta = self._eta(k, t, task, network.graph)
            u = (eta * u - self.private_gradient(u, step, task) + correction) / (2 * self.rho * degree + eta)
            total += u
        return DPADMMState(total / self.local_steps if self.average == "mean" else u, dual)

    def models(self, state: DPADMMState) -> Tensor:
        return state.x

    def norms(self, state: DPADMMState) -> dict[str, Tensor]:
        return {**super().norms(state), "dual_norm": state.dual.norm(dim=1)}

    def _eta(self, k: int, t: int, task: Task, graph: Graph) -> Tensor | float:
        """Return η of local step k of round t, both counted from 0; (n, 1) if it depends on the node."""
        if self.diameter is None:
            return 1 / self.lr
        sigma = np.zeros(task.n) if self.sigma == 0 else self.bound_to(task).privacy.noise_std(task.nodes)
        root = np.sqrt(((self.clip or 0.0) / graph.nodes) ** 2 + task.d * sigma**2 / 8)
        eta = torch.from_numpy(math.sqrt(2 * (k + 1) * (t + 1)) / self.diameter * root)
        return eta.to(task.dtype).to(task.device)[:, None]


@dataclass(frozen=True)
class DPADMMPrivacy(NoisyGradientPrivacy):
    """K noised gradients per round and node. Claim: Table II, the noise on ĝ is 2G √(2KR ln(1.25/δ)) / (ε d_i)."""

    algorithm: DPADMM

    @property
    def refuses_pairs(self) -> str | None:
        return EDGE_VARIABLES_REFUSE_PAIRS

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        steps = self.algorithm.rounds * self.algorithm.local_steps
        factor = math.sqrt(2 * steps * math.log(1.25 / delta))
        return sampling.rate * factor / epsilon * 2 / self.sum_sensitivity(sampling)

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        if self.algorithm.sigma == 0:
            return None
        multipliers = self.mechanism(0, nodes).multipliers(len(nodes)) * self.sum_sensitivity(sampling) / 2
        pairs = set(zip(sampling.rate.tolist(), multipliers.tolist(), strict=True))
        steps = rounds * self.algorithm.local_steps
        return max(dp_admm_claim(rate, multiplier, steps, delta) for rate, multiplier in pairs)


def dp_admm_claim(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """Return the ε of Table II for DP-ADMM; `multiplier` is σ B/2G, σ the deviation on ĝ. Not a guarantee.

    >>> round(dp_admm_claim(0.5, 267.0, 20_000, 1e-3), 3)
    1.0
    """
    return rate * math.sqrt(2 * steps * math.log(1.25 / delta)) / multiplier
