"""Which β, ρ and λ: by grid search against a score, as in the paper, or from the data alone.

Without a truth to score against, the data say this much. β sets how many edges there are: it is chosen so that vertices
have `neighbours` of them on average, by default 4/3 log₂ d, few enough to be read and enough to hold together. ρ is
measured in differences between clients, ρ = 0.2 · median ‖z_i − mean z‖ over the pairs that are edges, so that what is
shared comes together and what differs stays apart. λ = ρ I/(4 √edges) takes off the consensus what about half of the
clients have. The factors did well on random graphs of all three kinds, of 20 and 40 vertices, with 20 to 200 signals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.method import GraphMethod
from tacit.graph_learning.metrics import scores
from tacit.graph_learning.ppgl import PPGL
from tacit.graph_learning.problem import ClientProblem, floors, row_means
from tacit.graph_learning.run import GraphLearningRun
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.solver import Solution, solve
from tacit.graph_learning.triangle import vertex_count
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy.ledger import Array
from tacit.runs.progress import counting

Scorer = Callable[[Array, Array | None], float]
M = TypeVar("M", bound=GraphMethod[Any])
_PULL, _SPARE = 0.2, 0.5
_LEAST, _ASKED, _GREATEST = 1e-3, 1e-6, 1e6  # of β in units of z²; less than usual only where few are asked for
_NEAR, _MOST = 0.03, 30  # the search for β ends this near in the logarithm, or after so many tries


class ProblemParameters(NamedTuple):
    """β, ρ and λ of problem (8), and ζ and ε_γ, small in the units of the signals."""

    beta: float
    rho: float
    lam: float
    zeta: float
    gamma_epsilon: float


class SearchResult(NamedTuple):
    """The best method of a search, its score, a row a point (its parameters and score), and the z all learned from."""

    best: GraphMethod[Any]
    score: float
    rows: list[dict[str, float]]
    z: Tensor | None


def default_parameters(z: Tensor, *, alpha: float = 1.0, neighbours: float | None = None) -> ProblemParameters:
    """Parameters from the clients' z (n, p) alone: where those were released with noise, this costs no privacy.

    >>> from tacit.graph_learning import Signals, synthetic
    >>> z = Signals(synthetic.rbf(seed=0).signals).mean(0).use_locally()
    >>> beta, rho, lam, *_ = default_parameters(z)
    >>> again = default_parameters(3 * z)  # in other units
    >>> round(again.beta / beta, 2), round(again.rho / rho, 2), round(again.lam / lam, 2)
    (9.0, 3.0, 3.0)
    """
    d = vertex_count(z.shape[1])
    check_neighbours(neighbours, d)
    wanted = 4 / 3 * math.log2(d) if neighbours is None else neighbours
    unit = float(z.abs().mean())
    if unit == 0:
        raise TacitError("the noise has drowned the signals, nothing of them is left: take a larger ε, or more signals")
    zeta = 1e-3 * alpha / unit

    def graphs(at: float, like: Solution | None) -> Solution:
        return alone(z, alpha, math.exp(at) * unit**2 / alpha, zeta, 1e-4, like)

    at, found = _sought(graphs, wanted * len(z) * d / 2, math.log(_LEAST if neighbours is None else _ASKED))
    edges = found.w > 0
    apart = ((z - z.mean(0)) * edges).norm(dim=1).median() if len(z) > 1 else z.norm()
    rho = max(_PULL * float(apart), 1e-9 * unit)
    lam = _SPARE * rho * len(z) / 2 / math.sqrt(max(float(edges.sum()) / len(z), 1.0))
    beta = math.exp(at) * unit**2 / alpha
    return ProblemParameters(beta, rho, lam, zeta, 1e-2 * alpha / unit)


def check_neighbours(neighbours: float | None, d: int) -> None:
    if neighbours is not None and not 0 < neighbours < d:
        raise TacitError(f"neighbours must be above 0 and below the {d} vertices, not {neighbours}")


def _sought(
    graphs: Callable[[float, Solution | None], Solution], wanted: float, least: float
) -> tuple[float, Solution]:
    """The log β, in units of z², at which there are about so many edges: their number grows with β about as a power."""
    at, stride = math.log(1e-2), 1.5
    low: tuple[float, float] | None = None
    high: tuple[float, float] | None = None
    found = None
    for _ in range(_MOST):
        found = graphs(at, found)
        excess = math.log(max(float((found.w > 0).sum()), 0.5) / wanted)
        if abs(excess) < _NEAR or (low is not None and high is not None and high[0] - low[0] < _NEAR):
            break
        if excess < 0:
            low = (at, excess)
        else:
            high = (at, excess)
        if low is None or high is None:
            beyond = at + (stride if excess < 0 else -stride)
            if not least <= beyond <= math.log(_GREATEST):  # where noise alone makes more edges, or none
                break
            at = beyond
        else:
            share = low[1] / (low[1] - high[1])
            at = low[0] + min(max(share, 0.1), 0.9) * (high[0] - low[0])
    assert found is not None
    return at, found


def alone(
    z: Tensor, alpha: float, beta: float, zeta: float, tolerance: float = 1e-9, like: Solution | None = None
) -> Solution:
    """The graphs of problem (7), each client by itself; the solution of one `like` it makes it quicker."""
    d, nothing = vertex_count(z.shape[1]), z.new_zeros(len(z))
    floor = floors(row_means(z), alpha, nothing + 4 * beta, zeta, d)
    problem = ClientProblem(z, alpha, beta, zeta, nothing, z.new_zeros(z.shape[1]), floor)
    return solve(problem, None if like is None else like.u, tolerance)


def f1_against(truth: Array, what: str = "graphs", threshold: float = 1e-4) -> Scorer:
    """The score of a search: F1 of the clients' graphs, or of the consensus, against the truth."""

    def score(graphs: Array, consensus: Array | None) -> float:
        learned = graphs if what == "graphs" else consensus
        if learned is None:
            raise TacitError("a method without consensus cannot be scored by its consensus")
        return scores(learned, truth, threshold).f1

    return score


