"""DP-ADMM, a baseline of the DP-Norm paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.clipped import Clipped, ClippedPrivacy
from tacit.algorithms.edges import degrees, gathered
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Sampling
from tacit.privacy.claims import dp_admm_claim
from tacit.privacy.ledger import Array
from tacit.tasks import Task


@dataclass(frozen=True)
class Duals:
    """Parameters x = w and multipliers λ; both (n, d)."""

    x: Tensor
    dual: Tensor


@algorithms.register("dp-admm")
@dataclass(frozen=True, kw_only=True)
class DPADMM(Clipped[Duals]):
    """DP-ADMM with several steps a round (Huang and Gong), as the DP-Norm paper compares with it.

        send w,   λ ← λ + ρ Σ_j (w_i − w_j)
        u = w,   K times   u ← (η u − ĝ(u) − λ + ρ Σ_j (w_i + w_j)) / (2ρE + η),   w ← mean of the iterates u

    K is `local_steps`, and `average = "last"` takes the last iterate. η = 1/`lr`, as the paper's figures have it; with
    `diameter` D it grows as in Table II, η = √(2kr)/D · √(G²/N² + pσ²/8) in step k of round r, σ the deviation on ĝ.
    The noise there on u is that on ĝ divided by 2ρE + η.

    Claim: Table II, 2G √(2KR ln(1.25/δ)) / (ε d_i) on ĝ. Formal guarantee: the ledger's composition of the subsampled
    Gaussian mechanisms of all K R steps.
    """

    needs: ClassVar[tuple[str, ...]] = ("undirected", "connected", "static")
    name: ClassVar[str] = "DP-ADMM"
    norm: ClassVar[Literal["smooth", "l2"]] = "l2"

    lr: float = 0.03
    rho: float = 1e-4
    local_steps: int = 10
    diameter: float | None = None
    average: Literal["mean", "last"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in {"rho": self.rho, "diameter": self.diameter}.items():
            if value is not None and not 0 < value < math.inf:
                raise TacitError(f"{self.name}: {key} must be positive and finite, not {value}")

    @property
    def title(self) -> str:
        return self.name if self.sigma != 0 else "ADMM"

    @property
    def privacy(self) -> DPADMMPrivacy:
        return DPADMMPrivacy(self)

    @property
    def steps(self) -> int:
        return self.local_steps

    def start(self, task: Task, graph: Graph) -> Duals:
        x = task.initial()
        return Duals(x, torch.zeros_like(x))

    def round(self, t: int, state: Duals, task: Task, network: Network) -> Duals:
        edges, w = network.edges(t), state.x
        degree = degrees(edges, task.n, w)
        heard = gathered(network.swap(t, w[edges.row]), edges, task.n)
        dual = state.dual + self.rho * (degree * w - heard)
        pull = self.rho * (degree * w + heard) - dual
        u, total = w, torch.zeros_like(w)
        for k, step in enumerate(self.draws(t)):
            eta = self._eta(k, t, task, network.graph)
            u = (eta * u - self.private(u, step, task) + pull) / (2 * self.rho * degree + eta)
            total += u
        return Duals(total / self.local_steps if self.average == "mean" else u, dual)

    def models(self, state: Duals) -> Tensor:
        return state.x

    def norms(self, state: Duals) -> dict[str, Tensor]:
        return {**super().norms(state), "dual_norm": state.dual.norm(dim=1)}

    def _eta(self, k: int, t: int, task: Task, graph: Graph) -> Tensor | float:
        """η of inner step k of round t, both from 0; (n, 1) where it depends on the node."""
        if self.diameter is None:
            return 1 / self.lr
        deviation = np.zeros(task.n) if self.sigma == 0 else self.known(task).deviation(task.nodes)
        slope = np.sqrt(((self.clip or 0.0) / graph.nodes) ** 2 + task.d * deviation**2 / 8)
        return torch.from_numpy(math.sqrt(2 * (k + 1) * (t + 1)) / self.diameter * slope).to(task.dtype)[:, None]


@dataclass(frozen=True)
class DPADMMPrivacy(ClippedPrivacy):
    """K noised gradients per round and node; Table II of the DP-Norm paper is the claim."""

    algorithm: DPADMM

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        steps = self.algorithm.rounds * self.algorithm.steps
        return sampling.rate * math.sqrt(2 * steps * math.log(1.25 / delta)) / epsilon * 2 / self.moved(sampling)

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        if self.algorithm.sigma == 0:
            return None
        noise = self.mechanism(0, nodes).multipliers(len(nodes)) * self.moved(sampling) / 2
        pairs = set(zip(sampling.rate.tolist(), noise.tolist(), strict=True))
        return max(dp_admm_claim(rate, multiplier, rounds * self.algorithm.steps, delta) for rate, multiplier in pairs)
