"""Push-sum SGD over directed, time-varying graphs: SGP, and the Dyn-D²P family, SGP with a private gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm, algorithms, at_nodes
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.algorithms.schedules import Geometric, Listed, Schedule
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Sampling
from tacit.privacy.claims import dyn_d2p_claim, paper_mu0
from tacit.privacy.ledger import Array
from tacit.privacy.mechanism import Exact, Gaussian, Mechanism
from tacit.privacy.release import Release
from tacit.tasks import Clip, Task, join


@dataclass(frozen=True)
class PushSum:
    """Numerator x (n, d_s) and weight w (n,); the graph biases both alike, so z = x / w is unbiased.

    Beside them the `local` parameters (n, d − d_s), which stay at their node.
    """

    x: Tensor
    w: Tensor
    local: Tensor

    @property
    def z(self) -> Tensor:
        return self.x / self.w[:, None]


@dataclass(frozen=True, kw_only=True)
class D2P(Algorithm[PushSum]):
    """Differentially private SGP with arbitrary clipping bounds C_k and noise multipliers (Dyn-D²P, Algorithm 2).

        x½ = x − γ (clip(g(z); C_k) + N(0, σ_k²)),   σ_k = multiplier_k · sensitivity
        x, w ← Σ_j P_ij (x½_j, w_j),   z = x / w

    Zhu, Huang, Wang, Ji, Xu: Dyn-D²P, IJCAI 2025. With no clipping and no noise it is SGP (Assran et al., 2019).
    A batch of B records with per-record clipping takes the place of the paper's single record: noise σ_k on the sum,
    then division by B. `noise` shapes the multipliers over the rounds; `scale`, one for all or one for each node of the
    network, sets their level. With `share`, only those parameters are mixed. The gradients of the others get the same
    clip and noise, although nobody else sees them: an exact local layer would remember a record and show it in the
    shared gradients of all the others, and every guarantee of `local = "exact"` counts that.

    Formal guarantee: the ledger's composition of (Poisson-subsampled) Gaussian mechanisms, by numeric accounting.
    Claim: Eqs 4 and 6 of the paper, a central-limit estimate.
    """

    partial: ClassVar[bool] = True

    name: str = "D²P"
    lr: float = 0.1
    clip: Schedule | None = None
    noise: Schedule | None = None
    scale: float | Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.lr <= torch.finfo(torch.float32).max:
            raise TacitError(f"{self.title}: lr must be positive and finite, not {self.lr}")

    @property
    def title(self) -> str:
        return self.name

    @property
    def privacy(self) -> D2PPrivacy:
        return D2PPrivacy(self)

    def with_rounds(self, rounds: int) -> Self:
        """Both schedules must have a value for every round: better told now than in the round that lacks it."""
        for schedule in (self.clip, self.noise):
            if schedule is not None:
                schedule(rounds - 1, rounds)
        return super().with_rounds(rounds)

    def start(self, task: Task, graph: Graph) -> PushSum:
        x, local = task.split(task.initial())
        return PushSum(x, torch.ones(task.n, dtype=x.dtype), local)

    def round(self, t: int, state: PushSum, task: Task, network: Network) -> PushSum:
        g = task.gradient(self.models(state), t, self.bound(t))
        noised = self.privacy.mechanism(t, task.nodes).release(g)
        shared, local = task.split(join(noised, g.local))
        x, w = network.mix(t, state.x.sub(shared, alpha=self.lr), state.w)
        return PushSum(x, w, state.local.sub(local, alpha=self.lr))

    def models(self, state: PushSum) -> Tensor:
        return join(state.z, state.local)

    @property
    def tolerates_dropout(self) -> bool:
        return True

    def with_noise(self, scale: Array) -> Self:
        return replace(self, scale=scale) if self.noise is not None else super().with_noise(scale)

    def bound(self, t: int) -> Clip | None:
        return None if self.clip is None else Clip(self.clip(t, self.rounds))

    def noise_scale(self, nodes: Nodes) -> Array:
        if self.scale is None:
            raise TacitError(
                f"{self.title} does not know how much noise to add: set privacy.epsilon, or algorithm.noise_multiplier"
            )
        return at_nodes(self.scale, nodes)


@dataclass(frozen=True)
class D2PPrivacy(PrivacyPlan):
    """One gradient per round and node, with the noise multiplier of the round."""

    algorithm: D2P

    def mechanism(self, t: int, nodes: Nodes) -> Mechanism:
        if self.algorithm.noise is None:
            return Exact()
        return Gaussian(self.algorithm.noise_scale(nodes) * self.algorithm.noise(t, self.algorithm.rounds))

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> tuple[Release, ...]:
        return (Release(t, "gradient", self.mechanism(t, nodes), sampling),)

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        """1 / μ₀ with μ₀ from Eq. 8 (Eq. 9 when μ_k is constant)."""
        if not isinstance(self.algorithm.noise, Geometric):
            return super().paper_noise(sampling, epsilon, delta)
        rates, node = np.unique(sampling.rate, return_inverse=True)
        rho_mu = 1 / self.algorithm.noise.ratio
        return 1 / np.array([paper_mu0(epsilon, delta, rate, self.algorithm.rounds, rho_mu) for rate in rates])[node]

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """Eqs 4 and 6 for the node whose claim is the largest."""
        if self.algorithm.noise is None:
            return None
        shape = np.array([self.algorithm.noise(t, self.algorithm.rounds) for t in range(rounds)])
        pairs = set(zip(sampling.rate.tolist(), self.algorithm.noise_scale(nodes).tolist(), strict=True))
        return max(dyn_d2p_claim(rate, 1 / (scale * shape), delta) for rate, scale in pairs)

    def mixing_only_clip(self, t: int) -> Clip | None:
        return self.algorithm.bound(t) if self.algorithm.share is None else None


@algorithms.register("non-private")
@algorithms.register("sgp")
def sgp(lr: float = 0.1) -> D2P:
    """SGP: stochastic gradient push, without privacy (the Non-Private baseline of Dyn-D²P, which is another name)."""
    return D2P(name="SGP", lr=lr)


@algorithms.register("dyn-d2p")
def dyn_d2p(
    lr: float = 0.1,
    clip: float = 1.0,
    rho_c: float = 2.0,
    rho_mu: float = 2.0,
    noise_multiplier: float | None = None,
    name: str = "Dyn-D²P",
) -> D2P:
    """Dyn-D²P: clipping bound C₀ρ_c^(−k/K) shrinks and per-step budget μ₀ρ_μ^(k/K) grows over the rounds.

    `lr` is γ, `clip` C₀, the bound of the first round, `rho_c` how many times smaller it is in the end and `rho_mu` how
    many times the budget of a step is larger then. `noise_multiplier` is 1/μ₀, the noise of the first round divided
    by its sensitivity; privacy.epsilon solves for it instead. See D2P for the update.
    """
    noise = 1.0 if noise_multiplier is None else noise_multiplier
    for key, value in {"clip": clip, "rho_c": rho_c, "rho_mu": rho_mu, "noise_multiplier": noise}.items():
        if not 0 < value < math.inf:
            raise TacitError(f"{name}: {key} must be positive and finite, not {value}")
    bounds, multipliers = Geometric(clip, 1 / rho_c), Geometric(1.0, 1 / rho_mu)
    return D2P(name=name, lr=lr, clip=bounds, noise=multipliers, scale=noise_multiplier)


@algorithms.register("dyn-c-d2p")
def dyn_c_d2p(lr: float = 0.1, clip: float = 1.0, rho_c: float = 2.0, noise_multiplier: float | None = None) -> D2P:
    """Dyn[C]-D²P: only the clipping bound changes; the per-step budget is constant."""
    return dyn_d2p(lr, clip, rho_c, 1.0, noise_multiplier, "Dyn[C]-D²P")


@algorithms.register("dyn-mu-d2p")
def dyn_mu_d2p(lr: float = 0.1, clip: float = 1.0, rho_mu: float = 2.0, noise_multiplier: float | None = None) -> D2P:
    """Dyn[μ]-D²P: only the per-step budget changes; the clipping bound is constant."""
    return dyn_d2p(lr, clip, 1.0, rho_mu, noise_multiplier, "Dyn[μ]-D²P")


@algorithms.register("const-d2p")
def const_d2p(lr: float = 0.1, clip: float = 1.0, noise_multiplier: float | None = None) -> D2P:
    """Const-D²P: constant clipping bound and constant noise, the usual baseline."""
    return dyn_d2p(lr, clip, 1.0, 1.0, noise_multiplier, "Const-D²P")


@algorithms.register("d2p")
def d2p(clip: list[float], noise_multiplier: list[float], lr: float = 0.1) -> D2P:
    """D²P, general form: any list of clipping bounds and of noise multipliers, one a round (Algorithm 2)."""
    return D2P(name="D²P (general)", lr=lr, clip=Listed(clip), noise=Listed(noise_multiplier), scale=1.0)
