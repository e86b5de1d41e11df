"""Received values, until the operation that uses them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tacit.sites.journal import Journal, digest
from tacit.sites.message import Message, MessageKind, Operation
from tacit.sites.payload import Tensors, TensorSpecs, WireError, check_tensors

log = logging.getLogger(__name__)
MAX_HELD_AHEAD = 16
"""Messages of later rounds that are held per sender. Others are dropped, and their sender retransmits them."""


@dataclass
class MessageCounts:
    """Counters of messages.

    Attributes:
        sent: Messages with values that were sent, without retransmissions.
        received: Messages with values that were accepted, without repetitions.
        refused: Messages of any kind that were refused.
        missed: Messages from peers that this site continued without.
        returned: Own messages that peers missed and whose values were taken back.
    """

    sent: int = 0
    received: int = 0
    refused: int = 0
    missed: int = 0
    returned: int = 0


class HeldMessage(NamedTuple):
    """A received message that no operation has used yet."""

    data: bytes
    tensors: Tensors


class Inbox:
    """Holds the messages of the current and of later rounds. The caller holds the lock of the exchange.

    Args:
        journal: The site's journal.
        may_send: Whether the graph lets a peer send to this site in an operation.
        counts: Counters to update.
    """

    def __init__(self, journal: Journal, may_send: Callable[[Operation, str], bool], counts: MessageCounts) -> None:
        self._journal, self._may_send, self._counts = journal, may_send, counts
        self._held: dict[tuple[Operation, str], HeldMessage] = {}
        self._expected: tuple[Operation, Mapping[str, TensorSpecs]] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def add(self, message: Message, data: bytes, current_round: int) -> MessageKind | None:
        """Hold a message, or return the reply to it: ACKNOWLEDGE if it was used, MISSED if it is late.

        Raises:
            WireError: The sender may not send this message, or has sent another one for the same operation.
        """
        operation, sender = message.operation, message.link.sender
        # In this order: the computing thread may complete the operation between the two queries.
        late = operation.round < current_round or self._journal.is_complete(operation)
        used = self._journal.used_digest(operation, sender)
        if used is not None:
            if used != digest(data):
                raise WireError(f"{sender} sent {message} twice, with different contents")
            return MessageKind.ACKNOWLEDGE
        if late:
            self._counts.missed += 1
            log.info("%s arrived too late", message, extra={"peer": sender})
            return MessageKind.MISSED
        held = self._held.get((operation, sender))
        if held is not None:
            if held.data != data:
                raise WireError(f"{sender} sent {message} twice, with different contents")
            return None
        self._check_expected(message)
        if operation.round == current_round or sum(who == sender for _, who in self._held) < MAX_HELD_AHEAD:
            self._counts.received += 1
            self._held[operation, sender] = HeldMessage(data, message.tensors)
        return None

    def expect(self, operation: Operation, specs: Mapping[str, TensorSpecs]) -> dict[str, str]:
        """Set what the senders must send in the current operation.

        Returns:
            The reason per sender for held messages that do not match. They are removed.
        """
        self._expected = operation, specs
        reasons = {}
        for sender in specs:
            held = self._held.get((operation, sender))
            if held is not None:
                try:
                    _check(operation, sender, held.tensors, specs[sender])
                except WireError as error:
                    del self._held[operation, sender]
                    reasons[sender] = str(error)
        return reasons

    def stop_expecting(self) -> None:
        self._expected = None

    def held(self, operation: Operation, senders: Collection[str]) -> dict[str, HeldMessage]:
        """Return the held messages of an operation by sender."""
        return {sender: self._held[operation, sender] for sender in senders if (operation, sender) in self._held}

    def remove(self, operation: Operation, senders: Collection[str]) -> None:
        for sender in senders:
            del self._held[operation, sender]

    def remove_before(self, round_: int) -> list[tuple[Operation, str]]:
        """Remove the messages of earlier rounds, and return their operations and senders."""
        old = [key for key in self._held if key[0].round < round_]
        for key in old:
            del self._held[key]
        return old

    def _check_expected(self, message: Message) -> None:
        operation, sender = message.operation, message.link.sender
        specs = self._expected[1] if self._expected is not None and self._expected[0] == operation else None
        if not self._may_send(operation, sender) or (specs is not None and sender not in specs):
            raise WireError(f"{sender} sent {message}, but this site expects no such message from it")
        if specs is not None:
            _check(operation, sender, message.tensors, specs[sender])


def _check(operation: Operation, sender: str, tensors: Tensors, specs: TensorSpecs) -> None:
    try:
        check_tensors(tensors, specs)
    except WireError as error:
        raise WireError(f"{sender} sent {operation}: {error}") from None
