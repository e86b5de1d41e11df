"""The privacy of the Dyn-D²P family: its plan, and what the paper claims by its own formulas.

The paper's Eqs 4 and 6 to 9 rest on a central limit theorem that is far from its limit at the paper's own settings.
With 2,500 records, 3,500 rounds and δ = 1e-4, a claimed ε of 0.3, 0.7, 1 or 3 is really 0.67, 2.2, 3.0 or 5.8.
The guarantee therefore comes from numeric accounting (`tacit.privacy`), never from these formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.algorithms.algorithm import no_noise_level, select_nodes
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.algorithms.schedules import Geometric
from tacit.errors import TacitError
from tacit.privacy import Array, Exact, Mechanism, Release, Sampling, epsilon_to_mu, mu_to_epsilon
from tacit.tasks import Clip, Task

if TYPE_CHECKING:
    from tacit.algorithms.d2p import D2P


@dataclass(frozen=True)
class D2PPrivacy(PrivacyPlan):
    """One noised gradient per round and node.

    Formal guarantee:

    - Round k is a (Poisson-subsampled) Gaussian mechanism with noise multiplier σ_k / C_k. If the mean of the batch is
      clipped, one record moves it by up to 2C_k, and the noise multiplier is σ_k / 2C_k.
    - The guarantee of a run is the numeric composition of all rounds, per node.
    """

    algorithm: D2P

    def mechanism(self, t: int, nodes: Nodes) -> Mechanism:
        """Return the mechanism of round t."""
        if self.algorithm.noise is None:
            return Exact()
        clip = self.algorithm.gradient_clip(t)
        bound = 1.0 if clip is None else float(clip.bound)
        rounds = self.algorithm.rounds
        return self.gaussian(self._scale(nodes), nodes, rounds, self.algorithm.noise(t, rounds), bound)

    @property
    def refuses_pairs(self) -> str | None:
        if self.algorithm.noise is None or self.algorithm.clip is None:
            return "it adds no noise to clipped gradients"
        if self.algorithm.share is not None:
            return "parameters that stay at their node are never mixed, so the noise of pairs would not cancel in them"
        return None

    def unit_noise(self, task: Task) -> tuple[Array, Array]:
        if self.refuses_pairs:
            return super().unit_noise(task)
        return self._scale(task.nodes), task.sensitivity(Clip(1.0, per=self.algorithm.clip_per))

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(t, "gradient", self.mechanism(t, nodes), sampling)]

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        """Return the noise multiplier of the first round per node, from μ₀ of Eq. 8 (Eq. 9 if μ_k is constant).

        For lists of noise multipliers, return σ̃ of Proposition 4 (Eq. 10) instead.
        """
        rates, node = np.unique(sampling.rate, return_inverse=True)
        noise, rounds = self.algorithm.noise, self.algorithm.rounds
        if noise is None:
            return super().paper_noise(sampling, epsilon, delta)
        if isinstance(noise, Geometric):
            first = np.array([paper_mu0(epsilon, delta, rate, rounds, 1 / noise.ratio) for rate in rates])
            return 1 / (self._mean_sensitivity * first[node])
        totals = np.array([proposition_4_mu(rate, self._budgets(1.0, rounds)) for rate in rates])
        return totals[node] / epsilon_to_mu(epsilon, delta)

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """Return the ε of Eqs 4 and 6 for the node with the largest claim; for lists of values, of Eqs 4 and 10."""
        if self.algorithm.noise is None or self.algorithm.bandwidth is not None:
            return None  # the paper claims nothing about noise that is correlated in time
        total = clt_mu if isinstance(self.algorithm.noise, Geometric) else proposition_4_mu
        pairs = set(zip(sampling.rate.tolist(), self._scale(nodes).tolist(), strict=True))
        return max(mu_to_epsilon(total(rate, self._budgets(scale, rounds)), delta) for rate, scale in pairs)

    def mixing_only_clip(self, t: int) -> Clip | None:
        mixes_only = self.algorithm.share is None and self.algorithm.mixing.keeps_rounds
        return self.algorithm.gradient_clip(t) if mixes_only else None

    @property
    def _mean_sensitivity(self) -> float:
        """How far one record moves the value to which σ_k is added, in multiples of C_k."""
        return 2.0 if self.algorithm.clip_per == "batch" else 1.0

    def _budgets(self, scale: float, rounds: int) -> Array:
        """Return the paper's budgets μ_k = C_k/σ_k of the first rounds at a noise scale."""
        assert self.algorithm.noise is not None
        shape = np.array([self.algorithm.noise(t, self.algorithm.rounds) for t in range(rounds)])
        budgets: Array = 1 / (self._mean_sensitivity * scale * shape)
        return budgets

    def _scale(self, nodes: Nodes) -> Array:
        if self.algorithm.scale is None:
            raise no_noise_level(self.algorithm.title, *self.algorithm.noise_parameters)
        return select_nodes(self.algorithm.scale, nodes)


