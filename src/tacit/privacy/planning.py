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
    """Anything that states what the given nodes release in round t."""

    def releases(self, t: int, nodes: npt.NDArray[np.int64], sampling: Sampling) -> Iterable[Release]: ...


class Calibratable(Protocol):
    """Anything whose noise can be scaled: an algorithm."""

    @property
    def rounds(self) -> int: ...
    @property
    def privacy(self) -> PlansReleases: ...
    def with_noise(self, scale: Array) -> Self: ...


def plan(privacy_plan: PlansReleases, rounds: int, sampling: Sampling, nodes: npt.NDArray[np.int64]) -> list[Release]:
    """Return the releases of a whole run, in the order in which the ledger will contain them."""
    return [release for t in range(rounds) for release in privacy_plan.releases(t, nodes, sampling)]


def calibrate_noise(algorithm: Calibratable, sampling: Sampling, epsilon: float, delta: float) -> Array:
    """Return the noise scale per node (n,) with which the algorithm's whole run is guaranteed to be (ε, δ)-private."""
    rates = dominating_rates(sampling)
    scale = np.empty(len(rates))
    one = np.zeros(1, np.int64)
    unit = algorithm.with_noise(np.ones(1))
    for rate in np.unique(rates).tolist():
        alone = Sampling(sampling.kind, np.array([rate]), sampling.relation)
        losses = count_losses(plan(unit.privacy, unit.rounds, alone, one), one)
        scale[rates == rate] = _noise_scale(tuple(losses.items()), epsilon, delta, sampling.relation)
    return scale


@lru_cache(maxsize=256)  # of the runs of a sweep, many have the same losses
def _noise_scale(
    losses: tuple[tuple[SampledLoss, int], ...], epsilon: float, delta: float, relation: Relation
) -> float:
    """Return the noise scale for losses with their counts.

    The search starts at the same point for every rate, so that a site, which has one rate, finds the same scale.
    """

    def losses_at(s: float) -> LossCounts:
        return Counter({loss._replace(mu=loss.mu / s): count for loss, count in losses})

    return calibrate_losses(losses_at, epsilon, delta, relation)
