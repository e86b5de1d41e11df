"""The problem of one client (Zhang et al., Eq. 9): fit a graph to the client's signals, close to a consensus graph.

    min over w ≥ 0 of   z̄ᵀw − α 1ᵀ log(S w + ζ) + 2β ‖w‖² + ργ/2 ‖w − w_con‖²

All quantities have one row per client. The objective is κ-strongly convex with κ = 4β + ργ.

**Step size.** On w ≥ 0 the gradient has the Lipschitz constant κ + 2α (d − 1)/ζ² (Proposition 1). For a small ζ this
is too large to be useful, and a momentum step can leave w ≥ 0, where the logarithm may be undefined. But a minimiser
has no small degrees. Its optimality conditions are u_i + u_j ≤ z_ij + κ w_ij − ργ w_con,ij for every pair, with
u = α / (S w + ζ). Drop u_j ≥ 0 and the last term, and average over j:

    α / (x_i + ζ) ≤ z_i + κ x_i / (d − 1)

where x_i is the degree of vertex i and z_i is the mean of the z_ij, or any upper bound on it. Hence x_i is at least the
positive root m_i of (x + ζ)(z_i + κ x/(d − 1)) = α, called its `floor`. Below the floor, −log is continued by its
second-order Taylor polynomial. This does not move the minimiser, the function is convex everywhere, and its gradient
has the Lipschitz constant L = κ + 2α (d − 1)/(m + ζ)² everywhere, where m is the smallest floor. A gradient step of
length 1/L also never leads from degrees above the floor to degrees below it, so plain descent never uses the
continuation.

**Rounding.** Let A be the sum of the norms of the parts of ∇f(0): ‖z̄‖, ργ ‖w_con‖ and α ‖Sᵀ(1/(S 0 + ζ))‖, continued.
No part of ∇f(w) is longer than A + L ‖w‖. The degrees are sums of d − 1 weights, whose rounding error the rest of the
gradient multiplies by at most L, and at most 12 other operations follow one another. So the computed gradient differs
from the exact one by at most (d + 16) u (A + L ‖w‖), u = 2⁻⁵³ (`gradient_rounding`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tacit.graph_learning.triangle import degrees, pair_sums, vertex_count

UNIT_ROUNDOFF = torch.finfo(torch.float64).eps / 2  # u


@dataclass(frozen=True)
class ClientProblem:
    """Problem (9) of every hosted client.

    Attributes:
        z: The mean squared differences z̄ of the signals, (n, p).
        alpha: α, the weight of the log-degree term.
        beta: β, the weight of the squared weights.
        zeta: ζ, the offset inside the logarithm.
        pull: ργ, the weight of the distance to the consensus, (n,).
        con: The consensus w_con, (p,).
        floor: The lower bound on the degrees of a minimiser, (n, d).
    """

    z: Tensor
    alpha: float
    beta: float
    zeta: float
    pull: Tensor
    con: Tensor
    floor: Tensor

    @property
    def d(self) -> int:
        """The number of vertices."""
        return vertex_count(self.z.shape[1])

    @property
    def kappa(self) -> Tensor:
        """κ = 4β + ργ, the modulus of strong convexity, (n,)."""
        return 4 * self.beta + self.pull

    @property
    def lipschitz(self) -> Tensor:
        """L, the Lipschitz constant of the gradient, (n,). It is rounded up."""
        least = self.floor.amin(1) + self.zeta
        exact = self.kappa + 2 * self.alpha * (self.d - 1) / least.square()
        return exact * (1 + 16 * UNIT_ROUNDOFF)

    def gradient(self, w: Tensor) -> Tensor:
        """Return z̄ − α Sᵀ(1/(S w + ζ)) + 4β w + ργ (w − w_con), (n, p)."""
        slope = self.z + self.kappa[:, None] * w
        slope.sub_(self.pull[:, None] * self.con)
        return slope.sub_(pair_sums(self._dual(degrees(w, self.d))))

    def gradient_bound(self, z_bound: float) -> Tensor:
        """Return A, a bound on the parts of the gradient at w = 0 for every ‖z̄‖ ≤ `z_bound`, (n,)."""
        log_part = pair_sums(self._dual(torch.zeros_like(self.floor))).norm(dim=1)
        bound: Tensor = z_bound + self.pull * self.con.norm() + log_part
        return bound

    def gradient_rounding(self, z_bound: float, size: Tensor) -> Tensor:
        """Return a bound on the rounding error of `gradient` at ‖w‖ ≤ `size` (n,), for every ‖z̄‖ ≤ `z_bound`, (n,)."""
        return (self.d + 16) * UNIT_ROUNDOFF * (self.gradient_bound(z_bound) + self.lipschitz * size)

    def rows(self, chosen: Tensor) -> ClientProblem:
        """Return the problems of some clients."""
        return replace(self, z=self.z[chosen], pull=self.pull[chosen], floor=self.floor[chosen])

    def objective(self, w: Tensor) -> Tensor:
        """Return f_i(w, w_con) of every client, (n,). Infinite if a degree makes the logarithm infinite."""
        logs = torch.log(degrees(w, self.d) + self.zeta).sum(1)
        near = self.pull / 2 * (w - self.con).square().sum(1)
        return (self.z * w).sum(1) - self.alpha * logs + 2 * self.beta * w.square().sum(1) + near

    def residual(self, w: Tensor) -> Tensor:
        """Return ‖w − Proj(w − ∇f(w)/κ)‖ ÷ ‖w‖, (n,). It is 0 at the minimiser only."""
        moved = (w - self.gradient(w) / self.kappa[:, None]).clamp_(min=0)
        distance: Tensor = (moved - w).norm(dim=1) / w.norm(dim=1).clamp(min=1e-300)
        return distance

    def _dual(self, x: Tensor) -> Tensor:
        """u = α / (x + ζ) of the degrees x, continued by its tangent below the floor."""
        above = torch.maximum(x, self.floor) + self.zeta
        return self.alpha / above + self.alpha * (self.floor - x).clamp_(min=0) / above.square()


def floors(row: Tensor, alpha: float, kappa: Tensor, zeta: float, d: int) -> Tensor:
    """Return m, the positive root of (x + ζ)(z_i + κ x/(d − 1)) = α, or 0 if there is none, (n, d).

    Args:
        row: The row means z_i (n, d). Negative values, which only noise produces, count as 0; the bound then holds too.
        alpha: α.
        kappa: κ, (n,).
        zeta: ζ.
        d: The number of vertices.
    """
    a = (kappa / (d - 1))[:, None]
    z = row.clamp(min=0)
    b, c = z + a * zeta, z * zeta - alpha
    # This form of the root, 2c / (−b − √(b² − 4ac)), avoids cancellation.
    return (2 * c / (-b - (b.square() - 4 * a * c).clamp(min=0).sqrt())).clamp(min=0)


def row_means(z: Tensor) -> Tensor:
    """Return the mean of z over the d − 1 pairs of every vertex, (n, d)."""
    d = vertex_count(z.shape[-1])
    return degrees(z, d) / (d - 1)
