"""The releases of a run before it starts, and the noise that gives them a target ε."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from tacit.privacy.accounting.accountant import dominating_rates
from tacit.privacy.accounting.calibration import calibrate_losses
from tacit.privacy.accounting.losses import LossCounts, SampledLoss, count_losses
from tacit.privacy.release import Array, Release
from tacit.privacy.sampling import Relation, Sampling


class PlansReleases(Protocol):
    """Anything that states what the given nodes release before the first round, and in round t."""

    def preparation(self, nodes: npt.NDArray[np.int64], sampling: Sampling) -> Iterable[Release]: ...
    def releases(self, t: int, nodes: npt.NDArray[np.int64], sampling: Sampling) -> Iterable[Release]: ...


class Calibratable(Protocol):
    """Anything whose noise can be scaled: an algorithm."""

    @property
    def rounds(self) -> int: ...
    @property
    def privacy(self) -> PlansReleases: ...
    def with_noise(self, scale: Array) -> Self: ...


def plan(privacy_plan: PlansReleases, rounds: int, sampling: Sampling, nodes: npt.NDArray[np.int64]) -> list[Release]:
    """Return the releases of a whole run, in the order in which the ledger will contain them.

    Without any round there are none. If the rounds plan nothing, the preparation alone is not the plan of the run.
    """
    planned = _rounds(privacy_plan, rounds, sampling, nodes)
    return [*privacy_plan.preparation(nodes, sampling), *planned] if planned else []


def plan_of_round(
    privacy_plan: PlansReleases, t: int, sampling: Sampling, nodes: npt.NDArray[np.int64]
) -> list[Release]:
    """Return the releases of round t. The preparation belongs to round 0, which repeats it if it is interrupted."""
    before = privacy_plan.preparation(nodes, sampling) if t == 0 else ()
    return [*before, *privacy_plan.releases(t, nodes, sampling)]


def calibrate_noise(algorithm: Calibratable, sampling: Sampling, epsilon: float, delta: float) -> Array:
    """Return the noise scale per node (n,) with which the algorithm's whole run is guaranteed to be (ε, δ)-private.

    The preparation counts with the noise that it has; only the noise of the rounds is scaled.
    """
    rates = dominating_rates(sampling)
    scale = np.empty(len(rates))
    one = np.zeros(1, np.int64)
    unit = algorithm.with_noise(np.ones(1))
    for rate in np.unique(rates).tolist():
        alone = Sampling(sampling.kind, np.array([rate]), sampling.relation)
        prepared = list(unit.privacy.preparation(one, alone))
        fixed, losses = count_losses(prepared, one), count_losses(_rounds(unit.privacy, unit.rounds, alone, one), one)
        counted = tuple(fixed.items()), tuple(losses.items())
        scale[rates == rate] = _noise_scale(*counted, epsilon, delta, sampling.relation)
    return scale


_Losses = tuple[tuple[SampledLoss, int], ...]


@lru_cache(maxsize=256)  # of the runs of a sweep, many have the same losses
def _noise_scale(fixed: _Losses, losses: _Losses, epsilon: float, delta: float, relation: Relation) -> float:
    """Return the noise scale for losses with their counts, beside losses whose noise is fixed.

    The search starts at the same point for every rate, so that a site, which has one rate, finds the same scale.
    """

    def losses_at(s: float) -> LossCounts:
        found = Counter(dict(fixed))
        for loss, count in losses:  # two losses can become equal by rounding
            found[loss._replace(mu=loss.mu / s)] += count
        return found

    return calibrate_losses(losses_at, epsilon, delta, relation)


def _rounds(
    privacy_plan: PlansReleases, rounds: int, sampling: Sampling, nodes: npt.NDArray[np.int64]
) -> list[Release]:
    return [release for t in range(rounds) for release in privacy_plan.releases(t, nodes, sampling)]
