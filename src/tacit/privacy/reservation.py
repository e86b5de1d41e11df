"""A run's entry in the records ledger: written before the first release, replaced at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.privacy.budget import Budget
from tacit.privacy.exact_values import ExactUse
from tacit.privacy.recorded_runs import RecordsTotal, is_planned
from tacit.privacy.records_ledger import RecordsLedger
from tacit.privacy.statement import Privacy

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger
    from tacit.privacy.noise import Noise
    from tacit.privacy.release import Release


class Reservation:
    """Keeps the entry of one run up to date. It belongs to the run's ledger, which calls `begin` and `admit`.

    A run that resumes is the same run, and counts once. Unless it has an id of its own, its id is a digest of its noise
    key: a site that restarts has the same key, and a new key is a new run.

    Privacy:
        The entry always covers what the run has released: before the first value is computed from records, it is the
        whole plan; before a release that is not planned, or an exact value that may leave the node, it becomes
        "unknown"; at the end, it is the ledger.

    Args:
        noise: The run's noise.
        nodes: The ids of the hosted nodes.
        records: The arrays of all its records.
        planned: What the run plans to release; empty if it has no plan.
        title: What the run is, for lists.
        delta: The δ of the total.
        population: The declared population.
        budget: The ε that all runs on these records may reach together.
        exact_values_stay_local: Whether exact values that are used inside a node are known not to influence messages.
        run: The id of a run that can have several noise keys, one after the other.
    """

    def __init__(
        self,
        noise: Noise,
        nodes: npt.NDArray[np.int64],
        records: Iterable[npt.NDArray[Any]],
        planned: Sequence[Release],
        *,
        title: str,
        delta: float,
        population: str | None = None,
        budget: float | None = None,
        exact_values_stay_local: bool = False,
        run: str | None = None,
    ) -> None:
        hosted = hashlib.blake2b(nodes.astype(np.int64).tobytes(), digest_size=4).hexdigest()
        self.delta, self._run = delta, f"{run or noise.fingerprint}-{hosted}"
        self._title, self._population = title, population
        self._budget = None if budget is None else Budget(budget, delta)
        self._records_ledger = RecordsLedger()
        self._records = self._records_ledger.digest(records)
        self._planned = {(line.step, line.purpose): line for line in planned}
        self._local_values_are_safe = exact_values_stay_local
        self._begun = False
        self._covered = bool(planned)  # whether the entry covers what is released
        self._total: RecordsTotal | None = None

    @property
    def run(self) -> str:
        """The id of the run in the records ledger."""
        return self._run

    def check(self, ledger: Ledger) -> None:
        """Raise TacitError if the run would be refused. Nothing is written."""
        self._reserve(ledger, only_check=True)

    def begin(self, ledger: Ledger) -> None:
        """Write the entry, if it is not there: the whole plan, and what the run has released before it resumed."""
        if not self._begun:
            self._reserve(ledger)
            self._begun = True
            ledger.values.on_use = self._note_exact_value

    def admit(self, release: Release) -> None:
        """Note a release. One that is not planned makes the entry unknown until the end of the run."""
        if not is_planned(self._planned, release):
            self.leave_plan()

    def leave_plan(self) -> None:
        """Make the entry unknown until the end of the run."""
        if self._covered:
            self._records_ledger.leave_plan(self._run)
            self._covered = False

    def end(self, releases: Iterable[Release], reason: str | None) -> None:
        """Replace the entry by what the run has released, and compute the total; `reason` is why nothing is guaranteed.

        The run may continue: then `begin` reserves its plan again. A run that released nothing has no entry.
        """
        self._records_ledger.finish(self._run, releases, reason)
        self._begun, self._covered = False, bool(self._planned)
        self._total = self._records_ledger.total(self._run, self.delta)

    def stated(self, privacy: Privacy) -> Privacy:
        """Return the statement with the total of all runs, once the run has ended."""
        if self._total is None:
            return privacy
        total, runs, reason, _ = self._total
        return replace(privacy, total=total, runs=runs, total_reason=reason)

    def _note_exact_value(self, use: ExactUse) -> None:
        if use == "read" or not self._local_values_are_safe:
            self.leave_plan()

    def _reserve(self, ledger: Ledger, *, only_check: bool = False) -> None:
        self._records_ledger.reserve(
            self._run,
            self._title,
            self._records,
            self._population,
            list(self._planned.values()),
            list(ledger.releases()),
            self._budget,
            only_check=only_check,
        )
