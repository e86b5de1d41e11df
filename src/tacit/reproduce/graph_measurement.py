"""Run a graph learning experiment: search the parameters on some instances, learn and score graphs on another."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.graph_learning import GraphLearningRun, GraphObserver, Signals, data, matrices, scores, synthetic
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Array, Noise
from tacit.reproduce.graph_study import GraphStudy, LearnerSettings

GraphScorer = Callable[[GraphLearningRun, LearnerSettings, float], dict[str, float]]
_FIRST_SEARCH_SEED = 10_000  # seeds of the instances for the parameter search start here
_SEARCH_TOLERANCE, _MEASUREMENT_TOLERANCE = 1e-2, 1e-4
_SYNTHETIC: dict[str, Callable[..., synthetic.Synthetic]] = {
    "rbf": synthetic.rbf,
    "erdos-renyi": synthetic.erdos_renyi,
    "barabasi-albert": synthetic.barabasi_albert,
}
_MASKS, _MASKED_VERTICES = 10, 7  # number of random masks, and vertices of ABIDE's 34 that each hides


class GridPoint(NamedTuple):
    """Parameters of a method, and the edge threshold relative to the largest weight."""

    beta: float
    rho: float
    lam: float
    threshold: float


@dataclass(frozen=True)
class StudyInstance:
    """Signals, and the function that scores the graphs learned from them."""

    signals: list[Array]
    score: GraphScorer


def measure_study(study: GraphStudy) -> dict[str, Any]:
    """Run a study. Return its scores, the errors per round, the privacy statement and the chosen parameters."""
    began = time.monotonic()
    result: dict[str, Any] = {"scores": None, "history": [], "error": None}
    point = _best_point(study)
    instance = make_instance(study, study.seed)
    errors = ErrorHistory(study, instance)
    run = _new_run(study, point, instance, study.seed, _MEASUREMENT_TOLERANCE, errors)
    result["history"] = errors.rows
    try:
        run.go()
        result["scores"] = instance.score(run, study.learner, point.threshold)
    except TacitError as failure:
        result["error"] = str(failure)
    return {
        **result,
        "privacy": run.privacy.as_dict(),
        "parameters": point._asdict(),
        "rounds": run.t,
        "seconds": round(time.monotonic() - began, 1),
        "config": study.as_dict(),
    }


class ErrorHistory(GraphObserver):
    """One row per round with the relative errors of the graphs, where the true graphs are known."""

    def __init__(self, study: GraphStudy, instance: StudyInstance) -> None:
        self._study, self._instance = study, instance
        self.rows: list[dict[str, float]] = []

    def on_round(self, run: GraphLearningRun) -> None:
        if self._study.source.name not in _SYNTHETIC:
            return
        local = self._study.learner.model_copy(update={"judged": "graphs", "client": None})
        row = {"round": float(run.t), "local_error": self._instance.score(run, local, 0.0)["relative_error"]}
        if run.consensus is not None:
            common = local.model_copy(update={"judged": "consensus"})
            row["consensus_error"] = self._instance.score(run, common, 0.0)["relative_error"]
        self.rows.append(row)


def make_instance(study: GraphStudy, seed: int) -> StudyInstance:
    """Return the instance of a seed: random graphs and signals, objects, or subjects."""
    source = study.source
    if source.name == "coil20":
        views = data.coil20(seed)
        return StudyInstance(views.signals, _communities(views))
    if source.name == "abide":
        brains = data.abide(seed)
        return StudyInstance(brains.signals, _reconstructions(brains, seed))
    made = _SYNTHETIC[source.name](source.vertices, source.clients, source.signals, q=source.q, seed=seed)
    return StudyInstance(made.signals, _edges(made))


def _edges(made: synthetic.Synthetic) -> GraphScorer:
    def score(run: GraphLearningRun, learner: LearnerSettings, threshold: float) -> dict[str, float]:
        only = slice(None) if learner.client is None else slice(learner.client, learner.client + 1)
        truth = made.consensus if learner.judged == "consensus" else made.graphs[only]
        found = scores.edge_scores(_scored_graphs(run, learner), truth, threshold)._asdict()
        return found if run.weights is None else {**found, "gamma": float(run.weights[only].mean())}

    return score


def _communities(views: data.ObjectViews) -> GraphScorer:
    def score(run: GraphLearningRun, learner: LearnerSettings, threshold: float) -> dict[str, float]:
        found = [scores.community_scores(w, views.labels) for w in matrices(_scored_graphs(run, learner))]
        return scores.CommunityScores(*(float(np.mean(each)) for each in zip(*found, strict=True)))._asdict()

    return score


def _reconstructions(brains: data.BrainSignals, seed: int) -> GraphScorer:
    """Reconstruct masked test signals with each subject's graph; the mean error over subjects and masks."""
    rng = np.random.default_rng((seed, 1))
    masks = [rng.choice(brains.signals[0].shape[1], _MASKED_VERTICES, replace=False) for _ in range(_MASKS)]

    def score(run: GraphLearningRun, learner: LearnerSettings, threshold: float) -> dict[str, float]:
        graphs = matrices(np.broadcast_to(_scored_graphs(run, learner), (len(brains.test), run.task.p)))
        each = [
            scores.reconstruction_error(x, mask, w) for x, w in zip(brains.test, graphs, strict=True) for mask in masks
        ]
        return {"reconstruction_error": float(np.mean(each))}

    return score


