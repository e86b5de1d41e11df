"""Solutions of problem (9) on exact signals that are released afterwards, with an error bound that is public.

If the solver stopped with an error for some signals, or returned something else for them, it would reveal them. So
every solution here is within a tolerance τ of the minimiser w*, for all signals, and τ depends on public values only:

1. Newton's method (`tacit.graph_learning.solver`) is tried first. Its result counts only with a certificate. f is
   κ-strongly convex, so ‖w − w*‖ ≤ ‖g‖/κ for every w ≥ 0, where g is ∇f(w) without the positive entries at weights that
   are 0. The rounding error of ∇f(w) is added.
2. Otherwise accelerated projected gradient steps from w = 0 solve the problem. Their number is public and needs no
   stopping rule. With step 1/L and gradient errors ‖e_i‖ ≤ L ē, k steps from a point at distance R reach
   f − f* ≤ 2L/(k + 1)² (R + k (k + 1) ē)² (Schmidt, Le Roux, Bach: Convergence Rates of Inexact Proximal-Gradient
   Methods for Convex Optimization, 2011, Proposition 2), and ‖w − w*‖² ≤ 2 (f − f*)/κ. If k is 4 √(L/κ), rounded up,
   then ‖w − w*‖ ≤ R/2 + 10 (L/κ) ē. So each such phase halves the distance, down to 20 (L/κ) ē.

The weights stay between 0 and W, a public bound on ‖w*‖: the optimality conditions give
κ ‖w*‖² ≤ α d + ργ ‖w_con‖ ‖w*‖. All rounding errors of a step together are a gradient error:
ē = (d + 32) u (A/L + 3 W √p), with A as in `tacit.graph_learning.problem`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.problem import UNIT_ROUNDOFF, ClientProblem
from tacit.graph_learning.solver import Solution, initial_dual, newton
from tacit.privacy import Array

_RELATIVE_TOLERANCE = 1e-4  # of the sensitivity: the noise grows by twice as much
_NEWTON_TOLERANCE = 1e-12
_MAX_STEPS = 1_000_000


class SolutionBound(NamedTuple):
    """Public bounds on the solutions of all clients.

    Attributes:
        tolerance: τ, the largest distance from the minimiser, (n,).
        weights: W, a bound on the norm of the minimiser, (n,).
        phases: The number of phases of gradient steps, (n,).
        steps: The number of steps per phase, (n,).
        z_bound: The bound on ‖z̄‖.
    """

    tolerance: Tensor
    weights: Tensor
    phases: Tensor
    steps: Tensor
    z_bound: float


def solution_bound(problem: ClientProblem, sensitivity: Array, z_bound: float) -> SolutionBound:
    """Return the bounds on the solutions of `solve_within`.

    Args:
        problem: The clients' problems, with a floor that depends on public values only. Their z̄ is not used.
        sensitivity: The sensitivity of z̄, (n,).
        z_bound: A public bound on ‖z̄‖.

    Raises:
        TacitError: If the problems are too badly conditioned. This depends on public values only.
    """
    kappa, condition = problem.kappa, problem.lipschitz / problem.kappa
    pull = problem.pull * problem.con.norm()
    weights = (pull + (pull.square() + 4 * kappa * problem.alpha * problem.d).sqrt()) / (2 * kappa)
    size = 3 * weights * math.sqrt(problem.z.shape[1])
    step_error = (problem.d + 32) * UNIT_ROUNDOFF * (problem.gradient_bound(z_bound) / problem.lipschitz + size)
    target = _RELATIVE_TOLERANCE * torch.from_numpy(sensitivity) / kappa
    phases, steps = torch.log2(weights / target).ceil().clamp(min=1), (4 * condition.sqrt()).ceil()
    if not bool((phases * steps <= _MAX_STEPS).all()):
        raise TacitError(
            "The clients' problems are too badly conditioned to be solved with noise in every round "
            f"(L/κ = {float(condition.max()):.1g}): increase beta or zeta, or take local steps (K = 1)"
        )
    return SolutionBound(target + 20 * condition * step_error, weights, phases, steps, z_bound)


def solution_sensitivity(problem: ClientProblem, sensitivity: Array, bound: SolutionBound) -> Array:
    """Return how far one signal can move the result of `solve_within` in L2, (n,).

    Privacy:
        The minimiser of a κ-strongly convex function moves by at most Δ/κ if its linear term z̄ moves by Δ. Each of the
        two results is at most τ away from its minimiser: Δ/κ + 2τ.
    """
    result: Array = sensitivity / problem.kappa.numpy() + 2 * bound.tolerance.numpy()
    return result


def solve_within(problem: ClientProblem, bound: SolutionBound, start: Tensor) -> Solution:
    """Solve problem (9) of every client, with an absolute error of at most `bound.tolerance` for all signals.

    Args:
        problem: The clients' problems.
        bound: The result of `solution_bound`.
        start: Dual variables (n, d) to start from. They may depend on the signals.
    """
    found = newton(problem, start, _NEWTON_TOLERANCE)
    w = found.w.clamp(min=0)
    error = _proven_error(problem, w, bound.z_bound)
    failed = ~(error <= bound.tolerance)  # also if the error is not a number
    u = torch.where(failed[:, None], initial_dual(problem, problem.z), found.u)
    for row in failed.nonzero()[:, 0].tolist():
        one = torch.tensor([row])
        w[one] = _gradient_solution(problem.rows(one), bound, row)
        error[one] = bound.tolerance[one]
    return Solution(w, u, error, ~failed)


def _proven_error(problem: ClientProblem, w: Tensor, z_bound: float) -> Tensor:
    """Return a bound on ‖w − w*‖, rounding included, (n,)."""
    slope = problem.gradient(w)
    outside = torch.where(w > 0, slope, slope.clamp(max=0))
    norm = outside.norm(dim=1) * (1 + w.shape[1] * UNIT_ROUNDOFF)
    error: Tensor = (norm + problem.gradient_rounding(z_bound, w.norm(dim=1))) / problem.kappa
    return error


def _gradient_solution(problem: ClientProblem, bound: SolutionBound, row: int) -> Tensor:
    """The solution of client `row` by accelerated gradient steps, restarted after every phase, (1, p)."""
    most, step = float(bound.weights[row]), 1 / problem.lipschitz[:, None]
    w = torch.zeros_like(problem.z)
    for _ in range(int(bound.phases[row])):
        before = w
        for i in range(int(bound.steps[row])):
            ahead = w + max(i - 1, 0) / (i + 2) * (w - before)
            before, w = w, (ahead - step * problem.gradient(ahead)).clamp(0, most)
    return w
