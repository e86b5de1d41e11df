"""What a site has said, heard and decided, on disk before it has any effect: after a crash it is all still so.

A verb is one use of the network: `mix`, `swap`, `max` or `mean`. First what is said is written down, then it leaves;
what was heard, and who was given up, is written down before anybody is told and before the round goes on. So a site
that starts again finds the rounds since its checkpoint as they were, says the same bytes, and decides nothing twice.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from tacit.errors import TacitError
from tacit.sites.wire import Kind

_SCHEMA = """
CREATE TABLE IF NOT EXISTS verb (round INT, kind INT, sequence INT, closed INT, PRIMARY KEY (round, kind, sequence))
WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (
    round INT, kind INT, sequence INT, receiver TEXT, fate INT NOT NULL, taken INT, data BLOB NOT NULL,
    PRIMARY KEY (round, kind, sequence, receiver));
CREATE TABLE IF NOT EXISTS inbox (
    round INT, kind INT, sequence INT, sender TEXT, digest BLOB NOT NULL, data BLOB,
    PRIMARY KEY (round, kind, sequence, sender));
CREATE TABLE IF NOT EXISTS checkpoint (one INT PRIMARY KEY, facts TEXT NOT NULL, state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""


class Verb(NamedTuple):
    """One use of the network: the `sequence`-th of its kind in its round."""

    round: int
    kind: Kind
    sequence: int


class Fate(IntEnum):
    """What became of a message that was sent."""

    UNKNOWN = 0
    RECEIVED = 1
    MISSED = 2  # the other side went on without it, and what it carried is ours again
    TAKEN = 3  # taken back, in the round `taken`


class Sent(NamedTuple):
    """A message in the outbox."""

    verb: Verb
    receiver: str
    data: bytes


def digest(data: bytes) -> bytes:
    """By which a message is known when it comes again."""
    return hashlib.blake2b(data, digest_size=16).digest()


class Journal:
    """An SQLite file, synced at every step that something depends on. Two threads may use it."""

    def __init__(self, path: Path, network: str) -> None:
        self._path, self._lock = path, threading.RLock()
        with self._disk():
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
            self._db.execute("INSERT OR IGNORE INTO fact VALUES ('network', ?)", (network,))
            known = self._db.execute("SELECT value FROM fact WHERE name = 'network'").fetchone()[0]
        if known != network:
            raise TacitError(f"{path} belongs to another network: move its folder away, or put the agreed file back")

    def said(self, verb: Verb) -> dict[str, bytes] | None:
        """What was said to whom; None if the verb has not begun."""
        with self._disk():
            if not self._db.execute("SELECT 1 FROM verb WHERE round=? AND kind=? AND sequence=?", verb).fetchone():
                return None
            query = "SELECT receiver, data FROM outbox WHERE round=? AND kind=? AND sequence=?"
            return dict(self._db.execute(query, verb).fetchall())

    def say(self, verb: Verb, messages: Mapping[str, bytes]) -> None:
        """Write down what is about to leave."""
        with self._written():
            self._db.execute("INSERT INTO verb VALUES (?, ?, ?, 0)", verb)
            rows = [(*verb, receiver, Fate.UNKNOWN, None, data) for receiver, data in messages.items()]
            self._db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def close(self, verb: Verb, used: Mapping[str, bytes], returned: Sequence[Sent]) -> None:
        """Write down what was heard, and what was taken back: nothing else will ever count for this verb."""
        with self._written():
            self._db.execute("UPDATE verb SET closed = 1 WHERE round=? AND kind=? AND sequence=?", verb)
            rows = [(*verb, sender, digest(data), data) for sender, data in used.items()]
            self._db.executemany("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._set_fate(returned, Fate.TAKEN, verb.round)

    def closed(self, verb: Verb) -> tuple[dict[str, bytes], list[Sent]] | None:
        """What was heard and taken back, if it has been decided."""
        with self._disk():
            query = "SELECT closed FROM verb WHERE round=? AND kind=? AND sequence=?"
            if (self._db.execute(query, verb).fetchone() or (0,))[0] == 0:
                return None
            query = "SELECT sender, data FROM inbox WHERE round=? AND kind=? AND sequence=?"
            heard = dict(self._db.execute(query, verb).fetchall())
            taken = "fate = ? AND taken = ? AND kind = ? AND sequence = ?"
            return heard, self._sent(taken, (Fate.TAKEN, verb.round, verb.kind, verb.sequence))

    def is_closed(self, verb: Verb) -> bool:
        with self._disk():
            query = "SELECT closed FROM verb WHERE round=? AND kind=? AND sequence=?"
            return bool((self._db.execute(query, verb).fetchone() or (0,))[0])

    def used(self, verb: Verb, sender: str) -> bytes | None:
        """The digest of the sender's message, if it was used."""
        with self._disk():
            query = "SELECT digest FROM inbox WHERE round=? AND kind=? AND sequence=? AND sender=?"
            row = self._db.execute(query, (*verb, sender)).fetchone()
            return row[0] if row else None

    def heard(self, sender: str) -> int:
        """Rounds up to the last of which something from this sender was used."""
        with self._disk():
            query = "SELECT COALESCE(MAX(round) + 1, 0) FROM inbox WHERE sender = ?"
            return int(self._db.execute(query, (sender,)).fetchone()[0])

    @property
    def rounds(self) -> int:
        """Rounds up to the last in which something was said, or was about to be."""
        with self._disk():
            return int(self._db.execute("SELECT COALESCE(MAX(round) + 1, 0) FROM verb").fetchone()[0])

    def first_unanswered(self, receiver: str) -> int | None:
        """The first round of which something is to be said again."""
        with self._disk():
            query = "SELECT MIN(round) FROM outbox WHERE fate = ? AND receiver = ?"
            first: int | None = self._db.execute(query, (Fate.UNKNOWN, receiver)).fetchone()[0]
            return first

    @property
    def outdated(self) -> str:
        """Why nothing may go on from here, if that is so."""
        with self._disk():
            row = self._db.execute("SELECT value FROM fact WHERE name = 'outdated'").fetchone()
            return row[0] if row else ""

    def mark(self, why: str) -> None:
        """Nothing may go on from here, ever: others know more of what this site has said than it does."""
        with self._written():
            self._db.execute("INSERT OR REPLACE INTO fact VALUES ('outdated', ?)", (why,))

    def unanswered(self, receiver: str) -> list[Sent]:
        """What is to be said again to one who may not have heard it, in order."""
        return self._sent("fate = ? AND receiver = ?", (Fate.UNKNOWN, receiver))

    def answered(self, verb: Verb, receiver: str, fate: Fate) -> bool:
        """Note a verdict, which the next sync keeps: one that is lost comes again. Whether it was news."""
        with self._disk():
            query = "UPDATE outbox SET fate=? WHERE round=? AND kind=? AND sequence=? AND receiver=? AND fate=?"
            return self._db.execute(query, (fate, *verb, receiver, Fate.UNKNOWN)).rowcount > 0

    def missed(self, kind: Kind, sequence: int) -> list[Sent]:
        """What is ours again and not taken back yet."""
        return self._sent("fate = ? AND kind = ? AND sequence = ?", (Fate.MISSED, kind, sequence))

    @property
    def waiting(self) -> set[str]:
        """Those of whom an answer is still to come."""
        with self._disk():
            query = "SELECT DISTINCT receiver FROM outbox WHERE fate = ?"
            return {row[0] for row in self._db.execute(query, (Fate.UNKNOWN,))}

    def checkpoint(self, round_: int, facts: str, state: bytes) -> None:
        """The state before round `round_`: what led to it need not be kept, beyond the digests of what was used."""
        with self._written():
            self._db.execute("INSERT OR REPLACE INTO checkpoint VALUES (0, ?, ?)", (facts, state))
            self._db.execute("UPDATE inbox SET data = NULL WHERE round < ? AND data IS NOT NULL", (round_,))
            done = "(fate = ? AND round < ?) OR (fate = ? AND taken < ?)"
            self._db.execute(f"DELETE FROM outbox WHERE {done}", (Fate.RECEIVED, round_, Fate.TAKEN, round_))

    def last(self) -> tuple[str, bytes] | None:
        """Facts and state of the last checkpoint."""
        with self._disk():
            row: tuple[str, bytes] | None = self._db.execute("SELECT facts, state FROM checkpoint").fetchone()
            return row

    @property
    def begun(self) -> bool:
        """Whether anything was ever said."""
        return self.begun_in(0)

    def begun_in(self, round_: int) -> bool:
        """Whether anything was said in this round, or later."""
        with self._disk():
            return self._db.execute("SELECT 1 FROM verb WHERE round >= ? LIMIT 1", (round_,)).fetchone() is not None

    def shut(self) -> None:
        with self._disk():
            self._db.close()

    def _set_fate(self, sent: Iterable[Sent], fate: Fate, taken: int) -> None:
        query = "UPDATE outbox SET fate=?, taken=? WHERE round=? AND kind=? AND sequence=? AND receiver=?"
        self._db.executemany(query, [(fate, taken, *one.verb, one.receiver) for one in sent])

    def _sent(self, where: str, values: tuple[object, ...]) -> list[Sent]:
        query = f"SELECT round, kind, sequence, receiver, data FROM outbox WHERE {where} ORDER BY 1, 2, 3, 4"
        with self._disk():
            rows = self._db.execute(query, values).fetchall()
        return [Sent(Verb(row[0], Kind(row[1]), row[2]), row[3], row[4]) for row in rows]

    @contextmanager
    def _written(self) -> Iterator[None]:
        """All of it or nothing, and on disk when it is done."""
        with self._disk():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _disk(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise TacitError(f"the journal {self._path} cannot be used: {error}") from None
