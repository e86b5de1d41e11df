"""Sent messages, until their receivers have decided about them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

from tacit.sites.journal import DeliveryStatus, Journal, SentMessage, digest
from tacit.sites.message import Message, Operation
from tacit.sites.payload import Tensors
from tacit.sites.transport import Transport
from tacit.sites.wire import Codec

log = logging.getLogger(__name__)
FIRST_RETRANSMIT = 2.0
"""Seconds without a reply after which a message is retransmitted. The interval doubles each time."""
MAX_RETRANSMIT_INTERVAL = 60.0


class _Retransmission(NamedTuple):
    due: float  # monotonic time
    interval: float


class Outbox:
    """Records messages in the journal, sends them, and repeats the same bytes until a reply arrives.

    Both threads of a site may call it.
    """

    def __init__(self, journal: Journal, codec: Codec, transport: Transport) -> None:
        self._journal, self._codec, self._transport = journal, codec, transport
        self._retransmissions: dict[tuple[Operation, str], _Retransmission] = {}
        self._lock = threading.Lock()

    def sent(self, operation: Operation) -> dict[str, Tensors] | None:
        """Return what was sent by receiver, or None if the operation has not been sent."""
        messages = self._journal.sent(operation)
        if messages is None:
            return None
        return {to: self._codec.decode(data, self._codec.link_to(to)).tensors for to, data in messages.items()}

    def send(self, operation: Operation, messages: Mapping[str, Tensors]) -> None:
        """Record the messages by receiver; then send them."""
        encoded = {
            to: self._codec.encode(Message.of(operation, self._codec.link_to(to), tensors))
            for to, tensors in messages.items()
        }
        self._journal.record_sent(operation, encoded)
        for to, data in encoded.items():
            self._transport.send(to, self._prepare(SentMessage(operation, to, data), FIRST_RETRANSMIT))

    def pending(self, peer: str) -> list[bytes]:
        """Return all messages without a reply, for a new connection to the peer."""
        return [self._prepare(sent, FIRST_RETRANSMIT) for sent in self._journal.pending(peer)]

    def retransmit(self) -> None:
        """Repeat the messages whose reply is overdue."""
        now = time.monotonic()
        with self._lock:
            due = {key: retry.interval for key, retry in self._retransmissions.items() if retry.due <= now}
        for to in {to for _, to in due}:
            for sent in self._journal.pending(to):
                interval = due.pop((sent.operation, to), None)
                if interval is not None:
                    self._transport.send(to, self._prepare(sent, min(2 * interval, MAX_RETRANSMIT_INTERVAL)))
        with self._lock:
            for key in due:  # these have a reply by now
                self._retransmissions.pop(key, None)

    def on_reply(self, operation: Operation, receiver: str, status: DeliveryStatus) -> bool:
        """Record the receiver's decision; return whether the message was pending."""
        was_pending = self._journal.record_reply(operation, receiver, status)
        with self._lock:
            self._retransmissions.pop((operation, receiver), None)
        return was_pending

    def _prepare(self, sent: SentMessage, interval: float) -> bytes:
        """Schedule the next retransmission of a message that is about to be sent, and log it."""
        with self._lock:
            due = time.monotonic() + interval
            self._retransmissions[sent.operation, sent.receiver] = _Retransmission(due, interval)
        operation = {"round": sent.operation.round, "kind": sent.operation.kind.name}
        details = {"peer": sent.receiver, **operation, "sequence": sent.operation.sequence}
        log.debug("send", extra={**details, "digest": digest(sent.data).hex()})
        return sent.data
