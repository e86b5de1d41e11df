"""The support of a training method: real runs are planned, and the accountant and the threat analysis answer."""

from __future__ import annotations

import warnings
from functools import cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import Graph, graphs, require
from tacit.networks import Network, Simulated
from tacit.privacy import SamplingKind, declares, plan, sampling_kinds
from tacit.runs import Config, Run, UserParts, from_config
from tacit.support.cells import AMPLIFIED, EAVESDROPPERS, NOT_AMPLIFIED, OWN_BOUND, Answer, Method, MethodSupport
from tacit.tasks import Dataset, datasets
from tacit.threats import ThreatAnalysis, analyse_threats

_NODES, _ROUNDS, _BATCH, _DELTA, _NOISE = 4, 2, 8, 1e-9, 2.0  # a small δ, so that no ε is 0
_GRAPHS = ("one-peer-exponential", "ring")  # the first hides part of the messages; not every method accepts it
WAITS = Answer("refused", "every round needs all nodes, so the others wait")
IN_SIMULATION, ON_CLUSTER, AT_SITES, ABSENT = "simulation", "cluster", "sites", "sites, some absent"


def samplings() -> list[tuple[str, str]]:
    """Return every sampling kind with both relations, whether or not it can be accounted for them."""
    return [(kind, relation) for kind in sampling_kinds for relation in SamplingKind.relations]


def training_support(method: Method) -> MethodSupport:
    """Return the support of a method, from planned runs with every sampling and relation.

    Raises:
        TacitError: No run of the method can be built with these settings.
    """
    answers: dict[tuple[str, str], Answer] = {}
    proven: list[Run] = []
    built: list[Run] = []
    refusal = TacitError(method.title)
    for sampling, relation in samplings():
        try:
            run = planned_run(method, sampling, relation)
        except TacitError as error:
            answers[sampling, relation], refusal = Answer("not applicable", f"refused: {error}"), error
            continue
        built.append(run)
        answers[sampling, relation] = _sampling_answer(run, sampling, relation)
        if answers[sampling, relation].status == "proven":
            proven.append(run)
    if not built:
        raise refusal
    run = (proven or built)[0]
    releases = plan(run.algorithm.privacy, 1, run.algorithm.privacy.sampling(run.task), run.task.nodes)
    noise = releases[0].mechanism.name if releases else "not planned"
    adversaries = _adversary_answers(run, has_noise=noise != "exact")
    runtimes, correlations = _runtime_answers(run), _correlation_answers(run)
    return MethodSupport(method, noise, run.planned().unit, answers, adversaries, runtimes, correlations)


def planned_run(method: Method, sampling: str, relation: str) -> Run:
    """Return a small run of the method with noise, if it can add some.

    Raises:
        TacitError: The method refuses its settings, or the sampling cannot be accounted for the relation.
    """
    noise = dict.fromkeys(algorithms.noise_parameters(method.name), _NOISE)
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in method.settings}
    batch = {"size": "all"} if sampling == "none" else {"size": _BATCH, "sampling": sampling}
    table = {
        "rounds": _ROUNDS,
        "batch": {**batch, "relation": relation},
        "privacy": {"delta": _DELTA},
        "algorithm": {"name": method.name, **noise, **settings},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about learning rates and other matters of utility
        return from_config(Config.parse(table), UserParts(_records(), _shards(), graph=_graph(method)))


@cache
def _records() -> Dataset:
    return datasets.build("digits", {"normalise": "unit"})  # DP-Norm scales longer records down


@cache
def _shards() -> list[npt.NDArray[np.int64]]:
    return np.array_split(np.arange(len(_records().y)), _NODES)


@cache
def _graph(method: Method) -> Graph:
    own = {key: value for key, value in method.settings if key in algorithms.parameters(method.name)}
    needs = algorithms.build(method.name, own).needs
    for name in _GRAPHS[:-1]:
        try:
            require(_built_graph(name), *needs, who=method.name)
        except TacitError:
            continue
        return _built_graph(name)
    return _built_graph(_GRAPHS[-1])


@cache
def _built_graph(name: str) -> Graph:
    return graphs.build(name, {"nodes": _NODES})


def _sampling_answer(run: Run, sampling: str, relation: str) -> Answer:
    statement, accounted = run.planned(), run.algorithm.privacy.sampling(run.task)
    if statement.guaranteed is None:
        reason = statement.reason or ""
        without_noise = not algorithms.noise_parameters(_name(run))
        return Answer("not applicable" if without_noise else "no bound known", reason)
    if statement.relation != relation:
        return Answer("no bound known", f"the guarantee is for {statement.relation}")
    amplified = accounted.scheme.accounted_rate(0.5) < 1
    return Answer("proven", AMPLIFIED if amplified else NOT_AMPLIFIED)


def _correlation_answers(run: Run) -> dict[str, Answer]:
    """Whether the noise of the method can be paired between nodes, or correlated in time."""
    refusal = run.algorithm.privacy.refuses_pairs
    has_noise = bool(algorithms.noise_parameters(_name(run)))
    refused = "the method does not subtract each released gradient from the model once" if has_noise else "no noise"
    sums = declares(run.algorithm, "sums_gradients") and has_noise
    return {
        "paired": Answer("proven", "against any coalition") if refusal is None else Answer("not applicable", refusal),
        "correlated in time": Answer("proven", "for cyclic sampling") if sums else Answer("not applicable", refused),
    }


def _name(run: Run) -> str:
    return str(run.config["algorithm"]["name"])


def _adversary_answers(run: Run, has_noise: bool) -> dict[str, Answer]:
    analysis = analyse_threats(run, planned=True)
    return {bound.title: _adversary_answer(analysis, k, has_noise) for k, bound in enumerate(analysis.bounds)}


def _adversary_answer(analysis: ThreatAnalysis, k: int, has_noise: bool) -> Answer:
    bound, eavesdropper = analysis.bounds[k], analysis.bounds[0]
    if bound.epsilon is None:
        return Answer("no bound known" if has_noise else "not applicable", bound.reason)
    assert eavesdropper.epsilon is not None
    any_node_has_pairs = k == 1 and analysis.pairs is not None
    own = k == 0 or bound.epsilon < eavesdropper.epsilon or any_node_has_pairs
    return Answer("proven", OWN_BOUND if own else EAVESDROPPERS)


class RealNetwork(Simulated):
    """A network in which nobody sees all nodes: what a method may use on a cluster and between sites."""

    omniscient: ClassVar[bool] = False

    def diameter(self, x: torch.Tensor) -> float:
        return Network.diameter(self, x)


def _runtime_answers(run: Run) -> dict[str, Answer]:
    """Ask one round of the method on a network that is no simulation."""
    network = RealNetwork(run.network.graph)
    several = Answer("supported")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run.algorithm.round(0, run.algorithm.start(run.task, network.graph), run.task, network)
    except TacitError as error:
        several = Answer("refused", str(error))
    waits = several.status == "supported" and not run.algorithm.tolerates_dropout
    return {
        IN_SIMULATION: Answer("supported"),
        ON_CLUSTER: several,
        AT_SITES: several,
        ABSENT: WAITS if waits else several,
    }