def clt_mu(rate: float, mus: npt.ArrayLike) -> float:
    """Return the claimed μ of all rounds together (Eq. 6): μ_tot = p √(Σ_k (e^{μ_k²} − 1)).

    >>> round(clt_mu(0.01, [1.0] * 1000), 4)
    0.4145
    """
    with np.errstate(over="ignore"):
        return rate * math.sqrt(float(np.expm1(np.square(np.asarray(mus, np.float64))).sum()))


def proposition_4_mu(rate: float, mus: npt.ArrayLike) -> float:
    """Return the μ of all rounds together by Proposition 4: μ_tot = p √(2 Σ_k μ_k²), which is Eq. 10 for σ̃.

    It replaces e^{μ²} − 1 in Eq. 6 by 2μ², which is too small for μ above 1.12. The paper's own settings have μ = 9.4.

    >>> round(proposition_4_mu(1 / 2500, [9.3796] * 3500), 4), clt_mu(1 / 2500, [9.3796] * 3500) > 1e16
    (0.3139, True)
    """
    return rate * math.sqrt(2 * float(np.square(np.asarray(mus, np.float64)).sum()))


def dyn_d2p_claim(rate: float, mus: npt.ArrayLike, delta: float) -> float:
    """Return the claimed ε of rounds with budgets μ_k = C_k/σ_k at sampling rate p (Eqs 4 and 6). Not a guarantee.

    >>> round(dyn_d2p_claim(0.01, [1.0] * 1000, 1e-5), 3)  # really 1.828
    1.618
    """
    return mu_to_epsilon(clt_mu(rate, mus), delta)


def paper_mu0(epsilon: float, delta: float, rate: float, rounds: int, rho_mu: float = 1.0) -> float:
    """Return the paper's calibration: the μ₀ with which μ_k = μ₀ ρ_μ^(k/K) claims ε (Eq. 8; Eq. 9 if ρ_μ = 1).

    >>> mu0 = paper_mu0(1.0, 1e-4, 1 / 2500, 3500, rho_mu=2.0)
    >>> round(dyn_d2p_claim(1 / 2500, mu0 * 2.0 ** (np.arange(3500) / 3500), 1e-4), 6)
    1.0
    """
    from scipy import optimize  # slow to import

    if not (0 < rate <= 1 and rounds >= 1 and 0 < rho_mu < math.inf):
        raise TacitError(
            f"Dyn-D²P's calibration needs 0 < rate ≤ 1, rounds ≥ 1 and ρ_μ > 0, got {rate}, {rounds} and {rho_mu}"
        )
    if not epsilon > 0:
        raise TacitError(f"Dyn-D²P's calibration needs ε > 0, got {epsilon}")
    goal = epsilon_to_mu(epsilon, delta)
    constant = math.sqrt(math.log1p((goal / rate) ** 2 / rounds))
    if rho_mu == 1:
        return constant
    growth = rho_mu ** (np.arange(rounds) / rounds)
    # The solution lies between those for all rounds at the largest and all rounds at the smallest budget.
    low, high = math.log(constant / growth.max()), math.log(constant / growth.min())

    def excess(log_mu: float) -> float:
        return math.log(clt_mu(rate, math.exp(log_mu) * growth) / goal)

    return math.exp(float(optimize.brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-14)))
