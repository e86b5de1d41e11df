"""The durable record of what a site has sent, received and decided.

An operation (one `mix`, `swap`, `max` or `mean`) has two durable steps:

1. `record_sent` stores the outgoing messages. Only then are they sent.
2. `complete` stores which received messages were used and which own messages were returned. Only then are the senders
   notified and does the round continue.

A site that restarts repeats the rounds since its checkpoint from this record: it sends the same bytes and takes no
decision a second time.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from tacit.errors import TacitError
from tacit.sites.message import MessageKind, Operation

_SCHEMA = """
CREATE TABLE IF NOT EXISTS operation (
    round INT, kind INT, sequence INT, complete INT, PRIMARY KEY (round, kind, sequence)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outbox (
    round INT, kind INT, sequence INT, receiver TEXT, status INT NOT NULL, returned_in INT, data BLOB NOT NULL,
    PRIMARY KEY (round, kind, sequence, receiver));
CREATE TABLE IF NOT EXISTS inbox (
    round INT, kind INT, sequence INT, sender TEXT, digest BLOB NOT NULL, data BLOB,
    PRIMARY KEY (round, kind, sequence, sender));
CREATE TABLE IF NOT EXISTS checkpoint (one INT PRIMARY KEY, facts TEXT NOT NULL, state BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""
_THIS_OPERATION = "round = ? AND kind = ? AND sequence = ?"


class DeliveryStatus(IntEnum):
    """The state of a sent message. The receiver decides it once, as ACKNOWLEDGED or MISSED."""

    PENDING = 0  # no reply yet: the message is retransmitted
    ACKNOWLEDGED = 1  # the receiver has used it
    MISSED = 2  # the receiver continued without it: its values belong to this site again
    RETURNED = 3  # missed, and its values were used here, in round `returned_in`


class SentMessage(NamedTuple):
    """A message in the outbox."""

    operation: Operation
    receiver: str
    data: bytes


class CompletedOperation(NamedTuple):
    """The messages that an operation used, by sender, and the own messages that it took back."""

    used: dict[str, bytes]
    returned: list[SentMessage]


def digest(data: bytes) -> bytes:
    """Return a digest that identifies a message when it arrives again."""
    return hashlib.blake2b(data, digest_size=16).digest()


class Journal:
    """The journal in an SQLite file. Every transaction is synced to disk. Threads may share one instance.

    Args:
        path: The file, created if missing.
        network: Digest of the network description.

    Raises:
        TacitError: The file cannot be used, or belongs to another network.
    """

    def __init__(self, path: Path, network: str) -> None:
        self._path, self._lock = path, threading.RLock()
        with self._disk():
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
            self._db.execute("INSERT OR IGNORE INTO fact VALUES ('network', ?)", (network,))
            recorded = self._db.execute("SELECT value FROM fact WHERE name = 'network'").fetchone()[0]
        if recorded != network:
            raise TacitError(f"{path} belongs to another network: restore the agreed file, or move the folder away")

    # Sending

    def record_sent(self, operation: Operation, messages: Mapping[str, bytes]) -> None:
        """Store the messages of an operation by receiver, before they are sent."""
        with self._transaction():
            self._db.execute("INSERT INTO operation VALUES (?, ?, ?, 0)", operation)
            rows = [(*operation, to, DeliveryStatus.PENDING, None, data) for to, data in messages.items()]
            self._db.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def sent(self, operation: Operation) -> dict[str, bytes] | None:
        """Return the messages of an operation by receiver, or None if it was never recorded."""
        with self._disk():
            if not self._db.execute(f"SELECT 1 FROM operation WHERE {_THIS_OPERATION}", operation).fetchone():
                return None
            query = f"SELECT receiver, data FROM outbox WHERE {_THIS_OPERATION}"
            return dict(self._db.execute(query, operation).fetchall())

    def record_reply(self, operation: Operation, receiver: str, status: DeliveryStatus) -> bool:
        """Store the receiver's decision about a message; return whether the message was pending."""
        with self._disk():
            query = f"UPDATE outbox SET status = ? WHERE {_THIS_OPERATION} AND receiver = ? AND status = ?"
            return self._db.execute(query, (status, *operation, receiver, DeliveryStatus.PENDING)).rowcount > 0

    def pending(self, receiver: str) -> list[SentMessage]:
        """Return the messages to a receiver that have no reply yet, in the order of their operations."""
        return self._select("status = ? AND receiver = ?", (DeliveryStatus.PENDING, receiver))

    def missed(self, kind: MessageKind, sequence: int) -> list[SentMessage]:
        """Return the missed messages of this kind and sequence whose values have not been taken back yet."""
        return self._select("status = ? AND kind = ? AND sequence = ?", (DeliveryStatus.MISSED, kind, sequence))

    @property
    def pending_receivers(self) -> set[str]:
        """Sites that have not replied to some message."""
        with self._disk():
            query = "SELECT DISTINCT receiver FROM outbox WHERE status = ?"
            return {row[0] for row in self._db.execute(query, (DeliveryStatus.PENDING,))}

    def first_pending_round(self, receiver: str) -> int | None:
        """Return the first round with a message to this receiver that has no reply yet."""
        with self._disk():
            query = "SELECT MIN(round) FROM outbox WHERE status = ? AND receiver = ?"
            first: int | None = self._db.execute(query, (DeliveryStatus.PENDING, receiver)).fetchone()[0]
            return first

    @property
    def rounds_sent(self) -> int:
        """Number of rounds up to the last with a recorded operation."""
        with self._disk():
            return int(self._db.execute("SELECT COALESCE(MAX(round) + 1, 0) FROM operation").fetchone()[0])

    def has_sent(self, first_round: int = 0) -> bool:
        """Return whether an operation of this round or a later one was recorded."""
        return self.rounds_sent > first_round

    # Receiving

    def complete(self, operation: Operation, used: Mapping[str, bytes], returned: Sequence[SentMessage]) -> None:
        """Store the used messages by sender and the returned messages. This decision is final."""
        with self._transaction():
            self._db.execute(f"UPDATE operation SET complete = 1 WHERE {_THIS_OPERATION}", operation)
            rows = [(*operation, sender, digest(data), data) for sender, data in used.items()]
            self._db.executemany("INSERT INTO inbox VALUES (?, ?, ?, ?, ?, ?)", rows)
            query = f"UPDATE outbox SET status = ?, returned_in = ? WHERE {_THIS_OPERATION} AND receiver = ?"
            status = (DeliveryStatus.RETURNED, operation.round)
            self._db.executemany(query, [(*status, *one.operation, one.receiver) for one in returned])

    def completed(self, operation: Operation) -> CompletedOperation | None:
        """Return what `complete` stored, or None if the operation is not complete."""
        with self._disk():
            if not self.is_complete(operation):
                return None
            used = dict(self._db.execute(f"SELECT sender, data FROM inbox WHERE {_THIS_OPERATION}", operation))
            returned = "status = ? AND returned_in = ? AND kind = ? AND sequence = ?"
            return CompletedOperation(used, self._select(returned, (DeliveryStatus.RETURNED, *operation)))

    def is_complete(self, operation: Operation) -> bool:
        with self._disk():
            query = f"SELECT complete FROM operation WHERE {_THIS_OPERATION}"
            return bool((self._db.execute(query, operation).fetchone() or (0,))[0])

    def used_digest(self, operation: Operation, sender: str) -> bytes | None:
        """Return the digest of the sender's message, or None if no message was used."""
        with self._disk():
            query = f"SELECT digest FROM inbox WHERE {_THIS_OPERATION} AND sender = ?"
            row = self._db.execute(query, (*operation, sender)).fetchone()
            return row[0] if row else None

    def rounds_used(self, sender: str) -> int:
        """Return the number of rounds up to the last in which a message from this sender was used."""
        with self._disk():
            query = "SELECT COALESCE(MAX(round) + 1, 0) FROM inbox WHERE sender = ?"
            return int(self._db.execute(query, (sender,)).fetchone()[0])

    # The state of the run

    def save_checkpoint(self, round_: int, facts: str, state: bytes) -> None:
        """Store the state before `round_`, and delete what only earlier rounds need.

        The digests of used messages stay, so that a repeated message is still recognised.
        """
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO checkpoint VALUES (0, ?, ?)", (facts, state))
            self._db.execute("UPDATE inbox SET data = NULL WHERE round < ? AND data IS NOT NULL", (round_,))
            done = "(status = ? AND round < ?) OR (status = ? AND returned_in < ?)"
            values = (DeliveryStatus.ACKNOWLEDGED, round_, DeliveryStatus.RETURNED, round_)
            self._db.execute(f"DELETE FROM outbox WHERE {done}", values)

    def load_checkpoint(self) -> tuple[str, bytes] | None:
        """Return facts and state of the last checkpoint."""
        with self._disk():
            row: tuple[str, bytes] | None = self._db.execute("SELECT facts, state FROM checkpoint").fetchone()
            return row

    @property
    def outdated(self) -> str:
        """The reason why this journal is an outdated copy; empty if it is not known to be one."""
        with self._disk():
            row = self._db.execute("SELECT value FROM fact WHERE name = 'outdated'").fetchone()
            return row[0] if row else ""

    def mark_outdated(self, reason: str) -> None:
        """Record that a peer has used messages that are missing here. The run must never continue from this copy."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO fact VALUES ('outdated', ?)", (reason,))

    def close(self) -> None:
        with self._disk():
            self._db.close()

    def _select(self, where: str, values: tuple[object, ...]) -> list[SentMessage]:
        query = f"SELECT round, kind, sequence, receiver, data FROM outbox WHERE {where} ORDER BY 1, 2, 3, 4"
        with self._disk():
            rows = self._db.execute(query, values).fetchall()
        return [SentMessage(Operation(row[0], MessageKind(row[1]), row[2]), row[3], row[4]) for row in rows]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Apply all statements or none; they are on disk when the block ends."""
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
                raise TacitError(f"cannot use the journal {self._path}: {error}") from None
