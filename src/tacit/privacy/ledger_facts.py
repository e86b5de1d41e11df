"""What a ledger records besides releases: facts about the run, and digests that chain its releases."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote

from tacit.errors import TacitError
from tacit.privacy.exact_values import ExactValues
from tacit.privacy.ledger import Ledger
from tacit.privacy.release_table import Array, ReleaseTable, disk_errors, unpack_vector

_FACTS = "CREATE TABLE IF NOT EXISTS fact (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_MARKS = "CREATE TABLE IF NOT EXISTS mark (round INTEGER PRIMARY KEY, steps INTEGER NOT NULL, digest TEXT NOT NULL)"
_TABLES = ("vector", "exact_value", "fact", "mark")
_NO_LIMIT = 1 << 62


class Mark(NamedTuple):
    """The ledger at an evaluation: its steps so far, and the digest of all releases of these steps."""

    round: int
    steps: int
    digest: str


class LedgerFacts:
    """Facts about a run, such as its config and its start, as JSON values in the ledger's file.

    The digest of the releases is a chain: h(i) = H(h(i − 1), release i). It is computed when a mark is set and not for
    every release, so it costs a run nothing.

    Example:
        >>> facts = Ledger().facts
        >>> facts.write(seed=3, versions={"tacit": "0.1.0"})
        >>> facts.read()
        {'seed': 3, 'versions': {'tacit': '0.1.0'}}
    """

    def __init__(self, table: ReleaseTable) -> None:
        self._table = table
        with disk_errors(table.path):
            db = table.db
            db.execute(_FACTS)
            db.execute(_MARKS)

    @property
    def _db(self) -> sqlite3.Connection:
        return self._table.db

    def read(self) -> dict[str, Any]:
        """All facts by their keys."""
        with disk_errors(self._table.path):
            rows = self._db.execute("SELECT key, value FROM fact ORDER BY key").fetchall()
        try:
            return {key: json.loads(value) for key, value in rows}
        except (TypeError, ValueError):
            raise TacitError(f"The ledger {self._table.path or 'in memory'} has a fact that is not JSON") from None

    def write(self, **facts: Any) -> None:
        """Write facts, in place of earlier ones with the same keys."""
        rows = [(key, json.dumps(value, sort_keys=True, allow_nan=False)) for key, value in facts.items()]
        with disk_errors(self._table.path):
            self._db.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", rows)
            self._db.commit()

    def write_vector(self, values: Array) -> str:
        """Store a vector in the ledger's file, and return its id, which is a digest of it."""
        with disk_errors(self._table.path):
            key = self._table.vector(values)
            self._table.commit()
        return key

    def read_vector(self, key: str) -> Array:
        """Return the vector with this id."""
        with disk_errors(self._table.path):
            row = self._db.execute("SELECT data FROM vector WHERE id = ?", (key,)).fetchone()
        if row is None:
            raise TacitError(f"The ledger {self._table.path or 'in memory'} has no vector {key}")
        return unpack_vector(row[0])

    def remove(self, *keys: str) -> None:
        """Remove facts; keys that are not there are ignored."""
        with disk_errors(self._table.path):
            self._db.executemany("DELETE FROM fact WHERE key = ?", [(key,) for key in keys])
            self._db.commit()

    def mark(self, round_: int, steps: int) -> None:
        """Record the number of steps and the digest of their releases after `round_` complete rounds."""
        self.forget_marks(round_ - 1)
        digest = self.releases_digest(steps)
        with disk_errors(self._table.path):
            self._db.execute("INSERT INTO mark VALUES (?, ?, ?)", (round_, steps, digest))

    def forget_marks(self, rounds: int) -> None:
        """Remove the marks after so many rounds, which the run will repeat."""
        with disk_errors(self._table.path):
            self._db.execute("DELETE FROM mark WHERE round > ?", (rounds,))

    def marks(self) -> list[Mark]:
        """All marks, in the order of their rounds."""
        with disk_errors(self._table.path):
            return [Mark(*row) for row in self._db.execute("SELECT round, steps, digest FROM mark ORDER BY round")]

    def releases_digest(self, steps: int | None = None, *, from_start: bool = False) -> str:
        """Digest of the releases of the first `steps` steps; None: of all.

        The chain continues the last mark before, or is computed `from_start`, to check the marks.
        """
        end = _NO_LIMIT if steps is None else steps
        earlier = [] if from_start else [mark for mark in self.marks() if mark.steps <= end]
        return self._chain(earlier[-1].digest, earlier[-1].steps, end) if earlier else self._chain("", 0, end)

    def first_changed_mark(self) -> Mark | None:
        """The first mark whose digest is not that of the releases before it; None if all are right."""
        head, start = "", 0
        for mark in self.marks():
            head, start = self._chain(head, start, mark.steps), mark.steps
            if head != mark.digest:
                return mark
        return None

    def has_intact_vectors(self) -> bool:
        """Whether every vector, such as the noise multipliers of a release, still has the digest that names it."""
        with disk_errors(self._table.path):
            rows = self._db.execute("SELECT id, data FROM vector").fetchall()
        try:
            return all(hashlib.blake2b(zlib.decompress(data), digest_size=16).hexdigest() == key for key, data in rows)
        except (zlib.error, TypeError):
            return False

    def content_digest(self) -> str:
        """Digest of the whole ledger, whatever its place in the file: releases, vectors, open values, facts, marks."""
        with disk_errors(self._table.path):
            tables = {name: self._db.execute(f"SELECT * FROM {name}").fetchall() for name in _TABLES}
        vectors = [(key, hashlib.blake2b(data, digest_size=32).hexdigest()) for key, data in tables.pop("vector")]
        parts = [self.releases_digest(from_start=True), sorted(vectors), *(sorted(rows) for rows in tables.values())]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=32).hexdigest()

    def _chain(self, head: str, start: int, end: int) -> str:
        """Continue the chain with the releases of the steps from `start` up to, but not including, `end`."""
        query = "SELECT * FROM release WHERE step >= ? AND step < ? ORDER BY step, purpose"
        with disk_errors(self._table.path):
            for row in self._db.execute(query, (start, end)):
                text = f"{head} {json.dumps(row, default=bytes.hex)}"
                head = hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
        return head


def read_ledger(path: Path) -> Ledger:
    """Return a copy of a ledger in memory. The file stays as it is, also while a run uses it.

    Raises:
        TacitError: The file does not exist or is not a ledger.
    """
    if not path.is_file():
        raise TacitError(f"{path} does not exist")
    copy = Ledger()
    with disk_errors(path), _readable(path) as uri, closing(sqlite3.connect(uri, uri=True)) as source:
        source.backup(copy._db)
        copy.values = ExactValues(copy._db.execute("SELECT state, step, purpose FROM exact_value"))
    copy._table.path = path
    return copy


@contextmanager
def _readable(path: Path) -> Iterator[str]:
    """Yield the address of a database that can be read without a change to the file or its folder."""
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists():  # left by a killed process: SQLite repairs the copy
        with TemporaryDirectory() as folder:
            for file in (path, journal):
                shutil.copy(file, folder)
            yield f"file:{quote(folder)}/{quote(path.name)}"
    elif path.with_name(f"{path.name}-wal").exists():
        yield f"file:{quote(str(path))}?mode=ro"
    else:  # in WAL mode, SQLite would create two more files
        yield f"file:{quote(str(path))}?immutable=1"
