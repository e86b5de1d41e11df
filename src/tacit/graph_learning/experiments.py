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
from tacit.graph_learning import data, metrics, synthetic
from tacit.graph_learning.learner import matrices
from tacit.graph_learning.learning import Learning
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.study import Learner, Study
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy.ledger import Array
from tacit.privacy.noise import Noise

Judge = Callable[[Learning, Learner, float], dict[str, float]]
_SEARCHED = 10_000  # seeds of the instances that parameters are searched on start here
_ROUGH, _FINE = 1e-2, 1e-4  # how far solutions converge in a search, and in a measurement
_MASKS, _MASKED = 10, 7  # draws of masked vertices, and how many of ABIDE's 34 each hides


class Point(NamedTuple):
    """Parameters of a method, and above which share of the largest weight a pair is an edge."""

    beta: float
    rho: float
    lam: float
    threshold: float


@dataclass(frozen=True)
class Instance:
    """Signals, and how graphs that were learned from them are judged."""

    signals: list[Array]
    judge: Judge


def measure(study: Study) -> dict[str, Any]:
    """What a cell keeps: the scores, their history round by round, the privacy, and the parameters that were found."""
    began = time.monotonic()
    result: dict[str, Any] = {"scores": None, "history": [], "error": None}
    point = _searched(study)
    instance = draw(study, study.seed)
    learning = _learning(study, point, instance, study.seed, _FINE)

    def watch(run: Learning) -> None:
        if study.source.name == "rbf":
            local = study.learner.model_copy(update={"judged": "graphs", "client": None})
            row = {"round": float(run.t), "local_error": instance.judge(run, local, 0.0)["relative_error"]}
            if run.consensus is not None:
                common = local.model_copy(update={"judged": "consensus"})
                row["consensus_error"] = instance.judge(run, common, 0.0)["relative_error"]
            result["history"].append(row)

    try:
        learning.go(watch)
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


def draw(study: Study, seed: int) -> Instance:
    """The instance of a seed: graphs and signals, objects, or subjects."""
    source = study.source
    if source.name == "coil20":
        views = data.coil20(seed)
        return Instance(views.signals, _communities(views))
    if source.name == "abide":
        brains = data.abide(seed)
        return Instance(brains.signals, _reconstructions(brains, seed))
    made = synthetic.rbf(source.vertices, source.clients, source.signals, q=source.q, seed=seed)
    return Instance(made.signals, _edges(made))


def _edges(made: synthetic.Synthetic) -> Judge:
    def judge(run: Learning, learner: Learner, threshold: float) -> dict[str, float]:
        only = slice(None) if learner.client is None else slice(learner.client, learner.client + 1)
        truth = made.consensus if learner.judged == "consensus" else made.graphs[only]
        found = metrics.scores(_judged(run, learner), truth, threshold)._asdict()
        return found if run.weights is None else {**found, "gamma": float(run.weights[only].mean())}

    return judge


def _communities(views: data.Views) -> Judge:
    def judge(run: Learning, learner: Learner, threshold: float) -> dict[str, float]:
        found = [metrics.community_scores(w, views.labels) for w in matrices(_judged(run, learner))]
        return metrics.Communities(*(float(np.mean(each)) for each in zip(*found, strict=True)))._asdict()

    return judge


def _reconstructions(brains: data.Brains, seed: int) -> Judge:
    """Every subject's test signals, filled in by its graph; the mean over subjects and over masks."""
    rng = np.random.default_rng((seed, 1))
    masks = [rng.choice(brains.signals[0].shape[1], _MASKED, replace=False) for _ in range(_MASKS)]

    def judge(run: Learning, learner: Learner, threshold: float) -> dict[str, float]:
        graphs = matrices(np.broadcast_to(_judged(run, learner), (len(brains.test), run.task.p)))
        each = [
            metrics.reconstruction_error(x, mask, w) for x, w in zip(brains.test, graphs, strict=True) for mask in masks
        ]
        return {"reconstruction_error": float(np.mean(each))}

    return judge


def _judged(run: Learning, learner: Learner) -> npt.NDArray[np.float64]:
    """The graphs (…, p) that are judged."""
    if learner.judged == "consensus":
        assert run.consensus is not None
        return np.asarray(run.consensus.numpy()[None])
    graphs = run.graphs.numpy()
    return np.asarray(graphs if learner.client is None else graphs[[learner.client]])


def _learning(study: Study, point: Point, instance: Instance, seed: int, tolerance: float) -> Learning:
    task = Signals(instance.signals, clip=study.clip, noise=Noise.from_seed(seed))
    method = study.method(point.beta, point.rho, point.lam)
    delta = 1e-5 if study.budget is None else study.budget.stated
    return Learning(task, method, Simulated(complete(task.n)), delta=delta, tolerance=tolerance, quiet=True)


def _searched(study: Study) -> Point:
    """The point of the grid that is best on other instances, the same for all seeds."""
    free = study.model_copy(update={"seed": 0, "learner": study.learner.model_copy(update={"client": None})})
    if study.search.beta_of == "igl" and study.learner.name == "ppgl" and len(study.search.beta) > 1:
        alone = Learner(name="igl")
        beta = _best(free.model_copy(update={"learner": alone, "budget": None}).model_dump_json()).beta
        free = free.model_copy(update={"search": study.search.model_copy(update={"beta": [beta]})})
    return _best(free.model_dump_json())


@lru_cache(maxsize=256)
def _best(whole: str) -> Point:
    study = Study.model_validate_json(whole)
    grid, weighs = study.search, study.learner.name == "ppgl"
    points = list(product(grid.beta, grid.rho if weighs else grid.rho[:1], grid.lam if weighs else grid.lam[:1]))
    if len(points) * len(grid.threshold) == 1:
        return Point(*points[0], grid.threshold[0])
    sign = -1.0 if grid.best == "reconstruction_error" else 1.0
    totals = dict.fromkeys((Point(*point, cut) for point in points for cut in grid.threshold), 0.0)
    for seed in range(_SEARCHED, _SEARCHED + grid.instances):
        instance = draw(study, seed)
        for point in points:
            run = _learning(study, Point(*point, 0.0), instance, seed, _ROUGH)
            try:
                run.go()
                scores = [instance.judge(run, study.learner, cut)[grid.best] for cut in grid.threshold]
            except TacitError:  # it diverges there, and is no choice
                scores = [-sign * math.inf] * len(grid.threshold)
            for cut, score in zip(grid.threshold, scores, strict=True):
                totals[Point(*point, cut)] += sign * score
    return max(totals, key=lambda point: totals[point])
