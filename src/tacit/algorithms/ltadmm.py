"""LT-ADMM and LT-ADMM-DP: ADMM with several local steps between exchanges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tacit.algorithms.algorithm import algorithms, check_positive
from tacit.algorithms.edges import EdgeState, degrees, hosted_edges, sum_over_neighbours
from tacit.algorithms.mixing_options import NO_MIXING
from tacit.algorithms.noisy_gradient import NoisyGradientAlgorithm, NoisyGradientPrivacy
from tacit.algorithms.privacy_plan import EDGE_VARIABLES_REFUSE_PAIRS, Nodes
from tacit.graphs import Graph, largest_laplacian
from tacit.networks import Network
from tacit.privacy import Sampling
from tacit.tasks import Task


@algorithms.register("lt-admm-dp", example={"rho": 1.0})
@dataclass(frozen=True, kw_only=True)
class LTADMM(NoisyGradientAlgorithm[EdgeState]):
    """LT-ADMM-DP: ADMM with local training and clipped, noised gradients.

        φ⁰ = x,   φ ← φ − (γ ĝ(φ) + β (ρ |N_i| x − Σ_j z_ij)) τ times, the correction frozen,   x ← φ^τ
        send z_ij − 2ρ x_i to j;   z_ij ← ½ z_ij − ½ (z_ji − 2ρ x_j)

    ĝ is the batch's mean of smoothly clipped gradients, plus N(0, σ_e²). The paper clips the batch's mean instead
    (`clip_per = "batch"`), which one record can move by 2ζ.

    Args:
        lr: Step size γ.
        clip: Clipping bound ζ of the smooth clip ζ/(ζ + ‖g‖) · g.
        clip_per: Clip each record's gradient ("record") or the batch's mean ("batch").
        sigma: Standard deviation σ_e of the noise on ĝ; privacy.epsilon sets it instead.
        beta: Weight β of the correction.
        rho: Penalty ρ of the augmented Lagrangian.
        tau: Local steps τ per round.

    References:
        Ren et al.: LT-ADMM-DP, Algorithm 1.
    """

    needs: ClassVar[tuple[str, ...]] = ("undirected", "connected", "static")
    models_are_released: ClassVar[bool] = True
    refused_options: ClassVar[Mapping[str, str]] = NO_MIXING
    name: ClassVar[str] = "LT-ADMM-DP"

    beta: float = 0.1
    rho: float = 0.1
    tau: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, beta=self.beta, rho=self.rho)

    @property
    def title(self) -> str:
        return self.name if self.sigma != 0 else "LT-ADMM"

    @property
    def privacy(self) -> LTADMMPrivacy:
        return LTADMMPrivacy(self)

    @property
    def gradients_per_round(self) -> int:
        return self.tau

    def start(self, task: Task, graph: Graph) -> EdgeState:
        self._warn_of_large_beta(graph)
        x = task.initial()
        return EdgeState(x, self.rho * x[hosted_edges(task, graph).row])

    def round(self, t: int, state: EdgeState, task: Task, network: Network) -> EdgeState:
        edges = network.edges(t)
        degree = degrees(edges, task.n, state.x)
        correction = self.beta * (self.rho * degree * state.x - sum_over_neighbours(state.z, edges, task.n))
        phi = state.x
        for step in self.steps(t):
            phi = phi - (self.lr * self.private_gradient(phi, step, task) + correction)
        received = network.swap(t, state.z - 2 * self.rho * phi[edges.row])
        return EdgeState(phi, (state.z - received) / 2)

    def models(self, state: EdgeState) -> Tensor:
        return state.x

    def _warn_of_large_beta(self, graph: Graph) -> None:
        """Warn unless β < 2/(τ λ_u ρ), λ_u the largest eigenvalue of the graph's Laplacian, as the paper requires."""
        largest = largest_laplacian(graph.at(0))
        if largest == 0:  # one node has no neighbours to agree with
            return
        limit = 2 / (self.tau * largest * self.rho)
        if self.beta >= limit:
            warnings.warn(
                f"{self.title}: beta = {self.beta:g} is not below 2/(τ λ_u ρ) = {limit:.4g} "
                f"(λ_u = {largest:.4g} for this graph), so the paper's convergence proof does not apply",
                stacklevel=3,
            )


@dataclass(frozen=True)
class LTADMMPrivacy(NoisyGradientPrivacy):
    """τ noised gradients per round and node. Claim: Eq. 9 of the paper."""

    algorithm: LTADMM

    @property
    def refuses_pairs(self) -> str | None:
        return EDGE_VARIABLES_REFUSE_PAIRS

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        algorithm = self.algorithm
        if algorithm.sigma == 0 or algorithm.clip is None:
            return None
        bound, steps = algorithm.clip, rounds * algorithm.tau
        pairs = set(zip(sampling.rate.tolist(), self.noise_std(nodes).tolist(), strict=True))
        return max(lt_admm_dp_claim(rate, sigma / bound, steps, delta) for rate, sigma in pairs)


def lt_admm_dp_claim(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """Return the ε of Eq. 9 after Kτ `steps` at sampling rate |B|/m; `multiplier` is σ_e/ζ. Not a guarantee.

    The paper prints 19.6 for the settings below, which is Eq. 9 with a decimal logarithm.

    >>> round(lt_admm_dp_claim(8 / 1000, 0.5, 16_000, 1e-4), 2)
    25.56
    """
    spent = 2 * steps * (rate / multiplier) ** 2
    return spent + 2 * rate / multiplier * math.sqrt(2 * steps * math.log(1 / delta))


@algorithms.register("lt-admm", example={"rho": 1.0})
def lt_admm(lr: float = 0.1, beta: float = 0.1, rho: float = 0.1, tau: int = 4) -> LTADMM:
    """LT-ADMM: ADMM with local training, without privacy (no clipping, no noise). Parameters as in lt-admm-dp."""
    return LTADMM(lr=lr, beta=beta, rho=rho, tau=tau, clip=None, sigma=0.0)
