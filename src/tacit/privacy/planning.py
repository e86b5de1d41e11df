"""The releases of a run before it happens: what it will cost, and how much noise makes it cost what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from tacit.privacy.accountant import dominating_rates, epsilon
from tacit.privacy.bounded import Sampling, SamplingKind
from tacit.privacy.calibration import calibrate_steps
from tacit.privacy.events import stream
from tacit.privacy.ledger import Array, Release
from tacit.privacy.mechanism import Mechanism
from tacit.privacy.steps import Steps, read_steps


class Planned(NamedTuple):
    """A release to come: the draw of records it is made from, its name, and its mechanism."""

    step: int
    mechanism: Mechanism
    purpose: str = "gradient"


class PlansReleases(Protocol):
    """The part of a privacy plan that is needed here."""

    def releases(self, t: int, nodes: npt.NDArray[np.int64]) -> Iterable[Planned]: ...


class Calibratable(Protocol):
    """The part of an algorithm that is needed here."""

    @property
    def rounds(self) -> int: ...
    @property
    def privacy(self) -> PlansReleases: ...
    def with_noise(self, scale: Array) -> Self: ...


def plan(privacy_plan: PlansReleases, rounds: int, sampling: Sampling, nodes: npt.NDArray[np.int64]) -> list[Release]:
    """The ledger of the whole run, line by line, as it will be."""
    return [
        Release(
            step,
            purpose,
            mechanism.name,
            mechanism.multipliers(len(nodes)),
            sampling.kind,
            sampling.rate,
            sampling.relation,
        )
        for t in range(rounds)
        for step, mechanism, purpose in privacy_plan.releases(t, nodes)
    ]


def _rates(kind: SamplingKind, rates: Array) -> Array:
    """Rates, near ones raised to one value. Those of a permutation stay: shorter epochs do not dominate longer ones."""
    return rates if kind == "permutation" else dominating_rates(rates)


def classes(lines: Sequence[Release]) -> list[npt.NDArray[np.intp]]:
    """Nodes in groups whose costs are near enough to be computed once, as the cost of the worst of them."""
    noise = np.array([line.multipliers for line in (lines[0], lines[-1])])
    with np.errstate(divide="ignore"):
        keys = [_rates(lines[0].sampling, lines[0].rates), *(dominating_rates(row) for row in 1 / noise)]
    _, group = np.unique(np.array(keys), axis=1, return_inverse=True)
    return [np.flatnonzero(group == g) for g in range(group.max() + 1)]


def guarantee(lines: Iterable[Release], delta: float) -> Array:
    """Each node's guaranteed ε for these releases; infinite where something left without noise."""
    lines = list(lines)
    if not lines:
        return np.zeros(0)
    spent = np.empty(len(lines[0].rates))
    for members in classes(lines):
        spent[members] = epsilon(stream(lines, members), delta, lines[0].relation)
    return spent


def calibrated(method: Calibratable, sampling: Sampling, epsilon_: float, delta: float) -> Array:
    """The noise scale for each node, by its sampling rate, with which `method` is guaranteed to cost `epsilon_`."""
    rates = _rates(sampling.kind, sampling.rate)
    scale = np.empty(len(rates))
    one = np.zeros(1, np.int64)
    unit = method.with_noise(np.ones(1))
    for rate in np.unique(rates).tolist():
        alone = Sampling(sampling.kind, np.array([rate]), sampling.relation)
        steps = read_steps(stream(plan(unit.privacy, unit.rounds, alone, one), one), sampling.relation)

        def steps_at(s: float, steps: Steps = steps) -> Steps:
            return Steps({step._replace(mu=step.mu / s): count for step, count in steps.items()})

        # From the same start whatever the other rates are: a site, which knows its own alone, finds the same scale.
        scale[rates == rate] = calibrate_steps(steps_at, epsilon_, delta, sampling.relation)
    return scale
