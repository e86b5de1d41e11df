"""Privacy budgets: a release that would exceed the budget is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tacit.errors import BudgetExceeded, TacitError
from tacit.privacy.accounting import guarantee
from tacit.privacy.statement import rounded_up

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger
    from tacit.privacy.release import Release

_LOOK_AHEAD = (4096, 512, 64, 8, 1)  # releases that one computation admits at once, if they fit
_NOISE_MARGIN = 1.02  # factor by which the noise may shrink among them


@dataclass
class Budget:
    """An upper bound on (ε, δ) of every node, for everything that it ever releases.

    >>> Budget(-1.0, 1e-5)
    Traceback (most recent call last):
    tacit.errors.TacitError: The epsilon of a privacy budget must be positive and finite, got -1.0
    """

    epsilon: float
    delta: float
    _planned: dict[tuple[int, str], Release] = field(default_factory=dict, repr=False)
    _begun: bool = field(default=False, repr=False)
    _covered: tuple[Release, int] | None = field(default=None, repr=False)
    _beyond: Release | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or math.isinf(self.epsilon):
            raise TacitError(f"The epsilon of a privacy budget must be positive and finite, got {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise TacitError(f"The delta of a privacy budget must be in [0, 1), got {self.delta}")

    def accept(self, plan: Iterable[Release]) -> None:
        """Check a plan once. Its releases, as far as they fit, are then admitted without another computation."""
        plan = list(plan)
        fits, tried = 0, len(plan)
        most = tried
        while tried > fits:
            if guarantee(plan[:tried], self.delta).max() <= self.epsilon:
                fits = tried
            else:
                most = tried - 1
            tried = (fits + most + 1) // 2
        self._planned = {(line.step, line.purpose): line for line in plan[:fits]}
        self._beyond = plan[fits] if fits < len(plan) else None

    @property
    def covers(self) -> bool:
        """Whether the whole plan fits."""
        return self._beyond is None

    def for_nodes(self, nodes: npt.NDArray[np.int64]) -> SharedBudget:
        """Return the budget of a process that hosts these nodes of the accepted plan."""
        return SharedBudget(self.epsilon, self.delta, self._planned, _beyond=self._beyond, nodes=nodes)

    def admit(self, ledger: Ledger, line: Release) -> None:
        """Return if `line` fits in addition to the ledger; otherwise raise BudgetExceeded."""
        if not self._begun and not all(self._as_planned(made) for made in ledger.releases()):
            self._planned = {}
        self._begun = True
        if self._as_planned(line):
            return
        self._planned = {}  # the run left its plan: from here on every release is checked
        past = list(ledger.releases(line.step))
        alone = not past  # a second release of the same draw is amplified together with the first
        if (
            alone
            and self._covered is not None
            and self._covered[1] > 0
            and line.is_at_least_as_private_as(self._covered[0])
        ):
            self._covered = (self._covered[0], self._covered[1] - 1)
            return
        past = list(ledger.releases())
        # Which draws share an epoch depends on the steps to come, so epochs are not looked ahead.
        independent = line.sampling.scheme.epoch(line.step, float(line.rates.max())) is None
        for ahead in _LOOK_AHEAD if alone and independent else (1,):
            worse = line.with_values(line.multipliers / _NOISE_MARGIN) if ahead > 1 else line
            future = [replace(worse, step=line.step + k) for k in range(ahead)]
            if guarantee(past + future, self.delta).max() <= self.epsilon:
                self._covered = (worse, ahead - 1)
                return
        self._refuse(past, line)

    def _as_planned(self, line: Release) -> bool:
        expected = self._planned.get((line.step, line.purpose))
        return expected is not None and line.is_at_least_as_private_as(expected)

    def _refuse(self, past: list[Release], line: Release) -> None:
        spent = guarantee([*past, line], self.delta)
        before = guarantee(past, self.delta) if past else np.zeros(len(spent))
        row = int(spent.argmax())
        raise BudgetExceeded(
            f"The privacy budget ε = {self.epsilon:g}, δ = {self.delta:g} ends before step {line.step}: node {row} has "
            f"spent {rounded_up(before[row])}, and the next release would increase it to {rounded_up(spent[row])}"
        )


@dataclass
class SharedBudget(Budget):
    """The budget of nodes that several processes host.

    All processes must refuse the same release without communication: the first in the plan of all nodes that does not
    fit. A release that is not in the plan is refused.
    """

    nodes: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def admit(self, ledger: Ledger, line: Release) -> None:
        planned = self._begun or all(self._as_planned(made) for made in ledger.releases())
        if planned and (line.step, line.purpose) not in self._planned and self._beyond is not None:
            self._refuse(list(self._planned.values()), self._beyond)
        if not planned or not self._as_planned(line):
            raise TacitError(
                f"A budget of several processes admits planned releases only; step {line.step} is not as planned"
            )
        self._begun = True

    def _as_planned(self, line: Release) -> bool:
        whole = self._planned.get((line.step, line.purpose))
        if whole is None:
            return False
        return line.is_at_least_as_private_as(whole.for_rows(self.nodes))
