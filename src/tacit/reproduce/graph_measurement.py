"""The measurements of the PPGL paper: parameters searched on some instances, graphs learned and judged on another."""

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
from tacit.privacy.ledger import Array
from tacit.privacy.noise import Noise
from tacit.reproduce.graph_study import GraphStudy, LearnerSettings

Judge = Callable[[GraphLearningRun, LearnerSettings, float], dict[str, float]]
_SEARCHED = 10_000  # seeds of the instances that parameters are searched on start here
_ROUGH, _FINE = 1e-2, 1e-4  # how far solutions converge in a search, and in a measurement
_MASKS, _MASKED = 10, 7  # draws of masked vertices, and how many of ABIDE's 34 each hides


class GridPoint(NamedTuple):
    """Parameters of a method, and above which share of the largest weight a pair is an edge."""

    beta: float
    rho: float
    lam: float
    threshold: float


@dataclass(frozen=True)
class StudyInstance:
    """Signals, and how graphs that were learned from them are judged."""

    signals: list[Array]
    judge: Judge


def measure_study(study: GraphStudy) -> dict[str, Any]:
    """What a cell keeps: the scores, their history round by round, the privacy, and the parameters that were found."""
    began = time.monotonic()
    result: dict[str, Any] = {"scores": None, "history": [], "error": None}
    point = _searched(study)
    instance = make_instance(study, study.seed)
    errors = ErrorHistory(study, instance)
    learning = _learning(study, point, instance, study.seed, _FINE, errors)
    result["history"] = errors.rows
    try:
        learning.go()
        result["scores"] = instance.judge(learning, study.learner, point.threshold)
    except TacitError as failure:
        result["error"] = str(failure)
    return {
        **result,
        "privacy": learning.privacy.as_dict(),
        "parameters": point._asdict(),
        "rounds": learning.t,
        "seconds": round(time.monotonic() - began, 1),
        "config": study.as_dict(),
    }


class ErrorHistory(GraphObserver):
    """One row per round with the relative errors of the graphs, where the true graphs are known."""

    def __init__(self, study: GraphStudy, instance: StudyInstance) -> None:
        self._study, self._instance = study, instance
        self.rows: list[dict[str, float]] = []

    def on_round(self, run: GraphLearningRun) -> None:
        if self._study.source.name != "rbf":
            return
        local = self._study.learner.model_copy(update={"judged": "graphs", "client": None})
        row = {"round": float(run.t), "local_error": self._instance.judge(run, local, 0.0)["relative_error"]}
        if run.consensus is not None:
            common = local.model_copy(update={"judged": "consensus"})
            row["consensus_error"] = self._instance.judge(run, common, 0.0)["relative_error"]
        self.rows.append(row)


def make_instance(study: GraphStudy, seed: int) -> StudyInstance:
    """The instance of a seed: graphs and signals, objects, or subjects."""
    source = study.source
    if source.name == "coil20":
        views = data.coil20(seed)
        return StudyInstance(views.signals, _communities(views))
    if source.name == "abide":
        brains = data.abide(seed)
        return StudyInstance(brains.signals, _reconstructions(brains, seed))
    made = synthetic.rbf(source.vertices, source.clients, source.signals, q=source.q, seed=seed)
    return StudyInstance(made.signals, _edges(made))


def _edges(made: synthetic.Synthetic) -> Judge:
    def judge(run: GraphLearningRun, learner: LearnerSettings, threshold: float) -> dict[str, float]:
        only = slice(None) if learner.client is None else slice(learner.client, learner.client + 1)
        truth = made.consensus if learner.judged == "consensus" else made.graphs[only]
        found = scores.edge_scores(_judged(run, learner), truth, threshold)._asdict()
        return found if run.weights is None else {**found, "gamma": float(run.weights[only].mean())}

    return judge


def _communities(views: data.ObjectViews) -> Judge:
    def judge(run: GraphLearningRun, learner: LearnerSettings, threshold: float) -> dict[str, float]:
        found = [scores.community_scores(w, views.labels) for w in matrices(_judged(run, learner))]
        return scores.CommunityScores(*(float(np.mean(each)) for each in zip(*found, strict=True)))._asdict()

    return judge


def _reconstructions(brains: data.BrainSignals, seed: int) -> Judge:
    """Every subject's test signals, filled in by its graph; the mean over subjects and over masks."""
    rng = np.random.default_rng((seed, 1))
    masks = [rng.choice(brains.signals[0].shape[1], _MASKED, replace=False) for _ in range(_MASKS)]

    def judge(run: GraphLearningRun, learner: LearnerSettings, threshold: float) -> dict[str, float]:
        graphs = matrices(np.broadcast_to(_judged(run, learner), (len(brains.test), run.task.p)))
        each = [
            scores.reconstruction_error(x, mask, w) for x, w in zip(brains.test, graphs, strict=True) for mask in masks
        ]
        return {"reconstruction_error": float(np.mean(each))}

    return judge


def _judged(run: GraphLearningRun, learner: LearnerSettings) -> npt.NDArray[np.float64]:
    """The graphs (…, p) that are judged."""
    if learner.judged == "consensus":
        assert run.consensus is not None
        return np.asarray(run.consensus.numpy()[None])
    graphs = run.graphs.numpy()
    return np.asarray(graphs if learner.client is None else graphs[[learner.client]])


def _learning(
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


def _searched(study: GraphStudy) -> GridPoint:
    """The point of the grid that is best on other instances, the same for all seeds."""
    free = study.model_copy(update={"seed": 0, "learner": study.learner.model_copy(update={"client": None})})
    if study.search.beta_of == "igl" and study.learner.name == "ppgl" and len(study.search.beta) > 1:
        alone = LearnerSettings(name="igl")
        beta = _best(free.model_copy(update={"learner": alone, "budget": None}).model_dump_json()).beta
        free = free.model_copy(update={"search": study.search.model_copy(update={"beta": [beta]})})
    return _best(free.model_dump_json())


@lru_cache(maxsize=256)
def _best(whole: str) -> GridPoint:
    study = GraphStudy.model_validate_json(whole)
    grid, weighs = study.search, study.learner.name == "ppgl"
    points = list(product(grid.beta, grid.rho if weighs else grid.rho[:1], grid.lam if weighs else grid.lam[:1]))
    if len(points) * len(grid.threshold) == 1:
        return GridPoint(*points[0], grid.threshold[0])
    sign = -1.0 if grid.best == "reconstruction_error" else 1.0
    totals = dict.fromkeys((GridPoint(*point, cut) for point in points for cut in grid.threshold), 0.0)
    for seed in range(_SEARCHED, _SEARCHED + grid.instances):
        instance = make_instance(study, seed)
        for point in points:
            run = _learning(study, GridPoint(*point, 0.0), instance, seed, _ROUGH)
            try:
                run.go()
                values = [instance.judge(run, study.learner, cut)[grid.best] for cut in grid.threshold]
            except TacitError:  # it diverges there, and is no choice
                values = [-sign * math.inf] * len(grid.threshold)
            for cut, score in zip(grid.threshold, values, strict=True):
                totals[GridPoint(*point, cut)] += sign * score
    return max(totals, key=lambda point: totals[point])
