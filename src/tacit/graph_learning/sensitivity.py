"""How far one signal can move the graph that a client sends in a round, and what papers make of such a bound."""

from __future__ import annotations

import math

import numpy as np

from tacit.errors import TacitError
from tacit.graph_learning.problem import ClientProblem
from tacit.privacy.ledger import Array


def classical_noise_multiplier(delta: float) -> float:
    """√(2 ln(1.25/δ)): the noise multiplier that is (1, δ)-private by the classical theorem on Gaussian noise.

    >>> round(classical_noise_multiplier(1e-5), 4)
    4.8448
    """
    if not 0 < delta < 1:
        raise TacitError(f"δ lies between 0 and 1, and {delta} does not")
    return math.sqrt(2 * math.log(1.25 / delta))


def iterate_sensitivity(
    problem: ClientProblem, K: int | None, step: float | None, momentum: float, sensitivity: Array
) -> Array:
    """How far, in L2, one signal moves what a round computes from the released past (`gradient_steps`).

    Two neighbouring data sets, the same released past: w⁽⁰⁾, w⁽⁻¹⁾, w_con and γ are then the same, and so are the
    step and the floor, which are public. A step maps w_ex to w_ex − η ∇f(w_ex); without z̄ that map has the Lipschitz
    constant q = max(|1 − ηκ|, |1 − ηL|), as f is κ-strongly convex and its gradient L-Lipschitz on all of ℝᵖ; z̄ adds
    at most η Δ; the projection adds nothing. So the distance d_k of the two iterates obeys

        d_{k+1} ≤ q ((1 + ξ) d_k + ξ d_{k−1}) + η Δ,   d_0 = d_{−1} = 0,   Δ = √2 C/N_i

    which gives ηΔ for K = 1 (Corollary 1, with √2 for 2). K = None: the minimiser of a κ-strongly convex function moves
    by at most Δ/κ.

    The proof of Theorem 2 in the paper fails for K > 1 and ξ > 0. It too sets d_{−1} = 0, but its w⁽⁻¹⁾ is the
    iterate before the noise of the round before, which was never released and differs between the two data sets. (Its
    noise also rests on a bound of ‖w‖ that nothing enforces, and does not fall with N_i.) We put the last released
    graph in the place of that iterate; for K = 1 they are the same.
    """
    kappa = problem.kappa.numpy()
    if K is None:
        return np.asarray(sensitivity / kappa)
    lipschitz = problem.lipschitz.numpy()
    eta = 1 / lipschitz if step is None else np.full_like(kappa, step)
    q = np.maximum(np.abs(1 - eta * kappa), np.abs(1 - eta * lipschitz))
    earlier, now = np.zeros_like(kappa), np.zeros_like(kappa)
    for _ in range(K):
        earlier, now = now, q * ((1 + momentum) * now + momentum * earlier) + eta * sensitivity
    return now
