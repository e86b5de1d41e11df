"""Gaussian differential privacy: the exact relation of μ, ε and δ of the Gaussian mechanism.

A release of Gaussian noise with multiplier σ (standard deviation ÷ sensitivity) is μ-GDP with μ = 1/σ,
releases compose as μ² = Σ μ_k², and μ-GDP is (ε, δ)-DP exactly when (Dyn-D²P, Eq. 4; Dong, Roth and Su
2019)

    δ ≥ δ(ε, μ) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).
"""

import math

import numpy as np
import scipy

from tacit.errors import TacitError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _mills(x: float) -> float:
    """Return the Mills ratio Φ(−x)/φ(x)."""
    return math.sqrt(math.pi / 2) * float(scipy.special.erfcx(x / math.sqrt(2)))


def log_delta_of(epsilon: float, mu: float) -> float:
    """Return log δ(ε, μ) for ε ≥ 0.

    With a = ε/μ − μ/2, b = ε/μ + μ/2 and M the Mills ratio, e^ε φ(b) = φ(a) and so δ = φ(a) (M(a) − M(b)).
    When μ is small the difference is taken as the integral of −M′(x) = 1 − x M(x) from a to b.
    """
    if mu == 0:
        return -math.inf
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    log_density = -(a * a + math.log(2 * math.pi)) / 2
    if mu < 0.2:
        x = (a + b) / 2 + mu / 2 * _NODES
        slope = 1 - x * math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2))
        difference = mu / 2 * float(_WEIGHTS @ slope)
        return log_density + math.log(difference) if difference > 0 else -math.inf
    if a < 0:
        return math.log(float(scipy.special.ndtr(-a)) - math.exp(log_density) * _mills(b))
    return log_density + math.log(_mills(a) - _mills(b))


def delta_of(epsilon: float, mu: float) -> float:
    """Return the least δ for which μ-GDP is (ε, δ)-DP.

    >>> round(delta_of(1.0, 1.0), 6)
    0.126937
    >>> delta_of(30.0, 1.0) < 1e-190
    True
    """
    if epsilon < 0:
        return -math.expm1(epsilon) + math.exp(epsilon) * delta_of(-epsilon, mu)
    return math.exp(log_delta_of(epsilon, mu))


def mu_to_epsilon(mu: float, delta: float) -> float:
    """Return the least ε ≥ 0 for which μ-GDP is (ε, δ)-DP.

    >>> round(mu_to_epsilon(10 / 4, 1e-5), 4)  # a hundred releases with multiplier 4
    13.2067
    """
    from scipy import optimize  # slow to import

    if not (mu >= 0 and 0 <= delta < 1):
        raise TacitError(f"mu must be at least 0 and delta in [0, 1), got {mu} and {delta}")
    if mu == 0 or (delta > 0 and math.erf(mu / math.sqrt(8)) <= delta):  # δ(0, μ), without its logarithm
        return 0.0
    if math.isinf(mu) or delta == 0:
        return math.inf
    # δ ≤ φ-tail of a, and a tail beyond √(2 log 1/δ) is below δ.
    highest = mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))
    return float(
        optimize.brentq(lambda e: log_delta_of(e, mu) - math.log(delta), 0.0, highest, xtol=1e-300, rtol=1e-14)
    )


def epsilon_to_mu(epsilon: float, delta: float) -> float:
    """Return the greatest μ for which μ-GDP is (ε, δ)-DP: the inverse of `mu_to_epsilon`.

    >>> mu = epsilon_to_mu(1.0, 1e-4)
    >>> round(mu, 5), round(mu_to_epsilon(mu, 1e-4), 9)
    (0.3139, 1.0)
    """
    from scipy import optimize  # slow to import

    if not (0 <= epsilon < math.inf and 0 < delta < 1):
        raise TacitError(f"epsilon must be finite and at least 0, and delta in (0, 1), got {epsilon} and {delta}")
    low = high = 1.0
    goal = math.log(delta)
    while log_delta_of(epsilon, low) > goal:
        low /= 4
    while log_delta_of(epsilon, high) < goal:
        high *= 4
    if low == high:
        return low
    root = optimize.brentq(
        lambda log_mu: log_delta_of(epsilon, math.exp(log_mu)) - goal,
        math.log(low),
        math.log(high),
        rtol=1e-14,
    )
    return math.exp(float(root))
