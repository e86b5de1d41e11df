"""The database of a ledger: its releases, their vectors, and the releases that wait to be written as one block."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError

Array = npt.NDArray[np.float64]
ReleaseRow = tuple[int, str, str, str, str, str, str, str]
"""Step, purpose, mechanism, its parameters, sampling kind, sampling rates, relation and unit."""

_BLOCK = 512  # releases that wait at most
_MAX_VECTOR_IDS = 10_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector (id TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS release (
    step INTEGER NOT NULL, purpose TEXT NOT NULL, mechanism TEXT NOT NULL, parameters TEXT NOT NULL,
    sampling TEXT NOT NULL, rates TEXT NOT NULL, relation TEXT NOT NULL, unit TEXT NOT NULL, PRIMARY KEY (step, purpose)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS exact_value (state TEXT, step INTEGER, purpose TEXT, PRIMARY KEY (state, step, purpose))
WITHOUT ROWID;
"""


class ReleaseTable:
    """The database of a ledger, in a file or in memory.

    Releases of a simulation may wait in this object (`add` with `wait`). Everything that reads the database uses `db`,
    which writes them first. So no reader ever sees fewer releases than were made. If they cannot be written, the
    database cannot be used any more: what it has would be too little.

    Args:
        path: The file; None: in memory.
        durable: Sync every release to disk before `add` returns; none waits.
    """

    def __init__(self, path: Path | None, *, durable: bool = False) -> None:
        self.path, self._durable = path, durable
        self._waiting: dict[tuple[int, str], ReleaseRow] = {}
        self._new_vectors: dict[str, bytes] = {}
        self._vector_ids: set[str] = set()  # of vectors that are in the database, or wait
        self._last: int | None = None  # the last step in the database; None: not known
        self._failure: sqlite3.Error | None = None
        with disk_errors(path):
            # Nodes may run in threads, but only one thread at a time uses a ledger.
            self._connection = sqlite3.connect(path or ":memory:", check_same_thread=False)
            if durable:  # unlike a rollback journal, it needs no sync of the folder
                self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
            self._connection.executescript(_SCHEMA)

    @property
    def db(self) -> sqlite3.Connection:
        """The database with all releases. Whoever has it may change it, so nothing is assumed about it afterwards."""
        with disk_errors(self.path):
            self._write()
        self._forget()
        return self._connection

    def add(self, row: ReleaseRow, *, wait: bool = False) -> None:
        """Add a release. With `wait`, it may be written later, but before `db` is used.

        Raises:
            TacitError: The step has released the purpose before, or the release cannot be written.
        """
        step, purpose = row[:2]
        with disk_errors(self.path):
            self._check()
            if (step, purpose) in self._waiting or self._is_stored(step, purpose):
                raise TacitError(
                    f'Step {step} has already released "{purpose}"; a second value needs its own purpose'
                ) from None
            self._waiting[step, purpose] = row
            if self._durable or not wait or len(self._waiting) >= _BLOCK:
                self._write()
            if self._durable:
                self.commit()

    def commit(self) -> None:
        """Write everything to the file."""
        with disk_errors(self.path):
            self._write()
            with self._failing():
                self._connection.commit()

    def last_step(self) -> int:
        """The last step with a release; −1 if there is none."""
        with disk_errors(self.path):
            self._check()
            return max(self._last_written(), max((step for step, _ in self._waiting), default=-1))

    def vector(self, values: Array) -> str:
        """Store a vector once, by its content, and return its id: vectors repeat from round to round."""
        data = np.ascontiguousarray(values, np.float64).tobytes()
        key = hashlib.blake2b(data, digest_size=16).hexdigest()
        if key not in self._vector_ids:
            if len(self._vector_ids) >= _MAX_VECTOR_IDS:
                self._vector_ids.clear()
            self._vector_ids.add(key)
            self._new_vectors[key] = zlib.compress(data, 1)
        return key

    def _write(self) -> None:
        """Write the waiting releases and their vectors to the database, all or none."""
        self._check()
        if not self._waiting and not self._new_vectors:
            return
        with self._failing():
            self._connection.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?)", self._new_vectors.items())
            rows = self._waiting.values()
            self._connection.executemany("INSERT INTO release VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        if self._waiting:
            self._last = max(self._last_written(), max(step for step, _ in self._waiting))
        self._waiting.clear()
        self._new_vectors.clear()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """If writing fails, go back to the last commit. Releases that were made since then are then missing for ever.

        A durable database commits every release before it is made: none is missing.
        """
        try:
            yield
        except sqlite3.Error as error:
            self._waiting.clear()
            self._new_vectors.clear()
            self._forget()
            self._failure = None if self._durable else error
            with suppress(sqlite3.Error):
                self._connection.rollback()
            raise

    def _is_stored(self, step: int, purpose: str) -> bool:
        if step > self._last_written():
            return False
        query = "SELECT 1 FROM release WHERE step = ? AND purpose = ?"
        return self._connection.execute(query, (step, purpose)).fetchone() is not None

    def _last_written(self) -> int:
        if self._last is None:
            query = "SELECT COALESCE(MAX(step), -1) FROM release"
            self._last = int(self._connection.execute(query).fetchone()[0])
        return self._last

    def _forget(self) -> None:
        self._last = None
        self._vector_ids.clear()


def unpack_vector(data: bytes) -> Array:
    """Return the vector that is stored as `data`."""
    values = np.frombuffer(zlib.decompress(data))
    # If all nodes have the same value, it is stored once: thousands of rounds of thousands of nodes fit in memory.
    return np.broadcast_to(values[:1].copy(), values.shape) if (values == values[:1]).all() else values


@contextmanager
def disk_errors(path: Path | None) -> Iterator[None]:
    """Turn errors of the database into a TacitError that names its file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.IntegrityError):
            raise
        raise TacitError(f"The ledger {path or 'in memory'} cannot be used: {error}") from None