def grid_search(
    task: Signals,
    method: GraphMethod[Any],
    score: Scorer,
    *,
    tolerance: float = 1e-4,
    progress: bool = False,
    z: Tensor | None = None,
    **grid: Sequence[float] | Array,
) -> SearchResult:
    """Try `method` at every point of a grid of its parameters, such as beta=[…], rho=[…], and keep the best.

    Where z̄ was released once, all points learn from that release, and the search costs no more: `z` is it, where it was
    made before. Where each round releases, every point would be a run that counts: only simulations are searched so.

    >>> from tacit.graph_learning import IGL, Signals, synthetic
    >>> data = synthetic.rbf(seed=0)
    >>> found = grid_search(Signals(data.signals), IGL(), f1_against(data.graphs), beta=[0.005, 0.02, 0.1])
    >>> len(found.rows), 0.6 < found.score < 0.9
    (3, True)
    """
    wrong = [key for key in grid if not hasattr(method, key)]
    if wrong or not grid:
        raise TacitError(f"{method.title} has no parameter {wrong[0]} to search" if wrong else "the grid is empty")
    points: list[dict[str, Any]] = [
        dict(zip(grid, map(float, values), strict=True)) for values in product(*grid.values())
    ]
    if method.noise_in_rounds and not task.noise.simulated:
        raise TacitError(
            'with noise in every round each point of a search would cost as much as the run: use release = "once", '
            "or search on data of your own making"
        )
    if z is None and not method.noise_in_rounds:
        z = method.prepare_z(task)
    network, rows, best = complete(task.n), [], None
    with _counting(f"points for {method.title}", len(points), progress) as tell:
        for point in points:
            tried = replace(method, **point)
            learning = GraphLearningRun(
                task.with_new_ledger(), tried, Simulated(network), tolerance=tolerance, z=z, quiet=True
            ).go()
            consensus = learning.consensus
            reached = score(learning.graphs.numpy(), None if consensus is None else consensus.numpy())
            rows.append({**point, "score": reached})
            best = (reached, tried) if best is None or reached > best[0] else best
            tell(", ".join(f"{key} {value:.3g}" for key, value in rows[-1].items()))
    assert best is not None
    return SearchResult(best[1], best[0], rows, z)


def paper_grid_search(
    task: Signals,
    method: PPGL,
    truth: Array,
    *,
    betas: Sequence[float] | Array,
    rhos: Sequence[float] | Array,
    lams: Sequence[float] | Array,
    score: Scorer | None = None,
    progress: bool = False,
) -> SearchResult:
    """As in the paper (V-A.5): β with the best F1 of IGL, then ρ and λ with the best F1 of PPGL, from one release."""
    from tacit.graph_learning.baselines import IGL

    shared = {key: getattr(method, key) for key in ("alpha", "zeta", "K", "step", "momentum", "initial")}
    if method.noise_in_rounds:
        raise TacitError('IGL has no rounds to put noise in, so β cannot be found by it: use release = "once"')
    alone = IGL(rounds=method.rounds, noise=method.noise, **shared)
    first = grid_search(task, alone, f1_against(truth), beta=betas, progress=progress)
    method = replace(method, beta=first.best.beta)
    return grid_search(task, method, score or f1_against(truth), rho=rhos, lam=lams, progress=progress, z=first.z)


@contextmanager
def _counting(what: str, total: int, progress: bool) -> Iterator[Callable[[str], None]]:
    if not progress:
        yield lambda line: None
        return
    with counting(what, total, 0) as tell:
        yield tell


def with_defaults(method: M, z: Tensor, missing: Sequence[str], neighbours: float | None = None) -> M:
    """The method with those parameters that are missing chosen from z."""
    if not missing:
        return method
    found = default_parameters(z, alpha=method.alpha, neighbours=neighbours)._asdict()
    return replace(method, **{key: found[key] for key in missing})
