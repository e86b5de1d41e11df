"""The protocol by which sites exchange values: every message is used exactly once, or is returned to its sender.

The path of one message::

    this site                                        its neighbour

    Peers.mix         values per neighbour           Peers.mix            combines the values
      Exchange.send   recorded in the journal          Exchange.receive   recorded as used, then acknowledged
        Transport     sent over gRPC   ~~~~~~~~~>        Receiver         checked, held in the inbox

Rules:

* The receiver decides about each message once. It uses the message and replies ACKNOWLEDGE, or it continues without it
  and replies MISSED. The decision is on disk before the reply is sent and before the round continues (`Journal`).
* A message is on disk before it is sent. It is retransmitted, byte for byte, until the receiver has replied. A repeated
  message gets the same reply again; one with other contents is refused.
* A missed message belongs to its sender again, which adds the values to its next operation of the same kind and
  sequence. Thus neither a crash nor a message that is lost, late or repeated can duplicate or destroy values.
* If the method does not tolerate dropout, an operation waits for all messages, however long that takes.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tacit.sites.description import NetworkDescription
from tacit.sites.inbox import HeldMessage, Inbox, MessageCounts
from tacit.sites.journal import Journal, SentMessage
from tacit.sites.membership import Membership
from tacit.sites.message import Message, MessageKind, Operation
from tacit.sites.outbox import Outbox
from tacit.sites.payload import Tensors, TensorSpecs
from tacit.sites.peer_state import PeerState
from tacit.sites.receiver import Receiver
from tacit.sites.text import printable
from tacit.sites.transport import Transport
from tacit.sites.wire import MAX_MESSAGE_BYTES, Codec

log = logging.getLogger(__name__)


class ReturnedMessage(NamedTuple):
    """A message of an earlier round that its receiver missed, so that its values belong to this site again."""

    receiver: str
    round: int
    tensors: Tensors


class Received(NamedTuple):
    """The result of an operation: the tensors by sender, and the messages that were returned to this site."""

    tensors: dict[str, Tensors]
    returned: list[ReturnedMessage]


class Exchange:
    """What the computing thread of a site sends and receives.

    The other half is `receiver`, which handles what the transport delivers in its own thread. Both halves share the
    journal, the inbox, the outbox and the state of the peers.

    Args:
        journal: The site's journal.
        description: What the sites of the network agreed on.
        site: The name of this site.
        transport: Carries the messages. The caller opens it with `receiver` as its handler.
        may_send: Whether the graph lets a peer send to this site in an operation.
        tolerates_dropout: Whether the run may continue without a peer.
        max_bytes: Size limit of one message.
        unreachable_after: Seconds without a connection after which a peer is absent, if dropout is tolerated.
    """

    def __init__(
        self,
        journal: Journal,
        description: NetworkDescription,
        site: str,
        transport: Transport,
        may_send: Callable[[Operation, str], bool],
        *,
        tolerates_dropout: bool,
        max_bytes: int = MAX_MESSAGE_BYTES,
        unreachable_after: float = math.inf,
    ) -> None:
        self.site, self.tolerates_dropout, self.counts = site, tolerates_dropout, MessageCounts()
        self._journal, self._transport = journal, transport
        self._codec = Codec(description.digest, site, max_bytes)
        self._members = Membership(
            journal,
            description,
            self._codec,
            tolerates_dropout=tolerates_dropout,
            unreachable_after=unreachable_after,
        )
        self._inbox = Inbox(journal, may_send, self.counts)
        self._outbox = Outbox(journal, self._codec, transport)
        self._changed = self._members.changed
        self.receiver = Receiver(
            self._members, self._inbox, self._outbox, transport, self._codec, self.counts, description.rounds
        )

    @property
    def peers(self) -> dict[str, PeerState]:
        """The state of every other site, by name."""
        return self._members.peers

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The peers that the computing thread currently waits for."""
        return self._members.waiting_for

    def begin(self, round_: int) -> int:
        """Begin a round.

        Returns:
            `round_`, or a later round if the other sites continued without this one. In that case no round has begun.
        """
        with self._changed:
            self._members.check()
            skips = round_ > self._members.next_round
            entered = self._members.enter(round_)
            if entered != round_:
                return entered
            for operation, sender in self._inbox.remove_before(round_):
                self.counts.missed += 1
                self._reply(operation, sender, MessageKind.MISSED)
        for peer in [name for name, state in self.peers.items() if state.connected] if skips else ():
            self._transport.send(peer, self._members.hello(peer))  # so that it does not wait for the skipped rounds
        return round_

    def send(self, operation: Operation, messages: Mapping[str, Tensors]) -> dict[str, Tensors]:
        """Send one message per receiver, except to absent peers.

        Returns:
            The tensors that were sent, by receiver. After a restart these are the ones from before it.
        """
        before = self._outbox.sent(operation)
        if before is not None:
            self._members.mark_sent(operation.round)
            return before
        with self._changed:
            self._members.check()
            self._members.mark_unreachable(messages)
            present = {to: x for to, x in messages.items() if self._members.takes_part(to, operation.round)}
            self._members.mark_sent(operation.round)
        self._outbox.send(operation, present)
        self.counts.sent += len(present)
        return present

    def receive(self, operation: Operation, expected: Mapping[str, TensorSpecs], timeout: float) -> Received:
        """Return the messages of an operation, and the messages that were returned to this site.

        If dropout is tolerated, a peer that sends nothing for `timeout` seconds is absent from then on. Otherwise a
        warning is logged every `timeout` seconds.
        """
        completed = self._journal.completed(operation)
        if completed is not None:
            link_from = self._codec.link_from
            read = {peer: self._codec.decode(data, link_from(peer)).tensors for peer, data in completed.used.items()}
            return Received(read, [self._returned(sent) for sent in completed.returned])
        used = self._wait_for_values(operation, expected, timeout)
        returned = self._journal.missed(operation.kind, operation.sequence) if self.tolerates_dropout else []
        self._journal.complete(operation, {peer: held.data for peer, held in used.items()}, returned)
        with self._changed:
            self._inbox.remove(operation, used)
        for peer in used:
            self._reply(operation, peer, MessageKind.ACKNOWLEDGE)
        self.counts.returned += len(returned)
        tensors = {peer: held.tensors for peer, held in used.items()}
        return Received(tensors, [self._returned(sent) for sent in returned])

    def wait_for_hello_replies(self, peers: Sequence[str], timeout: float | None = None) -> None:
        """Wait until each peer has reported which messages of this site it has used."""
        with self._changed:
            self._members.wait_while(
                lambda: [name for name in peers if not self.peers[name].has_replied], timeout, 30.0
            )

    def wait_for_acknowledgements(self, timeout: float) -> set[str]:
        """Wait until every sent message has a reply; return the peers that still owe one.

        The wait ends when none of these peers has been connected for `timeout` seconds, or, if dropout is tolerated,
        after `timeout` seconds.
        """
        last_connected = time.monotonic()

        def owing() -> list[str]:
            nonlocal last_connected
            names = sorted(self._journal.pending_receivers)
            if any(self.peers[name].connected for name in names):
                last_connected = time.monotonic()
            return names if time.monotonic() - last_connected < timeout else []

        with self._changed:
            self._members.wait_while(owing, timeout if self.tolerates_dropout else None, max(timeout, 1.0))
        return self._journal.pending_receivers

    def close(self, peers: Sequence[str], reason: str = "") -> None:
        """Send CLOSE: this site takes part in no later round."""
        for to in peers:
            text = printable(reason, 500)
            message = Message(self._codec.link_to(to), MessageKind.CLOSE, self._members.next_round, text=text)
            self._transport.send(to, self._codec.encode(message))

    def wait_for_close(self, peers: Sequence[str], timeout: float) -> None:
        """Wait for connected peers that have not sent CLOSE: they may still need a reply."""

        def open_peers() -> list[str]:
            return [name for name in peers if self.peers[name].closed_after is None and self.peers[name].connected]

        with self._changed:
            self._members.wait_while(open_peers, timeout, timeout)

    def _wait_for_values(
        self, operation: Operation, expected: Mapping[str, TensorSpecs], timeout: float
    ) -> dict[str, HeldMessage]:
        with self._changed:
            for sender, reason in self._inbox.expect(operation, expected).items():
                self.counts.refused += 1
                log.warning("refused: %s", reason, extra={"peer": sender})
                self._reply(operation, sender, MessageKind.REFUSED, printable(reason, 300))

            def missing() -> list[str]:
                held = self._inbox.held(operation, expected)
                return [
                    name for name in expected if name not in held and self._members.takes_part(name, operation.round)
                ]

            late = self._members.wait_while(missing, timeout if self.tolerates_dropout else None, timeout)
            self._members.mark_silent(late, timeout)
            self._inbox.stop_expecting()
            return self._inbox.held(operation, expected)

    def _returned(self, sent: SentMessage) -> ReturnedMessage:
        message = self._codec.decode(sent.data, self._codec.link_to(sent.receiver))
        return ReturnedMessage(sent.receiver, sent.operation.round, message.tensors)

    def _reply(self, operation: Operation, sender: str, kind: MessageKind, text: str = "") -> None:
        message = Message.of(operation, self._codec.link_from(sender)).reply(kind, text)
        self._transport.reply(sender, self._codec.encode(message))
