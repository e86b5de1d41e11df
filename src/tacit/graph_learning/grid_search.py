"""Grid search for β, ρ and λ against a score, as in the paper. It needs the true graphs, or another score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import Any, Literal, NamedTuple

from torch import Tensor

from tacit.errors import TacitError
from tacit.graph_learning.igl import IGL
from tacit.graph_learning.method import GraphMethod
from tacit.graph_learning.ppgl import PPGL
from tacit.graph_learning.records import reserve_signals
from tacit.graph_learning.run import GraphLearningRun
from tacit.graph_learning.scores import edge_scores
from tacit.graph_learning.signals import Signals
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Array
from tacit.runs import ProgressCounter

_DELTA = 1e-5  # of the total of all runs on these signals, unless a run states another

Scorer = Callable[[Array, Array | None], float]
"""Computes the score of the clients' graphs (n, p) and the consensus (p,), which is None for some methods."""


class SearchResult(NamedTuple):
    """The result of a grid search.

    Attributes:
        best: The method with the best parameters.
        score: Its score.
        rows: One row per grid point: its parameters and its score.
        z: The z that all grid points used, or None if each had its own.
    """

    best: GraphMethod[Any]
    score: float
    rows: list[dict[str, float]]
    z: Tensor | None


def f1_against(truth: Array, what: Literal["graphs", "consensus"] = "graphs", threshold: float = 1e-4) -> Scorer:
    """Return a scorer that computes the F1 score of the clients' graphs, or of the consensus, against the truth."""

    def score(graphs: Array, consensus: Array | None) -> float:
        learned = graphs if what == "graphs" else consensus
        if learned is None:
            raise TacitError('This method has no consensus to score: use what="graphs"')
        return edge_scores(learned, truth, threshold).f1

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
    """Run `method` at every point of a grid of its parameters and return the best.

    Args:
        task: The clients' signals.
        method: The method whose parameters vary.
        score: The score to maximise.
        tolerance: The tolerance of each run.
        progress: Whether to show a progress bar on standard error.
        z: The released z̄, if it was released before.
        grid: The values of each parameter, such as beta=[…], rho=[…].

    Raises:
        TacitError: If the method has no such parameter, or if the search would need real releases in every round.

    Privacy:
        With `release="once"` all points use the same release, so the search costs no more than one run. With
        `release="rounds"` every point is a run with its own cost. Such a search is allowed in simulations only.

    Example:
        >>> from tacit.graph_learning import IGL, Signals, synthetic
        >>> data = synthetic.rbf(seed=0)
        >>> found = grid_search(Signals(data.signals), IGL(), f1_against(data.graphs), beta=[0.005, 0.02, 0.1])
        >>> len(found.rows), 0.6 < found.score < 0.9
        (3, True)
    """
    _check_grid(method, task, grid)
    points: list[dict[str, Any]] = [
        dict(zip(grid, map(float, values), strict=True)) for values in product(*grid.values())
    ]
    if z is None and not method.noise_in_rounds:
        if method.noise is not None:
            reserve_signals(task, method, _DELTA)
        z = method.prepare_z(task)
    rows: list[dict[str, float]] = []
    best: tuple[float, GraphMethod[Any]] | None = None
    with _progress(f"points for {method.title}", len(points), progress) as report:
        for point in points:
            tried = replace(method, **point)
            value = _score_of(tried, task, score, tolerance, z)
            rows.append({**point, "score": value})
            best = (value, tried) if best is None or value > best[0] else best
            report(", ".join(f"{key} {value:.3g}" for key, value in rows[-1].items()))
    assert best is not None
    return SearchResult(best[1], best[0], rows, z)


def _check_grid(method: GraphMethod[Any], task: Signals, grid: Mapping[str, object]) -> None:
    wrong = [key for key in grid if not hasattr(method, key)]
    if wrong:
        raise TacitError(f"{method.title} has no parameter {wrong[0]} to search")
    if not grid:
        raise TacitError("The grid is empty: give the values of at least one parameter, such as beta=[0.01, 0.1]")
    if method.noise_in_rounds and not task.noise.simulated:
        raise TacitError(
            "With noise in every round, each point of a grid search costs as much privacy as a run: "
            'use release="once", or search on synthetic data'
        )


def _score_of(method: GraphMethod[Any], task: Signals, score: Scorer, tolerance: float, z: Tensor | None) -> float:
    """Run the method with a new ledger and return its score."""
    network = Simulated(complete(task.n))
    run = GraphLearningRun(task.with_new_ledger(), method, network, tolerance=tolerance, z=z, quiet=True).go()
    return score(run.graphs.numpy(), None if run.consensus is None else run.consensus.numpy())


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
    """Search as in the paper (V-A.5): first β with the best F1 of IGL, then ρ and λ with the best F1 of PPGL.

    Both searches use one release. `score` replaces the F1 score of the clients' graphs in the second search.
    """
    shared = {key: getattr(method, key) for key in ("alpha", "zeta", "K", "step", "momentum", "initial")}
    if method.noise_in_rounds:
        raise TacitError('The paper\'s search for β uses IGL, which has no rounds to add noise in: use release="once"')
    independent = IGL(rounds=method.rounds, noise=method.noise, **shared)
    first = grid_search(task, independent, f1_against(truth), beta=betas, progress=progress)
    method = replace(method, beta=first.best.beta)
    return grid_search(task, method, score or f1_against(truth), rho=rhos, lam=lams, progress=progress, z=first.z)


@contextmanager
def _progress(what: str, total: int, enabled: bool) -> Iterator[Callable[[str], None]]:
    """A progress bar, or, if it is not enabled, a function that does nothing."""
    if not enabled:
        yield lambda line: None
        return
    with ProgressCounter(what, total, 0) as report:
        yield report
