"""How much one signal can change the graph that a client releases in a round."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import TacitError
from tacit.graph_learning.problem import ClientProblem
from tacit.privacy import Array


def classical_noise_multiplier(delta: float) -> float:
    """Return √(2 ln(1.25/δ)), the noise multiplier that is (1, δ)-private by the classical Gaussian theorem.

    >>> round(classical_noise_multiplier(1e-5), 4)
    4.8448
    """
    if not 0 < delta < 1:
        raise TacitError(f"delta must be in (0, 1), got {delta}")
    return math.sqrt(2 * math.log(1.25 / delta))


def iterate_sensitivity(
    problem: ClientProblem, K: int | None, step: float | None, momentum: float, sensitivity: Array
) -> Array:
    """Return how far one signal can move the result of a client's K local steps, in L2.

    Args:
        problem: The clients' problems of this round.
        K: The number of local steps, or None if the clients solve their problems exactly.
        step: η_w, or None for 1/L.
        momentum: ξ.
        sensitivity: Δ = √2 C/N_i, the sensitivity of z̄, (n,).

    Returns:
        The L2 sensitivity of every client's graph before noise, (n,).

    Privacy:
        Take two neighbouring data sets with the same released past. Then w⁽⁰⁾, w⁽⁻¹⁾, w_con and γ are equal, and so are
        the step and the floor, which are public. One step maps w_ex to w_ex − η ∇f(w_ex). Without z̄ this map has the
        Lipschitz constant q = max(|1 − ηκ|, |1 − ηL|), because f is κ-strongly convex and its gradient is L-Lipschitz
        on all of ℝᵖ. z̄ adds at most η Δ, and the projection adds nothing. So the distance d_k between the two
        iterates satisfies

            d_{k+1} ≤ q ((1 + ξ) d_k + ξ d_{k−1}) + η Δ,   d_0 = d_{−1} = 0,   Δ = √2 C/N_i

        For K = 1 this is ηΔ (Corollary 1, with √2 instead of 2). For K = None, the minimiser of a κ-strongly convex
        function moves by at most Δ/κ.

        The paper's proof of Theorem 2 fails for K > 1 and ξ > 0. It also sets d_{−1} = 0, but its w⁽⁻¹⁾ is the iterate
        before the previous round's noise, which is never released and differs between the two data sets. (Its noise
        also uses a bound on ‖w‖ that nothing enforces, and it does not decrease with N_i.) This code uses the last
        released graph as w⁽⁻¹⁾ instead; for K = 1 the two are the same.
    """
    kappa = problem.kappa.numpy()
    if K is None:
        return np.asarray(sensitivity / kappa)
    lipschitz = problem.lipschitz.numpy()
    eta = 1 / lipschitz if step is None else np.full_like(kappa, step)
    q = np.maximum(np.abs(1 - eta * kappa), np.abs(1 - eta * lipschitz))
    previous, distance = np.zeros_like(kappa), np.zeros_like(kappa)
    for _ in range(K):
        previous, distance = distance, q * ((1 + momentum) * distance + momentum * previous) + eta * sensitivity
    return distance
