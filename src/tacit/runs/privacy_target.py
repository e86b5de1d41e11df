"""From the privacy target of a config to the noise of the algorithm and the budget of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tacit.algorithms import Algorithm, NoNoiseLevel, scatter_nodes
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.privacy import NO_PRIVACY, Budget, Sampling, calibrate_noise, no_guarantee_reason, plan, solve_pairs
from tacit.runs.config_sections import PrivacyTarget
from tacit.runs.correlation import check_correlation, correlate_noise
from tacit.runs.key_graph import default_colluders, key_edges
from tacit.runs.preparation import plan_preparation, with_paired_preparation
from tacit.tasks import Task

DEFAULT_RATIO = 3.0  # variance of a pair's noise ÷ that of a node's own


def check_noise_level(algorithm: Algorithm[Any], target: PrivacyTarget) -> None:
    """Refuse an algorithm without noise and without a target ε, before any data are read.

    Whatever else a plan without records cannot answer is checked by `apply_privacy_target`.

    Raises:
        NoNoiseLevel: Neither the target nor the algorithm sets the noise.
    """
    given = (getattr(algorithm, key, None) for key in algorithm.noise_parameters)
    if target.epsilon is not None or any(level is not None for level in given):
        return
    node, sampling = np.zeros(1, dtype=np.int64), Sampling("none", np.ones(1), "add-remove")
    try:
        algorithm.privacy.releases(0, node, sampling)
    except NoNoiseLevel:
        raise
    except Exception:
        return  # the plan of an algorithm may need what binding to a task computes


def apply_privacy_target(
    algorithm: Algorithm[Any], task: Task, graph: Graph, target: PrivacyTarget, rounds: int | None = None
) -> tuple[Algorithm[Any], Budget | None]:
    """Return the algorithm with the noise that reaches the target on the task's nodes, and the budget to enforce.

    The noise is calibrated for the algorithm's own rounds, beside the statistics of `privacy.shares`. An extended
    run has more `rounds`, of which the budget admits what fits.

    Raises:
        TacitError: The algorithm cannot run under a budget: it plans no releases, or releases without proven noise.
    """
    seen, limit, nodes = task.without_records(gradients=False), target.budget, task.nodes
    # The noise of a pair depends on what all nodes need, whoever hosts them.
    noised = task.of_network() if target.noise == "paired" else seen
    algorithm = _bind(algorithm, noised, graph)
    sampling = algorithm.privacy.sampling(noised)
    algorithm = plan_preparation(algorithm, task, target, sampling.relation)
    algorithm = correlate_noise(algorithm, sampling, target)
    if target.epsilon is not None:
        if target.calibration == "guaranteed":
            scale = calibrate_noise(algorithm, sampling, target.epsilon, target.delta)
            limit = limit or target.epsilon
        else:
            scale = algorithm.privacy.paper_noise(sampling, target.epsilon, target.delta)
        algorithm = algorithm.with_noise(scatter_nodes(scale, noised.nodes))
    if target.noise == "paired":
        algorithm = _with_pairs(algorithm, noised, graph, target)
    sampling = algorithm.privacy.sampling(seen)
    planned = list(algorithm.privacy.releases(0, nodes, sampling))  # also without a limit: missing noise must fail here
    check_correlation(algorithm, planned)
    if limit is None:
        return algorithm, None
    if not planned:
        raise TacitError(f"{algorithm.title} does not plan its releases, so it cannot run with a privacy budget")
    lines = plan(algorithm.privacy, rounds or algorithm.rounds, sampling, nodes)
    if any(line.mechanism.loss is NO_PRIVACY for line in lines):
        raise TacitError(
            f"{algorithm.title} cannot run with a privacy budget, because {no_guarantee_reason(lines)}: "
            "remove privacy.budget, or choose a private method"
        )
    budget = Budget(limit, target.delta)
    budget.accept(lines)
    return algorithm, budget


def _with_pairs(algorithm: Algorithm[Any], task: Task, graph: Graph, target: PrivacyTarget) -> Algorithm[Any]:
    """Return the algorithm with paired noise that protects as well as its independent noise would."""
    if reason := algorithm.privacy.refuses_pairs:
        raise TacitError(f"{algorithm.title} cannot use paired noise: {reason}")
    if len(task.nodes) != graph.nodes:
        raise TacitError("Paired noise needs the number of records of every site: set records in [[sites]]")
    colluders = default_colluders(graph.nodes) if target.colluders is None else target.colluders
    edges = key_edges(target.keys, graph, colluders)
    multipliers, sensitivity = algorithm.privacy.unit_noise(task)
    ratio = target.ratio or DEFAULT_RATIO
    algorithm = with_paired_preparation(algorithm, graph.nodes, edges, colluders, ratio)
    return replace(algorithm, pairs=solve_pairs(multipliers, sensitivity, edges, colluders, ratio))


def _bind(algorithm: Algorithm[Any], task: Task, graph: Graph) -> Algorithm[Any]:
    """Return the algorithm bound to the task. Binding happens before the run, so it must release nothing."""
    ledger = task.ledger
    before = len(ledger), list(ledger.values.rows())
    bound = algorithm.bind(task, graph)
    if (len(ledger), list(ledger.values.rows())) != before:
        raise TacitError(f"{algorithm.title}: bind must not release values: release them in start or round")
    return bound