def _scored_graphs(run: GraphLearningRun, learner: LearnerSettings) -> npt.NDArray[np.float64]:
    """Return the graphs (…, p) that are scored."""
    if learner.judged == "consensus":
        assert run.consensus is not None
        return np.asarray(run.consensus.numpy()[None])
    graphs = run.graphs.numpy()
    return np.asarray(graphs if learner.client is None else graphs[[learner.client]])


def _new_run(
    study: GraphStudy,
    point: GridPoint,
    instance: StudyInstance,
    seed: int,
    tolerance: float,
    *observers: GraphObserver,
) -> GraphLearningRun:
    task = Signals(instance.signals, clip=study.clip, noise=Noise.from_seed(seed))
    method = study.method(point.beta, point.rho, point.lam)
    delta = 1e-5 if study.budget is None else study.budget.stated
    network = Simulated(complete(task.n))
    return GraphLearningRun(task, method, network, delta=delta, tolerance=tolerance, quiet=True, observers=observers)


def _best_point(study: GraphStudy) -> GridPoint:
    """Return the grid point that is best on separate instances. It does not depend on the study's seed."""
    free = study.model_copy(update={"seed": 0, "learner": study.learner.model_copy(update={"client": None})})
    if study.search.beta_of == "igl" and study.learner.name == "ppgl" and len(study.search.beta) > 1:
        independent = LearnerSettings(name="igl")
        beta = _best_point_of(free.model_copy(update={"learner": independent, "budget": None}).model_dump_json()).beta
        free = free.model_copy(update={"search": study.search.model_copy(update={"beta": [beta]})})
    return _best_point_of(free.model_dump_json())


@lru_cache(maxsize=256)
def _best_point_of(study_json: str) -> GridPoint:
    study = GraphStudy.model_validate_json(study_json)
    grid = study.search
    rhos, lams = (grid.rho, grid.lam) if study.learner.name == "ppgl" else (grid.rho[:1], grid.lam[:1])
    points = list(product(grid.beta, rhos, lams))
    if len(points) * len(grid.threshold) == 1:
        return GridPoint(*points[0], grid.threshold[0])
    sign = -1.0 if grid.best == "reconstruction_error" else 1.0
    totals = dict.fromkeys((GridPoint(*point, cut) for point in points for cut in grid.threshold), 0.0)
    for seed in range(_FIRST_SEARCH_SEED, _FIRST_SEARCH_SEED + grid.instances):
        instance = make_instance(study, seed)
        for point in points:
            run = _new_run(study, GridPoint(*point, 0.0), instance, seed, _SEARCH_TOLERANCE)
            try:
                run.go()
                values = [instance.score(run, study.learner, cut)[grid.best] for cut in grid.threshold]
            except TacitError:  # the method diverges at this point
                values = [-sign * math.inf] * len(grid.threshold)
            for cut, score in zip(grid.threshold, values, strict=True):
                totals[GridPoint(*point, cut)] += sign * score
    return max(totals, key=lambda point: totals[point])
