"""The ledger: every release is recorded before it leaves. Every ε of a run is computed from the ledger alone."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.exact_values import ExactValues
from tacit.privacy.mechanisms import Mechanism, check_registered, mechanism_from_ledger
from tacit.privacy.release import Release
from tacit.privacy.sampling import Relation, Sampling

if TYPE_CHECKING:
    from tacit.privacy.budget import Budget
    from tacit.privacy.ledger_facts import LedgerFacts
    from tacit.privacy.release_journal import ReleaseJournal
    from tacit.privacy.reservation import Reservation

Array = npt.NDArray[np.float64]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector (id TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS release (
    step INTEGER NOT NULL, purpose TEXT NOT NULL, mechanism TEXT NOT NULL, parameters TEXT NOT NULL,
    sampling TEXT NOT NULL, rates TEXT NOT NULL, relation TEXT NOT NULL, unit TEXT NOT NULL, PRIMARY KEY (step, purpose)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS exact_value (state TEXT, step INTEGER, purpose TEXT, PRIMARY KEY (state, step, purpose))
WITHOUT ROWID;
"""


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
        with _disk(path):
            # Nodes may run in threads, but only one thread at a time uses a ledger.
            self._db = sqlite3.connect(path or ":memory:", check_same_thread=False)
            if durable:  # unlike a rollback journal, it needs no sync of the folder
                self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
            self._db.executescript(_SCHEMA)
            self.values = ExactValues(self._db.execute("SELECT state, step, purpose FROM exact_value"))
        self._path = path
        self._repeated: set[tuple[int, str]] = set()
        self._kind: tuple[str, str] | None = None  # the relation and unit of all releases

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

    def record(self, release: Release) -> None:
        """Record a release, or raise TacitError if it exceeds the budget or was made before."""
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
        with _disk(self._path):
            drawn = sampling.kind, self._vector(sampling.rate), sampling.relation
            row = (step, purpose, *self._stored(release), *drawn, release.unit)
            try:
                self._db.execute("INSERT INTO release VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise TacitError(
                    f'Step {step} has already released "{purpose}"; a second value needs its own purpose'
                ) from None
            if self.durable:
                self._db.commit()

    def _check_comparable(self, release: Release) -> None:
        """Refuse a release whose relation or unit differs from those in the ledger: one ε cannot describe both."""
        asked = (release.sampling.relation, release.unit)
        if self._kind is None:
            with _disk(self._path):
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
        with _disk(self._path):
            vectors = {key: _unpack(data) for key, data in self._db.execute("SELECT id, data FROM vector")}
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

        return LedgerFacts(self._db, self._path)

    @property
    def unreleased(self) -> list[tuple[int, str]]:
        """(step, purpose) of values that were computed from records and neither released nor used locally."""
        return sorted(self.values.open)

    @property
    def steps(self) -> int:
        """One more than the last step that released or computed anything.

        It is read from the file, because a full disk can revert releases that were not flushed.
        """
        return self._steps_before(sys.maxsize)

    @property
    def steps_repeated(self) -> int:
        """The steps without those that a run that resumed has not repeated yet."""
        return self._steps_before(min((step for step, _ in self._repeated), default=sys.maxsize))

    def _steps_before(self, end: int) -> int:
        query = "SELECT COALESCE(MAX(step), -1) FROM release WHERE step < ?"
        released = self._db.execute(query, (end,)).fetchone()[0]
        return 1 + max(int(released), max((step for step, _ in self.values.open), default=-1))

    def __len__(self) -> int:
        return int(self._db.execute("SELECT COUNT(*) FROM release").fetchone()[0])

    def rewind(self, step: int) -> None:
        """Delete the releases from `step` on. Only for simulations, which repeat them with the same seed and bytes."""
        with _disk(self._path):
            self._db.execute("DELETE FROM release WHERE step >= ?", (step,))
        self._kind = None
        self.values.rewind(step)

    def flush(self) -> None:
        """Write everything to the file."""
        with _disk(self._path):
            self._db.execute("DELETE FROM exact_value")
            self._db.executemany("INSERT INTO exact_value VALUES (?, ?, ?)", self.values.rows())
            self._db.commit()

    def _stored(self, release: Release) -> tuple[str, str]:
        """The mechanism's name and its parameters as JSON, with vectors replaced by their ids."""
        check_registered(release.mechanism)
        entries = release.mechanism.to_ledger(len(release.rates))
        stored = {
            key: value if isinstance(value, str) else {"vector": self._vector(value)} for key, value in entries.items()
        }
        return release.mechanism.name, json.dumps(stored)

    def _vector(self, values: Array) -> str:
        """Store a vector once, by its content, and return its id: vectors repeat from round to round."""
        return store_vector(self._db, values)


def store_vector(db: sqlite3.Connection, values: Array) -> str:
    data = np.ascontiguousarray(values, np.float64).tobytes()
    key = hashlib.blake2b(data, digest_size=16).hexdigest()
    db.execute("INSERT OR IGNORE INTO vector VALUES (?, ?)", (key, zlib.compress(data, 1)))
    return key


def _unpack(data: bytes) -> Array:
    values = np.frombuffer(zlib.decompress(data))
    # If all nodes have the same value, it is stored once: thousands of rounds of thousands of nodes fit in memory.
    return np.broadcast_to(values[:1].copy(), values.shape) if (values == values[:1]).all() else values


@contextmanager
def _disk(path: Path | None) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        raise TacitError(f"The ledger {path or 'in memory'} cannot be used: {error}") from None
