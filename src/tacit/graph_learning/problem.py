"""The problem of one client (Zhang, Eq. 9): the graph that fits its signals, near a consensus.

    min over w ≥ 0 of   z̄ᵀw − α 1ᵀ log(S w + ζ) + 2β ‖w‖² + ργ/2 ‖w − w_con‖²

Everything has a row a client; κ = 4β + ργ is how strongly convex it is.

**The step.** On all of w ≥ 0 the gradient has Lipschitz constant κ + 2α (d − 1)/ζ² (Proposition 1), useless for a
small ζ, and a momentum step can leave w ≥ 0, where the logarithm may not exist at all. But no minimiser has small
degrees. Its optimality conditions say u_i + u_j ≤ z_ij + κ w_ij − ργ w_con,ij for every pair, with u = α / (S w + ζ).
Drop u_j ≥ 0 and the last term, and take the mean over j: α / (x_i + ζ) ≤ z_i + κ x_i / (d − 1), with x_i the degree
of i and z_i the mean of the z_ij, or anything above it. So x_i is at least the positive root m_i of (x + ζ)(z_i + κ
x/(d − 1)) = α: its `floor`. Below it we continue −log by its parabola. The minimiser stays where it is, the function
is convex everywhere, and its gradient has the constant L = κ + 2α (d − 1)/(m + ζ)², m the least floor, everywhere.
Nor does a gradient step of length 1/L lead from degrees above the floor to degrees below: there the parabola is never
seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.graph_learning.triangle import degrees, pair_sums, vertex_count


@dataclass(frozen=True)
class ClientProblem:
    """Problem (9) of every client: z (n, p), the pull ργ (n,) towards con (p,), and the floor of the degrees (n, d)."""

    z: Tensor
    alpha: float
    beta: float
    zeta: float
    pull: Tensor
    con: Tensor
    floor: Tensor

    @property
    def d(self) -> int:
        return vertex_count(self.z.shape[1])

    @property
    def kappa(self) -> Tensor:
        """κ (n,)."""
        return 4 * self.beta + self.pull

    @property
    def lipschitz(self) -> Tensor:
        """L (n,)."""
        least = self.floor.amin(1) + self.zeta
        return self.kappa + 2 * self.alpha * (self.d - 1) / least.square()

    def gradient(self, w: Tensor) -> Tensor:
        """z̄ − α Sᵀ(1/(S w + ζ)) + 4β w + ργ (w − w_con)."""
        slope = self.z + self.kappa[:, None] * w
        slope.sub_(self.pull[:, None] * self.con)
        return slope.sub_(pair_sums(self._pressure(degrees(w, self.d))))

    def objective(self, w: Tensor) -> Tensor:
        """f_i(w, w_con) of every client (n,); infinite where a degree makes the logarithm so."""
        logs = torch.log(degrees(w, self.d) + self.zeta).sum(1)
        near = self.pull / 2 * (w - self.con).square().sum(1)
        return (self.z * w).sum(1) - self.alpha * logs + 2 * self.beta * w.square().sum(1) + near

    def residual(self, w: Tensor) -> Tensor:
        """‖w − Proj(w − ∇f(w)/κ)‖ ÷ ‖w‖ (n,): 0 at the minimiser and nowhere else."""
        moved = (w - self.gradient(w) / self.kappa[:, None]).clamp_(min=0)
        distance: Tensor = (moved - w).norm(dim=1) / w.norm(dim=1).clamp(min=1e-300)
        return distance

    def _pressure(self, x: Tensor) -> Tensor:
        """u = α / (x + ζ), continued by its tangent below the floor."""
        above = torch.maximum(x, self.floor) + self.zeta
        return self.alpha / above + self.alpha * (self.floor - x).clamp_(min=0) / above.square()


def floors(row: Tensor, alpha: float, kappa: Tensor, zeta: float, d: int) -> Tensor:
    """m: the root of (x + ζ)(z_i + κ x/(d − 1)) = α, or 0 where ζ alone is enough; `row` are the z_i (n, d).

    z_i below 0, which only noise makes, count as 0: the bound then holds a fortiori.
    """
    a = (kappa / (d - 1))[:, None]
    z = row.clamp(min=0)
    b, c = z + a * zeta, z * zeta - alpha
    # The root without cancellation: 2c / (−b − √…).
    return (2 * c / (-b - (b.square() - 4 * a * c).clamp(min=0).sqrt())).clamp(min=0)


def row_means(z: Tensor) -> Tensor:
    """The mean of z over the pairs of every vertex, (n, d)."""
    d = vertex_count(z.shape[-1])
    return degrees(z, d) / (d - 1)
