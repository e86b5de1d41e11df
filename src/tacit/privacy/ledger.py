"""The ledger: every release is recorded before it leaves. Every ε of a run is computed from the ledger alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.exact_values import ExactValues
from tacit.privacy.mechanisms import Mechanism, check_registered, mechanism_from_ledger
from tacit.privacy.release import Release
from tacit.privacy.release_table import ReleaseTable, disk_errors, unpack_vector
from tacit.privacy.sampling import Relation, Sampling

if TYPE_CHECKING:
    from tacit.privacy.budget import Budget
    from tacit.privacy.ledger_facts import LedgerFacts
    from tacit.privacy.release_journal import ReleaseJournal
    from tacit.privacy.reservation import Reservation


class Ledger:
    """The releases of the hosted nodes.

    A pair (step, purpose) is released once: a second value would get the same noise, and their difference would be
    exact. All releases have the same neighbouring relation and the same unit: ε is a statement about one of each.

    Attributes:
        values: The values that were computed from records and not released, or seen without noise.
        reservation: The run's entry in the records ledger, if its noise is secret.
        journal: Compares released values with those of before, if the run can resume with secret noise.

    Args:
        path: An SQLite file; None keeps the ledger in memory.
        budget: Refuses releases that would exceed it.
        durable: Sync every release to disk before the value can leave. A crash can then only over-count.
    """

    def __init__(self, path: Path | None = None, *, budget: Budget | None = None, durable: bool = False) -> None:
        self.budget = budget
        self.reservation: Reservation | None = None
        self.journal: ReleaseJournal | None = None
        self.durable = durable
        self._table = ReleaseTable(path, durable=durable)
        with disk_errors(path):
            self.values = ExactValues(self._db.execute("SELECT state, step, purpose FROM exact_value"))
        self._repeated: set[tuple[int, str]] = set()
        self._kind: tuple[str, str] | None = None  # the relation and unit of all releases

    @property
    def _db(self) -> sqlite3.Connection:
        """The database, with every release that was recorded."""
        return self._table.db

    def repeat(self, step: int) -> None:
        """Expect the releases from `step` on once more, with the same noise: a run repeats them when it resumes.

        They stay in the ledger. A release that is recorded again must be identical.
        """
        self._repeated = {(release.step, release.purpose) for release in self.releases(step)}
        self.values.rewind(step)

    def open(self, step: int, purpose: str) -> None:
        """Note that a value was computed from records. Until it is released or used locally, nothing is guaranteed."""
        if self.reservation is not None:
            self.reservation.begin(self)
        self.values.add(step, purpose)

    def close(self, step: int, purpose: str) -> None:
        """Note that the value is released, or used inside the node only."""
        self.values.open.discard((step, purpose))

    def record(self, release: Release, *, simulated: bool = False) -> None:
        """Record a release, or raise TacitError if it exceeds the budget or was made before.

        A simulation writes its releases in blocks: the next reader of the ledger, or `flush`, writes those that wait.
        All other releases are written before this method returns.
        """
        step, purpose, sampling = release.step, release.purpose, release.sampling
        if self.reservation is not None:
            self.reservation.begin(self)
            self.reservation.admit(release)
        self.close(step, purpose)
        if (step, purpose) in self._repeated:
            self._repeated.discard((step, purpose))
            self._check_same(release)
            return
        self._check_comparable(release)
        if self.budget is not None:
            self.budget.admit(self, release)
        drawn = sampling.kind, self._table.vector(sampling.rate), sampling.relation
        self._table.add((step, purpose, *self._stored(release), *drawn, release.unit), wait=simulated)

    def _check_comparable(self, release: Release) -> None:
        """Refuse a release whose relation or unit differs from those in the ledger: one ε cannot describe both."""
        asked = (release.sampling.relation, release.unit)
        if self._kind is None:
            with disk_errors(self._table.path):
                self._kind = self._db.execute("SELECT relation, unit FROM release LIMIT 1").fetchone() or asked
        if asked != self._kind:
            raise TacitError(
                f'Step {release.step} would release "{release.purpose}" for relation "{asked[0]}" and unit '
                f'"{asked[1]}", but this ledger has releases for "{self._kind[0]}" and "{self._kind[1]}": use one '
                "relation and one unit for a run"
            )

    def _check_same(self, release: Release) -> None:
        before = next(each for each in self.releases(release.step) if each.purpose == release.purpose)
        one, other = (
            (*self._stored(each), each.sampling.kind, each.sampling.relation, each.unit) for each in (before, release)
        )
        if before.step != release.step or one != other or not np.array_equal(before.rates, release.rates):
            raise TacitError(
                f'Step {release.step} has already released "{release.purpose}" with other noise or other sampling, '
                "so this release is refused"
            )

    def releases(self, start: int = 0) -> Iterator[Release]:
        """Yield the releases from step `start` on, in order."""
        with disk_errors(self._table.path):
            vectors = {key: unpack_vector(data) for key, data in self._db.execute("SELECT id, data FROM vector")}
            rows = self._db.execute("SELECT * FROM release WHERE step >= ? ORDER BY step, purpose", (start,)).fetchall()
        mechanisms: dict[tuple[str, str], Mechanism] = {}
        samplings: dict[tuple[str, str, Relation], Sampling] = {}
        for step, purpose, mechanism, parameters, kind, rates, relation, unit in rows:
            if (mechanism, parameters) not in mechanisms:
                entries = {
                    key: value if isinstance(value, str) else vectors[value["vector"]]
                    for key, value in json.loads(parameters).items()
                }
                mechanisms[mechanism, parameters] = mechanism_from_ledger(mechanism, entries)
            sampling = samplings.setdefault((kind, rates, relation), Sampling(kind, vectors[rates], relation))
            yield Release(step, purpose, mechanisms[mechanism, parameters], sampling, unit)

    def to_dp_events(self) -> list[Any]:
        """Return one `dp_accounting` event per hosted node; see `tacit.privacy.dp_events`."""
        from tacit.privacy.dp_events import to_dp_events

        return to_dp_events(list(self.releases()))

    @property
    def facts(self) -> LedgerFacts:
        """What the ledger records about the run besides its releases."""
        from tacit.privacy.ledger_facts import LedgerFacts

        return LedgerFacts(self._table)

    @property
    def unreleased(self) -> list[tuple[int, str]]:
        """(step, purpose) of values that were computed from records and neither released nor used locally."""
        return sorted(self.values.open)

    @property
    def steps(self) -> int:
        """One more than the last step that released or computed anything."""
        return self._steps_after(self._table.last_step())

    @property
    def steps_repeated(self) -> int:
        """The steps without those that a run that resumed has not repeated yet."""
        if not self._repeated:
            return self.steps
        query = "SELECT COALESCE(MAX(step), -1) FROM release WHERE step < ?"
        return self._steps_after(self._db.execute(query, (min(step for step, _ in self._repeated),)).fetchone()[0])

    def _steps_after(self, last: int) -> int:
        return 1 + max(last, max((step for step, _ in self.values.open), default=-1))

    def __len__(self) -> int:
        return int(self._db.execute("SELECT COUNT(*) FROM release").fetchone()[0])

    def rewind(self, step: int) -> None:
        """Delete the releases from `step` on. Only for simulations, which repeat them with the same seed and bytes."""
        with disk_errors(self._table.path):
            self._db.execute("DELETE FROM release WHERE step >= ?", (step,))
        self._kind = None
        self.values.rewind(step)

    def flush(self) -> None:
        """Write everything to the file."""
        with disk_errors(self._table.path):
            self._db.execute("DELETE FROM exact_value")
            self._db.executemany("INSERT INTO exact_value VALUES (?, ?, ?)", self.values.rows())
        self._table.commit()

    def _stored(self, release: Release) -> tuple[str, str]:
        """The mechanism's name and its parameters as JSON, with vectors replaced by their ids."""
        check_registered(release.mechanism)
        entries = release.mechanism.to_ledger(len(release.rates))
        stored = {
            key: value if isinstance(value, str) else {"vector": self._table.vector(value)}
            for key, value in entries.items()
        }
        return release.mechanism.name, json.dumps(stored)
