"""LT-ADMM and LT-ADMM-DP: several steps at home between exchanges, variables on the edges."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.clipped import Clipped, ClippedPrivacy
from tacit.algorithms.edges import OnEdges, at_start, degrees, gathered
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.graphs.analysis import largest_laplacian
from tacit.networks import Network
from tacit.privacy.bounded import Sampling
from tacit.privacy.claims import lt_admm_dp_claim
from tacit.tasks import Task


@algorithms.register("lt-admm-dp")
@dataclass(frozen=True, kw_only=True)
class LTADMM(Clipped[OnEdges]):
    """LT-ADMM-DP: local training ADMM with clipped, noised gradients (Ren et al.: Algorithm 1).

        φ⁰ = x,   φ ← φ − (γ ĝ(φ) + β (ρ |N_i| x − Σ_j z_ij)) τ times, the correction frozen,   x ← φ^τ
        send z_ij − 2ρ x_i to j;   z_ij ← ½ z_ij − ½ (z_ji − 2ρ x_j)

    ĝ is the batch's mean of smoothly clipped gradients of records plus N(0, σ_e²); `clip_per = "batch"` clips the mean
    itself, as the paper does, and leaves one record room to move it by 2ζ.

    Claim: Eq. 9 with the natural logarithm (the printed 19.6 takes the decimal one). Formal guarantee: the ledger's
    composition of the subsampled Gaussian mechanisms of all local steps.
    """

    needs: ClassVar[tuple[str, ...]] = ("undirected", "connected", "static")
    name: ClassVar[str] = "LT-ADMM-DP"

    beta: float = 0.1
    rho: float = 0.1
    tau: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in {"beta": self.beta, "rho": self.rho}.items():
            if not 0 < value < math.inf:
                raise TacitError(f"{self.name}: {key} must be positive and finite, not {value}")

    @property
    def title(self) -> str:
        return self.name if self.sigma != 0 else "LT-ADMM"

    @property
    def privacy(self) -> LTADMMPrivacy:
        return LTADMMPrivacy(self)

    @property
    def steps(self) -> int:
        return self.tau

    def start(self, task: Task, graph: Graph) -> OnEdges:
        self._check(graph)
        x = task.initial()
        return OnEdges(x, self.rho * x[at_start(task, graph).row])

    def round(self, t: int, state: OnEdges, task: Task, network: Network) -> OnEdges:
        edges = network.edges(t)
        degree = degrees(edges, task.n, state.x)
        pull = self.beta * (self.rho * degree * state.x - gathered(state.z, edges, task.n))
        phi = state.x
        for step in self.draws(t):
            phi = phi - (self.lr * self.private(phi, step, task) + pull)
        received = network.swap(t, state.z - 2 * self.rho * phi[edges.row])
        return OnEdges(phi, (state.z - received) / 2)

    def models(self, state: OnEdges) -> Tensor:
        return state.x

    def _check(self, graph: Graph) -> None:
        """The paper's β < 2 / (τ λ_u ρ), λ_u the largest eigenvalue of the graph's Laplacian."""
        largest = largest_laplacian(graph.at(0))
        limit = 2 / (self.tau * largest * self.rho)
        if self.beta >= limit:
            warnings.warn(
                f"{self.title}: beta = {self.beta:g} is not below 2 / (τ λ_u ρ) = {limit:.4g} "
                f"(λ_u = {largest:.4g} of this graph), beyond which the paper proves nothing",
                stacklevel=3,
            )


@dataclass(frozen=True)
class LTADMMPrivacy(ClippedPrivacy):
    """τ noised gradients per round and node; the paper's Eq. 9 is the claim."""

    algorithm: LTADMM

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        if self.algorithm.sigma == 0 or self.algorithm.clip is None:
            return None
        bound = self.algorithm.clip
        pairs = set(zip(sampling.rate.tolist(), self.algorithm.deviation(nodes).tolist(), strict=True))
        return max(lt_admm_dp_claim(rate, sigma / bound, rounds * self.algorithm.tau, delta) for rate, sigma in pairs)


@algorithms.register("lt-admm")
def lt_admm(lr: float = 0.1, beta: float = 0.1, rho: float = 0.1, tau: int = 4) -> LTADMM:
    """LT-ADMM: local training ADMM without privacy: no clip, no noise."""
    return LTADMM(lr=lr, beta=beta, rho=rho, tau=tau, clip=None, sigma=0.0)
