"""What papers *claim*, by their own formulas. A claim is not a guarantee.

Those of Dyn-D²P (Eqs 4 and 6 to 9) rest on a central limit theorem that is far from its limit at the paper's own
settings: with 2,500 records, 3,500 rounds and δ = 1e-4 a claimed ε of 0.3, 0.7, 1 or 3 is really 0.67, 2.2, 3.0 or 5.8.
What holds is for `tacit.privacy.accountant` to say.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import optimize

from tacit.errors import TacitError
from tacit.privacy.gdp import epsilon_to_mu, mu_to_epsilon


def clt_mu(rate: float, mus: npt.ArrayLike) -> float:
    """Claimed μ of all rounds together (Eq. 6): μ_tot = p √(Σ_k (e^{μ_k²} − 1)).

    >>> round(clt_mu(0.01, [1.0] * 1000), 4)
    0.4145
    """
    with np.errstate(over="ignore"):
        return rate * math.sqrt(float(np.expm1(np.square(np.asarray(mus, np.float64))).sum()))


def dyn_d2p_claim(rate: float, mus: npt.ArrayLike, delta: float) -> float:
    """Claimed ε of rounds with budgets μ_k = C_k/σ_k at sampling rate p (Eqs 4 and 6). Not a guarantee.

    >>> round(dyn_d2p_claim(0.01, [1.0] * 1000, 1e-5), 3)  # really 1.828
    1.618
    """
    return mu_to_epsilon(clt_mu(rate, mus), delta)


def paper_mu0(epsilon: float, delta: float, rate: float, rounds: int, rho_mu: float = 1.0) -> float:
    """The paper's calibration: μ₀ such that μ_k = μ₀ ρ_μ^(k/K) *claims* ε (Eq. 8; Eq. 9 when ρ_μ = 1).

    >>> mu0 = paper_mu0(1.0, 1e-4, 1 / 2500, 3500, rho_mu=2.0)
    >>> round(dyn_d2p_claim(1 / 2500, mu0 * 2.0 ** (np.arange(3500) / 3500), 1e-4), 6)
    1.0
    """
    if not (0 < rate <= 1 and rounds >= 1 and 0 < rho_mu < math.inf):
        raise TacitError(
            f"the paper's calibration needs 0 < rate ≤ 1, rounds ≥ 1 and ρ_μ > 0, not {rate}, {rounds} and {rho_mu}"
        )
    if not epsilon > 0:
        raise TacitError(f"the paper's calibration needs ε > 0, not {epsilon}")
    goal = epsilon_to_mu(epsilon, delta)
    constant = math.sqrt(math.log1p((goal / rate) ** 2 / rounds))
    if rho_mu == 1:
        return constant
    growth = rho_mu ** (np.arange(rounds) / rounds)
    # All rounds at the greatest, or all at the least, of the budgets: the truth lies between.
    low, high = math.log(constant / growth.max()), math.log(constant / growth.min())

    def excess(log_mu: float) -> float:
        return math.log(clt_mu(rate, math.exp(log_mu) * growth) / goal)

    return math.exp(float(optimize.brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-14)))


def lt_admm_dp_claim(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """Claimed ε of LT-ADMM-DP (Eq. 9) after Kτ `steps` at sampling rate |B|/m; `multiplier` is σ_e/ζ.

    >>> round(lt_admm_dp_claim(8 / 1000, 0.5, 16_000, 1e-4), 2)  # the paper prints 19.6
    25.56
    """
    spent = 2 * steps * (rate / multiplier) ** 2
    return spent + 2 * rate / multiplier * math.sqrt(2 * steps * math.log(1 / delta))


def dp_norm_j(epsilon: float, delta: float, rounds: int) -> float:
    """J of DP-Norm's Theorem 1 with Eq. 8: the noise multiplier σ/Δ₂ that is said to give (ε, δ) after R rounds.

    >>> round(dp_norm_j(1.0, 1e-3, 2000), 1), round(dp_norm_j(0.5, 1e-3, 2000))
    (167.7, 312)
    """
    if not (epsilon > 0 and 0 < delta < 1):
        raise TacitError(f"DP-Norm's Theorem 1 needs ε > 0 and 0 < δ < 1, not {epsilon} and {delta}")
    length = math.log(math.e + math.sqrt(2 * epsilon) / ((1 + math.sqrt(1 + epsilon)) * delta))
    h = (1 + math.sqrt(1 + epsilon / length)) ** 2 / 4
    first = 2 * h * rounds / epsilon**2 * math.log(math.e + epsilon / (math.sqrt(2 * h) * delta))
    return math.sqrt(max(first, rounds / (2 * epsilon)))


def dp_norm_claim(multiplier: float, delta: float, rounds: int) -> float:
    """The ε that Theorem 1 of DP-Norm claims for a noise multiplier: J(ε) turned round.

    >>> round(dp_norm_claim(167.7, 1e-3, 2000), 3)
    1.0
    """

    def excess(log_epsilon: float) -> float:
        return math.log(dp_norm_j(math.exp(log_epsilon), delta, rounds) / multiplier)

    if excess(40.0) > 0:
        return math.inf  # next to no noise
    if excess(-40.0) < 0:
        return 0.0
    return math.exp(float(optimize.brentq(excess, -40.0, 40.0, xtol=1e-12)))


def dp_sgd_claim(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """The ε that the DP-Norm paper (Table II) takes for DP-SGD; `multiplier` is σ B/C, the noise on the clipped sum.

    >>> round(dp_sgd_claim(0.5, 185.8, 20_000, 1e-3), 3)
    1.0
    """
    return rate * math.sqrt(steps * math.log(1 / delta)) / multiplier


def dp_admm_claim(rate: float, multiplier: float, steps: int, delta: float) -> float:
    """The ε of Table II for DP-ADMM; `multiplier` is σ B/2G, where σ is the deviation of the noise on a gradient.

    >>> round(dp_admm_claim(0.5, 267.0, 20_000, 1e-3), 3)
    1.0
    """
    return rate * math.sqrt(2 * steps * math.log(1.25 / delta)) / multiplier
