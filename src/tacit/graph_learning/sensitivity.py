"""How much one signal can change the graph that a client releases in a round."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.problem import UNIT_ROUNDOFF, ClientProblem
from tacit.privacy import Array

_LARGEST_WEIGHTS = 1e100


def classical_noise_multiplier(delta: float) -> float:
    """Return √(2 ln(1.25/δ)), the noise multiplier that is (1, δ)-private by the classical Gaussian theorem.

    >>> round(classical_noise_multiplier(1e-5), 4)
    4.8448
    """
    if not 0 < delta < 1:
        raise TacitError(f"delta must be in (0, 1), got {delta}")
    return math.sqrt(2 * math.log(1.25 / delta))


def iterate_sensitivity(
    problem: ClientProblem,
    past: tuple[Tensor, Tensor],
    K: int,
    step: float | None,
    momentum: float,
    sensitivity: Array,
    z_bound: float,
) -> Array:
    """Return how far one signal can move the result of a client's K local steps, in L2.

    Args:
        problem: The clients' problems of this round, with a public floor. Their z̄ is not used.
        past: w⁽⁰⁾ and w⁽⁻¹⁾ of the local steps, (n, p) each, which were released.
        K: The number of local steps.
        step: η_w, or None for 1/L.
        momentum: ξ.
        sensitivity: Δ = √2 C/N_i, the sensitivity of z̄, (n,).
        z_bound: A public bound on ‖z̄‖.

    Returns:
        The L2 sensitivity of every client's graph before noise, (n,).

    Raises:
        TacitError: If the weights could overflow. This depends on public values only.

    Privacy:
        Take two neighbouring data sets with the same released past. Then w⁽⁰⁾, w⁽⁻¹⁾, w_con and γ are equal, and so are
        the step and the floor, which are public. One step maps w_ex to w_ex − η ∇f(w_ex). Without z̄ this map has the
        Lipschitz constant q = max(|1 − ηκ|, |1 − ηL|), because f is κ-strongly convex and its gradient is L-Lipschitz
        on all of ℝᵖ. z̄ adds at most η Δ, and the projection adds nothing. Each of the two iterates has a rounding error
        of at most r_k. So the distance d_k between them satisfies

            d_{k+1} ≤ q ((1 + ξ) d_k + ξ d_{k−1}) + η Δ + 2 r_k,   d_0 = d_{−1} = 0,   Δ = √2 C/N_i
            m_{k+1} ≤ q a_k + η A + r_k,   a_k = (1 + ξ) m_k + ξ m_{k−1},   r_k = (d + 24) u (a_k + η (A + L a_k))

        where m_k bounds the norm of an iterate, and A and the rounding of the gradient are as in
        `tacit.graph_learning.problem`. For K = 1 and without rounding this is ηΔ (Corollary 1, with √2 instead of 2).

        The paper's proof of Theorem 2 fails for K > 1 and ξ > 0. It also sets d_{−1} = 0, but its w⁽⁻¹⁾ is the iterate
        before the previous round's noise, which is never released and differs between the two data sets. (Its noise
        also uses a bound on ‖w‖ that nothing enforces, and it does not decrease with N_i.) This code uses the last
        released graph as w⁽⁻¹⁾ instead; for K = 1 the two are the same.
    """
    kappa, lipschitz = problem.kappa.numpy(), problem.lipschitz.numpy()
    gradient = problem.gradient_bound(z_bound).numpy()
    eta = 1 / lipschitz if step is None else np.full_like(kappa, step)
    q = np.maximum(np.abs(1 - eta * kappa), np.abs(1 - eta * lipschitz)) + 16 * UNIT_ROUNDOFF
    previous, distance = np.zeros_like(kappa), np.zeros_like(kappa)
    size, before = (each.norm(dim=1).numpy() for each in past)
    for _ in range(K):
        ahead = (1 + momentum) * size + momentum * before
        rounding = (problem.d + 24) * UNIT_ROUNDOFF * (ahead + eta * (gradient + lipschitz * ahead))
        apart = (1 + momentum) * distance + momentum * previous
        previous, distance = distance, q * apart + eta * sensitivity + 2 * rounding
        before, size = size, q * ahead + eta * gradient + rounding
    if not (size <= _LARGEST_WEIGHTS).all():
        raise TacitError(f"The weights could exceed {_LARGEST_WEIGHTS:g} in {K} local steps: use a smaller step")
    return distance
