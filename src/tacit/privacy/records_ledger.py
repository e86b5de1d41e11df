"""The records ledger: all runs with secret noise on the same records, in a file that belongs to no run."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError, unknown
from tacit.privacy.budget import Budget
from tacit.privacy.populations import agreed_budget, find_population, store_budget
from tacit.privacy.recorded_runs import (
    RecordedRun,
    RecordsTotal,
    check_budget,
    pack_releases,
    planned_run,
    total_of_runs,
)
from tacit.privacy.release import Release

FOLDER_VARIABLE = "TACIT_STATE"
_FILE = "records.sqlite"
_LOCK_TIMEOUT = 120.0  # seconds to wait for the transaction of another run
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS secret (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS population (id INTEGER PRIMARY KEY, name TEXT UNIQUE, epsilon REAL, delta REAL)",
    "CREATE TABLE IF NOT EXISTS records (digest TEXT PRIMARY KEY, population INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS run (population INTEGER NOT NULL, id TEXT PRIMARY KEY, title TEXT NOT NULL, "
    "started TEXT NOT NULL, ended INTEGER NOT NULL, releases BLOB, reason TEXT) WITHOUT ROWID",
)


class RecordsLedger:
    """Adds up all runs with secret noise on the same records, and refuses a run that would exceed their budget.

    Records belong to a *population*. Records without a declared population have one of their own: it is found by a
    digest of exactly these records, keyed with a secret of this file. Other records, another order, another split or
    another preprocessing give another digest, so records that change need a declared population. A digest belongs to
    one population: no run is forgotten if a later one leaves out the name, or invents another.

    Before its first release a run is recorded with everything that it plans, and at its end with what it released. A
    run that crashes stays recorded as planned. While a run without a plan has not ended, no total is known.

    Args:
        folder: The folder of the file; by default $TACIT_STATE, or ~/.local/state/tacit/records.
    """

    def __init__(self, folder: Path | None = None) -> None:
        named = os.environ.get(FOLDER_VARIABLE)
        self.path = (folder or (Path(named) if named else Path.home() / ".local/state/tacit/records")) / _FILE

    def digest(self, arrays: Iterable[npt.NDArray[Any]]) -> str:
        """Return the keyed digest of records. Without the file, no guess of the records can be tested with it."""
        digest = hashlib.blake2b(key=self._secret(), digest_size=32)
        for array in arrays:
            digest.update(f" {array.shape} {array.dtype} ".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def digest_key(self, run: str) -> bytes:
        """Return the key of the digests in the ledger of a run.

        It outlives the key of the noise: whoever has this file can still check the digests. Each run has its own, so
        that the published ledgers of two runs do not show whether their records are equal.
        """
        return hashlib.blake2b(run.encode(), key=self._secret(), digest_size=32, person=b"tacit digests").digest()

    def _secret(self) -> bytes:
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO secret VALUES (1, ?)", (os.urandom(32),))
            (key,) = db.execute("SELECT key FROM secret").fetchone()
        return bytes(key)

    def reserve(
        self,
        run: str,
        title: str,
        records: str,
        population: str | None,
        planned: Sequence[Release],
        released: Sequence[Release],
        budget: Budget | None,
        *,
        only_check: bool = False,
    ) -> None:
        """Record a run with all its planned releases, or again a run that resumes; with `only_check`, write nothing.

        Args:
            run: The id of the run.
            title: What the run is, for lists.
            records: The digest of the records.
            population: Their declared population.
            planned: What the run plans to release; empty if it has no plan.
            released: What a run that resumes has released before.
            budget: The budget of the population, which later runs cannot raise.

        Raises:
            BudgetExceeded: All runs together would exceed the budget.
            TacitError: The records belong to another population, the budget is above the recorded one, or `released`
                lacks releases that are recorded for this run.
        """
        with self._transaction(commit=not only_check) as db:
            owner = find_population(db, records, population)
            before = next((each for each in _runs(db, owner) if each.id == run), None)
            started = datetime.now(UTC).isoformat(timespec="seconds")
            entry = planned_run(RecordedRun(run, title, started, False, None), planned, released, before)
            limit = agreed_budget(db, owner, budget)
            if limit is not None:
                check_budget(limit, [each for each in _runs(db, owner) if each.id != run], entry)
            db.execute("INSERT OR REPLACE INTO run VALUES (?, ?, ?, ?, ?, ?, ?)", (owner, *entry.as_row()))

    def leave_plan(self, run: str) -> None:
        """Record that a run makes a release that it did not plan: until it ends, its releases are unknown."""
        with self._transaction() as db:
            db.execute("UPDATE run SET ended = 0, releases = NULL WHERE id = ?", (run,))

    def finish(self, run: str, releases: Iterable[Release], reason: str | None) -> None:
        """Replace what a run planned by what it released; `reason` is why it guarantees nothing, if so."""
        values = (pack_releases(releases), reason, run)
        with self._transaction() as db:
            db.execute("UPDATE run SET ended = 1, releases = ?, reason = ? WHERE id = ?", values)

    def total(self, run: str, delta: float) -> RecordsTotal:
        """Return ε of all runs on the records of this run."""
        with self._transaction() as db:
            owner = db.execute("SELECT population FROM run WHERE id = ?", (run,)).fetchone()
            runs = [] if owner is None else _runs(db, owner[0])
        return total_of_runs(runs, delta)

    def find(self, population: str) -> tuple[int, list[RecordedRun], Budget | None]:
        """Return the number, the runs and the budget of a population, given by its name or as "#number"."""
        with self._transaction() as db:
            rows = db.execute("SELECT id, name FROM population").fetchall()
            names = {name or f"#{number}": number for number, name in rows}
            number = {**{f"#{number}": number for number, _ in rows}, **names}.get(population)
            if number is None:
                raise unknown("population", population, names) if names else TacitError(f"{self.path} has no runs yet")
            return number, _runs(db, number), agreed_budget(db, number, None)

    def set_budget(self, number: int, budget: Budget) -> None:
        """Replace the budget of a population."""
        with self._transaction() as db:
            store_budget(db, number, budget)

    @contextmanager
    def _transaction(self, *, commit: bool = True) -> Iterator[sqlite3.Connection]:
        """One connection per use, because runs may be in threads. What the block writes is durable when it ends."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            with closing(sqlite3.connect(self.path, _LOCK_TIMEOUT, isolation_level=None)) as db:
                db.execute("PRAGMA synchronous = EXTRA")  # also syncs the folder, so that no commit is lost
                db.execute("BEGIN IMMEDIATE")
                for table in _SCHEMA:
                    db.execute(table)
                yield db
                db.execute("COMMIT" if commit else "ROLLBACK")
        except (OSError, sqlite3.Error) as error:
            raise TacitError(
                f"The records ledger {self.path} cannot be used: {error}. It adds up all runs on the same records; set "
                f"{FOLDER_VARIABLE} to a folder where it can stay"
            ) from None


def _runs(db: sqlite3.Connection, population: int) -> list[RecordedRun]:
    query = "SELECT id, title, started, ended, releases, reason FROM run WHERE population = ? ORDER BY started"
    return [RecordedRun.from_row(row) for row in db.execute(query, (population,))]
