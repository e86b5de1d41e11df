"""The statistics of a run before round 0: their noise, their release, and their return after a resume."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tacit.algorithms import Algorithm, PlannedStatistic
from tacit.errors import TacitError
from tacit.networks import Network
from tacit.privacy import Gaussian, Relation, Release, Sampling, calibrate, epsilon_to_mu, solve_pairs
from tacit.runs.config_sections import PrivacyTarget
from tacit.runs.preparation_stages import RANGES_FACT, STAGES, PrivateRanges, read_preparation, stage_of
from tacit.runs.shares import GRADIENTS_SHARE
from tacit.tasks import Task, prepare_records, use_ranges

_DEFAULT_SHARE = 0.1  # of the target ε, for ranges of columns
_RANGES = PrivateRanges()


def plan_preparation(
    algorithm: Algorithm[Any], task: Task, target: PrivacyTarget, relation: Relation
) -> Algorithm[Any]:
    """Return the algorithm with the statistics that the run releases before round 0.

    `privacy.shares` are shares of μ², where μ is that of a Gaussian release with the target ε: a statistic with share
    a has the noise multiplier 1 / (√a μ). Ranges of columns without a share have the noise of
    `privacy.ranges_epsilon`, by default a tenth of ε, as if they were the only release. The noise of the rounds is
    calibrated afterwards, so that the composition of everything meets the target.

    Raises:
        TacitError: The run cannot release a statistic, or has no noise for it.
    """
    shares = target.shares or {}
    if shares:
        _check_shares(algorithm, task, target)
    planned: list[PlannedStatistic] = []
    for stage in STAGES:
        multiplier = None
        if stage.share in shares:
            assert target.epsilon is not None
            multiplier = 1 / (math.sqrt(shares[stage.share]) * epsilon_to_mu(target.epsilon, target.delta))
        elif stage is STAGES[0]:
            multiplier = _ranges_multiplier(algorithm, task, target, relation)
        if multiplier is not None:
            _check_relation(algorithm, task, relation)
            sensitivity = stage.statistic(task).sensitivity(relation)
            planned.append(PlannedStatistic(stage.purpose, multiplier, sensitivity))
    return replace(algorithm, preparation=tuple(planned))


def with_paired_preparation(
    algorithm: Algorithm[Any], nodes: int, edges: npt.NDArray[np.int64], colluders: int, ratio: float
) -> Algorithm[Any]:
    """Return the algorithm with paired noise in its statistics, which protects as well as their independent noise.

    All nodes need the same noise for them, so they have a plan of their own. The keys are those of the rounds.
    """
    if not algorithm.preparation:
        return algorithm
    pairs = solve_pairs(np.ones(nodes), np.ones(nodes), edges, colluders, ratio)
    return replace(algorithm, preparation=tuple(replace(each, pairs=pairs) for each in algorithm.preparation))


def longest_statistic(task: Task, algorithm: Algorithm[Any]) -> int:
    """Return the number of values of the longest statistic that the run releases; 0 without any."""
    return max((stage_of(each.purpose).statistic(task).length(task.data) for each in algorithm.preparation), default=0)


def release_statistics(task: Task, algorithm: Algorithm[Any], network: Network) -> None:
    """Release the statistics one after the other, and prepare the records with each.

    Privacy:
        Nodes send only noised statistics, which are in the ledger. How records are prepared is computed from their
        mean. Given that, a record is prepared by itself, so that later releases have the same sensitivity as with
        records that were given in this form. The privacy of all of them is that of their (adaptive) composition.
    """
    for planned in algorithm.preparation:
        mean = release_statistic(task, planned, network)
        stage_of(planned.purpose).use(task, mean, planned.mean_deviation(network.graph.nodes))


def release_statistic(task: Task, planned: PlannedStatistic, network: Network) -> Tensor:
    """Release one statistic of every node, and return the mean of what the nodes have sent."""
    bounded = task.statistic(stage_of(planned.purpose).statistic(task), 0, planned.purpose)
    return network.mean(planned.release(task.nodes, bounded.sampling.relation).mechanism.release(bounded))


def restore_preparation(task: Task, t: int) -> None:
    """Prepare the records as they were after t complete rounds: round 0 begins with the release of the statistics.

    Raises:
        TacitError: The ledger has a release, but not what was computed from it.
    """
    ledger = task.ledger
    ranges, prepared = None, None
    try:
        prepare_records(task, None)
        if t:
            ranges = ledger.facts.read().get(RANGES_FACT)
            prepared = read_preparation(ledger.facts, task.data.inputs)
        use_ranges(task, ranges)
        prepare_records(task, prepared)
        lost = t > 0 and _missing(task, ranges is not None, dict(prepared.named_buffers()) if prepared else {})
    except (TacitError, KeyError, TypeError, ValueError, AttributeError, RuntimeError):
        lost = "ranges" if task.data.private is not None and prepared is None else "statistics"
    if lost:
        raise TacitError(f"The ledger does not have the {lost} that the run has released. Restore it to resume.")


def released_ranges(task: Task) -> dict[str, list[float]]:
    """Return the released ranges by which the records are scaled; empty before the release, or without such columns."""
    data = task.data
    if data.private is None or data.schema is None:
        return {}
    columns = {name: data.schema.columns[name].declaration() for name in data.private.names}
    return {name: each["released"] for name, each in columns.items() if isinstance(each, dict) and "released" in each}


def _missing(task: Task, has_ranges: bool, buffers: Mapping[str, object]) -> str:
    """What the ledger lacks although it was released; empty if it lacks nothing."""
    released = {each.purpose for each in task.ledger.releases()}
    found = {"ranges": has_ranges, "mean": "mean" in buffers, "gram": "whitening" in buffers}
    lost = [stage.share for stage in STAGES if stage.purpose in released and not found[stage.share]]
    return "" if not lost else lost[0] if lost[0] == "ranges" else "statistics"


def _check_shares(algorithm: Algorithm[Any], task: Task, target: PrivacyTarget) -> None:
    """Refuse shares for which the run has no use, or no target."""
    shares = target.shares or {}
    if target.epsilon is None:
        raise TacitError("privacy.shares are shares of a target ε: set privacy.epsilon, or remove privacy.shares")
    if target.calibration == "paper":
        raise TacitError('privacy.shares needs privacy.calibration = "guaranteed": papers account no statistics')
    if _RANGES.share in shares:
        if task.data.private is None:
            raise TacitError('privacy.shares.ranges has an effect only with columns of range = "private": remove it')
        if target.ranges_epsilon is not None:
            raise TacitError("privacy.shares.ranges and privacy.ranges_epsilon both set the noise: remove one of them")
        _check_ranges(algorithm, task)
    used = [stage for stage in STAGES if stage.share in shares]
    if not used:
        raise TacitError(
            f"privacy.shares has no statistic beside {GRADIENTS_SHARE}: add one of "
            f"{', '.join(stage.share for stage in STAGES)}, or remove privacy.shares"
        )
    if algorithm.privacy.unit != "record":
        raise TacitError(
            f"privacy.shares is for methods that protect records, but {algorithm.title} protects whole nodes: remove it"
        )
    for stage in used:
        stage.statistic(task).length(task.data)


def _ranges_multiplier(
    algorithm: Algorithm[Any], task: Task, target: PrivacyTarget, relation: Relation
) -> float | None:
    """Return the noise multiplier of private ranges that have no share; None without such columns."""
    private = task.data.private
    if private is None:
        if target.ranges_epsilon is not None:
            raise TacitError('privacy.ranges_epsilon has an effect only with columns of range = "private": remove it')
        return None
    _check_ranges(algorithm, task)
    epsilon = target.ranges_epsilon
    if epsilon is None and target.shares:
        raise TacitError(
            f'column {private.names[0]}: range = "private" needs a share: set privacy.shares.ranges or '
            "privacy.ranges_epsilon"
        )
    if epsilon is None and target.epsilon is not None:
        epsilon = _DEFAULT_SHARE * target.epsilon
    if epsilon is None:
        raise TacitError(
            f'column {private.names[0]}: range = "private" is released with noise, but the run has no target ε: set '
            "privacy.epsilon or privacy.ranges_epsilon, or declare range = [low, high]"
        )
    if target.epsilon is not None and epsilon >= target.epsilon:
        raise TacitError(f"privacy.ranges_epsilon must be below privacy.epsilon = {target.epsilon:g}, got {epsilon:g}")
    sampling = Sampling("none", np.ones(1), relation)
    return calibrate(lambda s: [Release(0, _RANGES.purpose, Gaussian(s), sampling)], epsilon, target.delta)


def _check_relation(algorithm: Algorithm[Any], task: Task, relation: Relation) -> None:
    """Refuse statistics for another relation than that of the method: no ε would cover both."""
    if task.sampling.relation != relation:
        raise TacitError(
            f'{algorithm.title} is accounted for the relation "{relation}", and statistics for '
            f'"{task.sampling.relation}": set batch.relation = "{relation}"'
        )


def _check_ranges(algorithm: Algorithm[Any], task: Task) -> None:
    """Refuse private ranges that the run cannot release."""
    private = task.data.private
    assert private is not None
    column, declare = f'column {private.names[0]}: range = "private"', "declare range = [low, high]"
    if algorithm.privacy.unit != "record":
        raise TacitError(f"{column} protects records, but {algorithm.title} protects whole nodes: {declare}")
    if task.data.normalise != "none":
        raise TacitError(f'{column} cannot be used with records of normalise = "{task.data.normalise}": {declare}')
