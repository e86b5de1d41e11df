"""The exact solution of every client's problem (9), by Newton's method on its dual, which has d variables instead of p.

With c = z̄ − ργ w_con and κ = 4β + ργ the problem is min over w ≥ 0 of cᵀw + κ/2 ‖w‖² − α 1ᵀ log(S w + ζ). Its dual is

    max over u > 0 of   −κ/2 ‖w(u)‖² + α 1ᵀ log u − ζ 1ᵀ u + const,   w(u) = max(0, Sᵀu − c) / κ

with gradient α/u − ζ − S w(u) and Hessian −(A + diag(A 1))/κ − diag(α/u²), where A is the adjacency matrix of the pairs
with w(u) > 0. The Hessian is d-by-d, so memory is O(p). Weights of pairs that are not edges are exactly 0, for any
ζ ≥ 0.

**Stopping rule.** With x = u (S w(u) + ζ)/α the duality gap is α Σ_i (x_i − 1 − log x_i). The problem is κ-strongly
convex, so ‖w(u) − w*‖ ≤ √(2 gap/κ). The solver stops when this bound is at most `tolerance` ‖w(u)‖: the relative error
is proven.

Newton's method can fail in floats. `solve` then raises an error; it is only for values that were released, or for runs
without noise. On exact signals of a private run use `tacit.graph_learning.private_solver`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.problem import ClientProblem
from tacit.graph_learning.triangle import to_matrix, to_triangle

_MAX_NEWTON_STEPS = 200  # 10 to 20 are usual
_MAX_HALVINGS = 40
_BATCH_ENTRIES = 1 << 24  # matrix entries that are solved in one batch
_EPS = torch.finfo(torch.float64).eps
_MAX_ROUNDING_ERROR = 1e-4  # a larger error is never attributed to rounding


class Solution(NamedTuple):
    """The solution of every client's problem.

    Attributes:
        w: The graphs, (n, p).
        u: The dual variables, (n, d). They are a good start for a similar problem.
        error: The proven relative errors of the graphs, (n,).
        converged: Whether each client's error is at most the tolerance, or what rounding allows, (n,).
    """

    w: Tensor
    u: Tensor
    error: Tensor
    converged: Tensor


def solve(problem: ClientProblem, start: Tensor | None = None, tolerance: float = 1e-9) -> Solution:
    """Solve problem (9) of every client.

    Args:
        problem: The clients' problems.
        start: Dual variables (n, d) to start from, such as the solution of a similar problem.
        tolerance: The relative error to reach.

    Raises:
        TacitError: If a problem is so badly conditioned that it cannot be solved to this error.
    """
    solution = newton(problem, start, tolerance)
    if not bool(solution.converged.all()):
        raise TacitError(
            f"A graph could not be computed to a relative error of {tolerance:g} in {_MAX_NEWTON_STEPS} Newton steps: "
            "beta is too small for these signals, increase it"
        )
    return solution


def newton(problem: ClientProblem, start: Tensor | None = None, tolerance: float = 1e-9) -> Solution:
    """Solve as `solve` does, but return the last values of clients whose problem could not be solved."""
    c = problem.z - problem.pull[:, None] * problem.con
    d, rows = problem.d, max(1, _BATCH_ENTRIES // problem.d**2)
    u = initial_dual(problem, c) if start is None else start
    parts = [
        _newton(
            c[i : i + rows], u[i : i + rows], problem.kappa[i : i + rows], problem.alpha, problem.zeta, d, tolerance
        )
        for i in range(0, len(c), rows)
    ]
    return Solution(*(torch.cat(each) for each in zip(*parts, strict=True)))


def initial_dual(problem: ClientProblem, c: Tensor) -> Tensor:
    """Return the dual variables (n, d) that solve the problem if every c_ij equals the client's median.

    They are the positive root u of 2 (d − 1) u² − (d − 1) c u = α κ.
    """
    middle = c.median(1).values / 2
    root = (middle + (middle.square() + 2 * problem.alpha * problem.kappa / (problem.d - 1)).sqrt()) / 2
    return root[:, None].expand(-1, problem.d).clone()


def _newton(c: Tensor, u: Tensor, kappa: Tensor, alpha: float, zeta: float, d: int, tolerance: float) -> Solution:
    square = to_matrix(c, d, diagonal=torch.inf)
    k = kappa[:, None]
    failed = torch.zeros(len(c), dtype=torch.bool)
    for _ in range(_MAX_NEWTON_STEPS):
        excess = (u[:, :, None] + u[:, None, :]).sub_(square).clamp_(min=0)  # κ W
        degree = excess.sum(2) / k
        error, rounding = _error(u, degree, excess, square, kappa, alpha, zeta)
        done = error <= rounding.clamp(min=tolerance, max=max(tolerance, _MAX_ROUNDING_ERROR))
        if bool((done | failed).all()):
            break
        active = (excess > 0).to(u.dtype)
        slope = degree + zeta - alpha / u  # the gradient of the negated dual, which is minimised
        active.diagonal(dim1=1, dim2=2).add_(active.sum(2) + k * alpha / u.square())
        factor, info = torch.linalg.cholesky_ex(active)
        failed |= info > 0
        step = torch.cholesky_solve((k * slope)[:, :, None], factor)[:, :, 0].neg_()
        step = torch.where((done | failed)[:, None], 0.0, step)
        u = _line_search(square, u, step, slope, excess, k, alpha, zeta)
    return Solution(to_triangle(excess).div_(k), u, error, done)


def _error(
    u: Tensor, degree: Tensor, excess: Tensor, square: Tensor, kappa: Tensor, alpha: float, zeta: float
) -> tuple[Tensor, Tensor]:
    """Return the error bound √(2 gap/κ) ÷ ‖w‖, and the value that rounding alone gives it when the gap is 0."""
    x = u * (degree + zeta) / alpha - 1
    size = (excess.square().sum((1, 2)).div(2).sqrt() / kappa).clamp(min=1e-300)
    terms = torch.where(excess > 0, square.abs(), 0.0).sum(2) + 2 * u.amax(1, keepdim=True) * (excess > 0).sum(2)
    blurred = _EPS * (4 + u * terms / (kappa[:, None] * alpha))  # of x, since κ w_ij = u_i + u_j − c_ij

    def bound(gap: Tensor) -> Tensor:
        return (2 * alpha * gap / kappa).sqrt() / size

    return bound((x - torch.log1p(x)).clamp_(min=0).sum(1)), bound(blurred.square().sum(1))


def _line_search(
    square: Tensor, u: Tensor, step: Tensor, slope: Tensor, excess: Tensor, k: Tensor, alpha: float, zeta: float
) -> Tensor:
    """Return u + s · step, where s is halved per client until u is positive and the negated dual decreases enough.

    The function is convex, so it has decreased if it still decreases at the end of the step. This second test works
    when the function values are too large and too similar to compare.
    """

    def value(u: Tensor, excess: Tensor) -> Tensor:
        return excess.square().sum((1, 2)).div_(4)[:, None] / k + (zeta * u - alpha * u.log()).sum(1, keepdim=True)

    inside = (-u / step).masked_fill(step >= 0, torch.inf).amin(1, keepdim=True)
    length = (0.95 * inside).clamp(max=1.0)
    now, decrease = value(u, excess), (slope * step).sum(1, keepdim=True)
    for _ in range(_MAX_HALVINGS):
        trial = u + length * step
        after = (trial[:, :, None] + trial[:, None, :]).sub_(square).clamp_(min=0)
        slope_after = ((after.sum(2) / k + zeta - alpha / trial) * step).sum(1, keepdim=True)
        enough = (value(trial, after) <= now + 1e-4 * length * decrease) | (slope_after <= -1e-3 * decrease)
        if bool(enough.all()):
            break
        length = torch.where(enough, length, length / 2)
    return trial
