"""Private ranges of columns in a run: their noise, their release before round 0, and their return after a resume."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.algorithms import Algorithm
from tacit.errors import TacitError
from tacit.networks import Network
from tacit.privacy import Gaussian, Relation, Release, Sampling, calibrate
from tacit.runs.config_sections import PrivacyTarget
from tacit.tasks import RANGES_PURPOSE, Task, column_histograms, estimate_ranges, use_ranges

RANGES_FACT = "ranges"  # the key of the released ranges among the facts in the ledger
_DEFAULT_SHARE = 0.1  # of the target ε


def plan_ranges(algorithm: Algorithm[Any], task: Task, target: PrivacyTarget, relation: Relation) -> Algorithm[Any]:
    """Return the algorithm with the noise of the private ranges, if columns of the task have any.

    The noise is calibrated for `privacy.ranges_epsilon`, by default a tenth of `privacy.epsilon`, as if the ranges were
    the only release.

    Raises:
        TacitError: The run cannot release private ranges, or has no noise for them.
    """
    private = task.data.private
    if private is None:
        if target.ranges_epsilon is not None:
            raise TacitError('privacy.ranges_epsilon has an effect only with columns of range = "private": remove it')
        return algorithm
    column = f'column {private.names[0]}: range = "private"'
    declare = "declare range = [low, high]"
    if algorithm.privacy.unit != "record":
        raise TacitError(f"{column} protects records, but {algorithm.title} protects whole nodes: {declare}")
    if task.data.normalise != "none":
        raise TacitError(f'{column} cannot be used with records of normalise = "{task.data.normalise}": {declare}')
    epsilon = target.ranges_epsilon
    if epsilon is None and target.epsilon is not None:
        epsilon = _DEFAULT_SHARE * target.epsilon
    if epsilon is None:
        raise TacitError(
            f"{column} is released with noise, but the run has no target ε: set privacy.epsilon or "
            f"privacy.ranges_epsilon, or {declare}"
        )
    if target.epsilon is not None and epsilon >= target.epsilon:
        raise TacitError(f"privacy.ranges_epsilon must be below privacy.epsilon = {target.epsilon:g}, got {epsilon:g}")
    sampling = Sampling("none", np.ones(1), relation)
    noise = calibrate(lambda s: [Release(0, RANGES_PURPOSE, Gaussian(s), sampling)], epsilon, target.delta)
    return replace(algorithm, ranges_noise=noise)


def release_ranges(task: Task, algorithm: Algorithm[Any], network: Network) -> None:
    """Release the histograms of private columns, and scale the records by the ranges found in them.

    Privacy:
        Nodes send only the noised histograms, which are in the ledger. The ranges are computed from their mean. Given
        the ranges, a record is prepared by itself, so that the releases of the rounds have the same sensitivity as with
        declared ranges. The privacy of all of them is that of their (adaptive) composition.
    """
    sampling = algorithm.privacy.sampling(task.without_records(gradients=False))
    for planned in algorithm.privacy.preparation(task.nodes, sampling):
        histograms = column_histograms(task, planned.sampling.relation)
        deviations = planned.mechanism.noise_scale(histograms)
        mean = network.mean(planned.mechanism.release(histograms))
        private = task.data.private
        assert private is not None
        # Every node has the same noise, so that of the mean is smaller by the root of their number.
        ranges = estimate_ranges(private.schema, mean.numpy(), float(deviations[0]) / math.sqrt(network.graph.nodes))
        task.ledger.facts.write(**{RANGES_FACT: ranges})
        use_ranges(task, ranges)


def restore_ranges(task: Task, t: int) -> None:
    """Scale the records as they were after t complete rounds: round 0 begins with the release of the ranges.

    Raises:
        TacitError: The ledger has the release, but not the ranges.
    """
    if task.data.private is None:
        return
    ledger = task.ledger
    ranges = ledger.facts.read().get(RANGES_FACT) if t else None
    try:
        use_ranges(task, ranges)
        damaged = t > 0 and ranges is None and any(each.purpose == RANGES_PURPOSE for each in ledger.releases())
    except (TacitError, KeyError, TypeError, ValueError, AttributeError):
        damaged = True
    if damaged:
        raise TacitError("The ledger does not have the ranges that the run has released. Restore it to resume.")


def released_ranges(task: Task) -> dict[str, list[float]]:
    """Return the released ranges by which the records are scaled; empty before the release, or without such columns."""
    data = task.data
    if data.private is None or data.schema is None:
        return {}
    columns = {name: data.schema.columns[name].declaration() for name in data.private.names}
    return {name: each["released"] for name, each in columns.items() if isinstance(each, dict) and "released" in each}
