"""The exact solution of every client's problem (9), by Newton's method on its dual, of d variables instead of p.

With c = z̄ − ργ w_con and κ = 4β + ργ the problem is min over w ≥ 0 of cᵀw + κ/2 ‖w‖² − α 1ᵀ log(S w + ζ). Its dual is

    max over u > 0 of   −κ/2 ‖w(u)‖² + α 1ᵀ log u − ζ 1ᵀ u + const,   w(u) = max(0, Sᵀu − c) / κ

with gradient α/u − ζ − S w(u) and Hessian −(A + diag(A 1))/κ − diag(α/u²), A the adjacency matrix of the pairs where
w(u) > 0: d-by-d, so memory is O(p). The weights come out exactly zero where there is no edge, for any ζ ≥ 0.

**Convergence.** With x = u (S w(u) + ζ)/α the duality gap is α Σ_i (x_i − 1 − log x_i), and as the problem is
κ-strongly convex, ‖w(u) − w*‖ ≤ √(2 gap/κ). We stop when that is at most `tolerance` ‖w(u)‖: a proven bound on the
relative error.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.problem import ClientProblem
from tacit.graph_learning.triangle import to_matrix, to_triangle

_MOST = 200  # Newton steps; ten to twenty are usual
_AT_ONCE = 1 << 24  # numbers in a batch of matrices
_EPS = torch.finfo(torch.float64).eps
_LOOSE = 1e-4  # the largest error that rounding excuses


class Solution(NamedTuple):
    """Graphs (n, p), dual variables u (n, d) to start the next solution from, and the proven relative errors (n,)."""

    w: Tensor
    u: Tensor
    error: Tensor


def solve(problem: ClientProblem, start: Tensor | None = None, tolerance: float = 1e-9) -> Solution:
    """Solve problem (9) of every client; `start` are dual variables of a problem like it."""
    c = problem.z - problem.pull[:, None] * problem.con
    d, rows = problem.d, max(1, _AT_ONCE // problem.d**2)
    u = initial_dual(problem, c) if start is None else start
    parts = [
        _newton(
            c[i : i + rows], u[i : i + rows], problem.kappa[i : i + rows], problem.alpha, problem.zeta, d, tolerance
        )
        for i in range(0, len(c), rows)
    ]
    return Solution(*(torch.cat(each) for each in zip(*parts, strict=True)))


def initial_dual(problem: ClientProblem, c: Tensor) -> Tensor:
    """Where all c_ij are the client's median one, u is the positive root of 2 (d − 1) u² − (d − 1) c u = α κ."""
    middle = c.median(1).values / 2
    root = (middle + (middle.square() + 2 * problem.alpha * problem.kappa / (problem.d - 1)).sqrt()) / 2
    return root[:, None].expand(-1, problem.d).clone()


def _newton(
    c: Tensor, u: Tensor, kappa: Tensor, alpha: float, zeta: float, d: int, tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    square = to_matrix(c, d, diagonal=torch.inf)
    k = kappa[:, None]
    for _ in range(_MOST):
        excess = (u[:, :, None] + u[:, None, :]).sub_(square).clamp_(min=0)  # κ W
        degree = excess.sum(2) / k
        error, least = _error(u, degree, excess, square, kappa, alpha, zeta)
        done = error <= least.clamp(min=tolerance, max=max(tolerance, _LOOSE))
        if bool(done.all()):
            break
        active = (excess > 0).to(u.dtype)
        slope = degree + zeta - alpha / u  # of the dual, its sign turned: we minimise
        active.diagonal(dim1=1, dim2=2).add_(active.sum(2) + k * alpha / u.square())
        factor, failed = torch.linalg.cholesky_ex(active)
        if bool(failed.any()):
            raise TacitError("a graph could not be computed: beta is too small for these signals")
        step = torch.cholesky_solve((k * slope)[:, :, None], factor)[:, :, 0].neg_()
        u = torch.where(done[:, None], u, _searched(square, u, step, slope, excess, k, alpha, zeta))
    else:
        raise TacitError(
            f"a graph could not be computed to a relative error of {tolerance:g} in {_MOST} Newton steps: "
            "beta is too small for these signals"
        )
    return to_triangle(excess).div_(k), u, error


def _error(
    u: Tensor, degree: Tensor, excess: Tensor, square: Tensor, kappa: Tensor, alpha: float, zeta: float
) -> tuple[Tensor, Tensor]:
    """The bound √(2 gap/κ) ÷ ‖w‖, and what rounding makes of it where the gap is none: κ w_ij = u_i + u_j − c_ij."""
    x = u * (degree + zeta) / alpha - 1
    size = (excess.square().sum((1, 2)).div(2).sqrt() / kappa).clamp(min=1e-300)
    terms = torch.where(excess > 0, square.abs(), 0.0).sum(2) + 2 * u.amax(1, keepdim=True) * (excess > 0).sum(2)
    blurred = _EPS * (4 + u * terms / (kappa[:, None] * alpha))

    def bound(gap: Tensor) -> Tensor:
        return (2 * alpha * gap / kappa).sqrt() / size

    return bound((x - torch.log1p(x)).clamp_(min=0).sum(1)), bound(blurred.square().sum(1))


def _searched(
    square: Tensor, u: Tensor, step: Tensor, slope: Tensor, excess: Tensor, k: Tensor, alpha: float, zeta: float
) -> Tensor:
    """u + s · step with s halved, client by client, until u stays positive and the dual falls enough.

    It has fallen where it still falls at the end of the step, for it is convex: that holds where its values, large and
    nearly alike, cannot be told apart.
    """

    def value(u: Tensor, excess: Tensor) -> Tensor:
        return excess.square().sum((1, 2)).div_(4)[:, None] / k + (zeta * u - alpha * u.log()).sum(1, keepdim=True)

    inside = (-u / step).masked_fill(step >= 0, torch.inf).amin(1, keepdim=True)
    length = (0.95 * inside).clamp(max=1.0)
    now, falls = value(u, excess), (slope * step).sum(1, keepdim=True)
    for _ in range(40):
        tried = u + length * step
        after = (tried[:, :, None] + tried[:, None, :]).sub_(square).clamp_(min=0)
        still = ((after.sum(2) / k + zeta - alpha / tried) * step).sum(1, keepdim=True)
        enough = (value(tried, after) <= now + 1e-4 * length * falls) | (still <= -1e-3 * falls)
        if bool(enough.all()):
            break
        length = torch.where(enough, length, length / 2)
    return tried
