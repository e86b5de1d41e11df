"""Default values of β, ρ and λ, chosen from the clients' z alone: no true graph is needed.

- β sets the number of edges. It is chosen so that vertices have `neighbours` edges on average, by default 4/3 log₂ d:
  few enough to read, enough to be connected.
- ρ = 0.2 · median ‖z_i − mean z‖ over the pairs that are edges. In these units, common parts of the clients' graphs
  agree and different parts stay apart.
- λ = ρ I/(4 √edges) removes from the consensus the edges that fewer than about half of the clients have.

The factors did well on RBF, Erdős–Rényi and Barabási–Albert graphs of 20 and 40 vertices with 20 to 200 signals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.method import GraphMethod
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graph_learning.solver import Solution, solve
from tacit.graph_learning.triangle import vertex_count

M = TypeVar("M", bound=GraphMethod[Any])
_RHO_FACTOR, _LAM_FACTOR = 0.2, 0.5
# Limits of β in units of z²/α. The smallest one applies only if `neighbours` is given, which can ask for few edges.
_MIN_BETA, _MIN_BETA_GIVEN_NEIGHBOURS, _MAX_BETA = 1e-3, 1e-6, 1e6
_LOG_TOLERANCE, _MAX_TRIALS = 0.03, 30  # the search for log β stops at this accuracy or after this many trials


class ProblemParameters(NamedTuple):
    """β, ρ and λ of problem (8), and ζ and ε_γ, which are small in the units of the signals."""

    beta: float
    rho: float
    lam: float
    zeta: float
    gamma_epsilon: float


def default_parameters(z: Tensor, *, alpha: float = 1.0, neighbours: float | None = None) -> ProblemParameters:
    """Return parameters chosen from z.

    Args:
        z: The clients' mean squared differences, (n, p). If they were released with noise, this costs no more privacy.
        alpha: α.
        neighbours: The mean number of edges per vertex; by default 4/3 log₂ d.

    Raises:
        TacitError: If `neighbours` is out of range, or if z is 0 because the noise exceeds the signals.

    Example:
        >>> from tacit.graph_learning import Signals, synthetic
        >>> z = Signals(synthetic.rbf(seed=0).signals).mean(0).use_locally()
        >>> beta, rho, lam, *_ = default_parameters(z)
        >>> scaled = default_parameters(3 * z)  # in other units
        >>> round(scaled.beta / beta, 2), round(scaled.rho / rho, 2), round(scaled.lam / lam, 2)
        (9.0, 3.0, 3.0)
    """
    d = vertex_count(z.shape[1])
    check_neighbours(neighbours, d)
    wanted = 4 / 3 * math.log2(d) if neighbours is None else neighbours
    unit = float(z.abs().mean())
    if unit == 0:
        raise TacitError("The noise hides the signals completely: use a larger epsilon or more signals")
    zeta = 1e-3 * alpha / unit

    def graphs(log_beta: float, start: Solution | None) -> Solution:
        return solve_separately(z, alpha, math.exp(log_beta) * unit**2 / alpha, zeta, 1e-4, start)

    smallest = math.log(_MIN_BETA if neighbours is None else _MIN_BETA_GIVEN_NEIGHBOURS)
    log_beta, found = _search_log_beta(graphs, wanted * len(z) * d / 2, smallest)
    edges = found.w > 0
    apart = ((z - z.mean(0)) * edges).norm(dim=1).median() if len(z) > 1 else z.norm()
    rho = max(_RHO_FACTOR * float(apart), 1e-9 * unit)
    lam = _LAM_FACTOR * rho * len(z) / 2 / math.sqrt(max(float(edges.sum()) / len(z), 1.0))
    beta = math.exp(log_beta) * unit**2 / alpha
    return ProblemParameters(beta, rho, lam, zeta, 1e-2 * alpha / unit)


def check_neighbours(neighbours: float | None, d: int) -> None:
    """Raise a `TacitError` if a graph of d vertices cannot have `neighbours` edges per vertex."""
    if neighbours is not None and not 0 < neighbours < d:
        raise TacitError(
            f"neighbours must be greater than 0 and less than {d}, the number of vertices, got {neighbours}"
        )


def with_defaults(method: M, z: Tensor, missing: Sequence[str], neighbours: float | None = None) -> M:
    """Return the method with the missing parameters chosen from z."""
    if not missing:
        return method
    found = default_parameters(z, alpha=method.alpha, neighbours=neighbours)._asdict()
    return replace(method, **{key: found[key] for key in missing})


def solve_separately(
    z: Tensor, alpha: float, beta: float, zeta: float, tolerance: float = 1e-9, start: Solution | None = None
) -> Solution:
    """Solve problem (7): each client by itself. The solution of a similar problem as `start` saves time."""
    d, zeros = vertex_count(z.shape[1]), z.new_zeros(len(z))
    floor = floors(row_means(z), alpha, zeros + 4 * beta, zeta, d)
    problem = ClientProblem(z, alpha, beta, zeta, zeros, z.new_zeros(z.shape[1]), floor)
    return solve(problem, None if start is None else start.u, tolerance)


def _search_log_beta(
    graphs: Callable[[float, Solution | None], Solution], wanted: float, smallest: float
) -> tuple[float, Solution]:
    """Return the log β, in units of z²/α, at which there are about `wanted` edges, and the graphs there.

    The number of edges grows with β roughly as a power, so the search interpolates in logarithms.
    """
    log_beta, stride = math.log(1e-2), 1.5
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    found = None
    for _ in range(_MAX_TRIALS):
        found = graphs(log_beta, found)
        excess = math.log(max(float((found.w > 0).sum()), 0.5) / wanted)
        if abs(excess) < _LOG_TOLERANCE or (low is not None and high is not None and high[0] - low[0] < _LOG_TOLERANCE):
            break
        if excess < 0:
            low = (log_beta, excess)
        else:
            high = (log_beta, excess)
        if low is None or high is None:
            following = log_beta + (stride if excess < 0 else -stride)
            if not smallest <= following <= math.log(_MAX_BETA):  # beyond, noise alone determines the edges
                break
            log_beta = following
        else:
            share = low[1] / (low[1] - high[1])
            log_beta = low[0] + min(max(share, 0.1), 0.9) * (high[0] - low[0])
    assert found is not None
    return log_beta, found
