"""The releases of a run before it happens: what it will cost, and how much noise makes it cost what is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from tacit.privacy.accountant import grouped_rates
from tacit.privacy.bounded import Sampling
from tacit.privacy.calibration import calibrate_steps
from tacit.privacy.release import Array, Release
from tacit.privacy.steps import Steps, read_steps


class PlansReleases(Protocol):
    """The part of a privacy plan that is needed here."""

    def releases(self, t: int, nodes: npt.NDArray[np.int64], sampling: Sampling) -> Iterable[Release]: ...


class Calibratable(Protocol):
    """The part of an algorithm that is needed here."""

    @property
    def rounds(self) -> int: ...
    @property
    def privacy(self) -> PlansReleases: ...
    def with_noise(self, scale: Array) -> Self: ...


def plan(privacy_plan: PlansReleases, rounds: int, sampling: Sampling, nodes: npt.NDArray[np.int64]) -> list[Release]:
    """Return the releases of the whole run, in the order in which the ledger will hold them."""
    return [release for t in range(rounds) for release in privacy_plan.releases(t, nodes, sampling)]


def calibrated(method: Calibratable, sampling: Sampling, epsilon_: float, delta: float) -> Array:
    """The noise scale for each node, by its sampling rate, with which `method` is guaranteed to cost `epsilon_`."""
    rates = grouped_rates(sampling.kind, sampling.rate)
    scale = np.empty(len(rates))
    one = np.zeros(1, np.int64)
    unit = method.with_noise(np.ones(1))
    for rate in np.unique(rates).tolist():
        alone = Sampling(sampling.kind, np.array([rate]), sampling.relation)
        steps = read_steps(plan(unit.privacy, unit.rounds, alone, one), one)

        def steps_at(s: float, steps: Steps = steps) -> Steps:
            return Steps({step._replace(mu=step.mu / s): count for step, count in steps.items()})

        # From the same start whatever the other rates are: a site, which knows its own alone, finds the same scale.
        scale[rates == rate] = calibrate_steps(steps_at, epsilon_, delta, sampling.relation)
    return scale
