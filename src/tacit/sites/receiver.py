"""The handling of every message that arrives at a site."""

from __future__ import annotations

import logging
from collections.abc import Collection

from tacit.sites.inbox import Inbox, MessageCounts
from tacit.sites.journal import DeliveryStatus
from tacit.sites.membership import Membership
from tacit.sites.message import VALUE_KINDS, Message, MessageKind
from tacit.sites.outbox import Outbox
from tacit.sites.payload import WireError
from tacit.sites.text import printable
from tacit.sites.transport import Replies, Transport
from tacit.sites.wire import Codec

log = logging.getLogger(__name__)


class Receiver:
    """The `MessageHandler` of a site. Only the transport's thread calls it.

    Values go to the inbox, replies to the outbox, and all other messages to the membership. A message that breaks a
    rule is refused with a reason and changes nothing.
    """

    def __init__(
        self,
        members: Membership,
        inbox: Inbox,
        outbox: Outbox,
        transport: Transport,
        codec: Codec,
        counts: MessageCounts,
        rounds: int,
    ) -> None:
        self._members, self._inbox, self._outbox, self._transport = members, inbox, outbox, transport
        self._codec, self._counts, self._rounds = codec, counts, rounds
        self._changed = members.changed

    @property
    def peers(self) -> Collection[str]:
        return self._members.peers

    def hello(self, peer: str) -> bytes:
        return self._members.hello(peer)

    def pending(self, peer: str) -> list[bytes]:
        return self._outbox.pending(peer)

    def on_first_message(self, peer: str, data: bytes) -> Replies:
        try:
            kind = self._codec.decode(data, self._codec.link_from(peer)).kind
            if kind not in (MessageKind.HELLO, MessageKind.REFUSED):
                raise WireError(f"{peer} sent {kind.name} before HELLO")
        except WireError as error:
            return self._refuse(peer, error)
        accepted, replies = self.on_message(peer, data)
        return Replies(accepted and kind == MessageKind.HELLO, replies)

    def on_message(self, peer: str, data: bytes) -> Replies:
        try:
            message = self._codec.decode(data, self._codec.link_from(peer))
            with self._changed:
                replies = self._handle(message, data)
                self._changed.notify_all()
        except WireError as error:
            return self._refuse(peer, error)
        return Replies(True, [self._codec.encode(reply) for reply in replies])

    def on_connected(self, peer: str) -> None:
        with self._changed:
            self._members.peers[peer].add_connection()
            self._changed.notify_all()

    def on_disconnected(self, peer: str) -> None:
        with self._changed:
            self._members.peers[peer].remove_connection()
            self._changed.notify_all()

    def on_tick(self) -> None:
        for peer in self._members.absent_peers_to_greet():
            self._transport.send(peer, self._members.hello(peer))
        self._outbox.retransmit()

    def on_failure(self, reason: str) -> None:
        self._members.fail(reason)

    def _handle(self, message: Message, data: bytes) -> list[Message]:
        """Handle a well-formed message and return the replies. The lock is held."""
        sender, rounds = message.link.sender, self._rounds
        is_value = message.kind in VALUE_KINDS
        if message.kind != MessageKind.HELLO and message.round > rounds - is_value:
            raise WireError(f"{sender} sent {message}, but the run has {rounds} rounds")
        if is_value:
            self._members.peers[sender].round = max(self._members.peers[sender].round, message.round + 1)
            kind = self._inbox.add(message, data, self._members.round)
            return [] if kind is None else [message.reply(kind)]
        if message.kind == MessageKind.REFUSED:
            log.warning("refuses a message of this site: %s", message.text, extra={"peer": sender})
        if message.reply_to in VALUE_KINDS:
            self._on_reply(message)
            return []
        return self._members.on_control(message)

    def _on_reply(self, message: Message) -> None:
        """Record the receiver's decision about a sent message."""
        sender, operation = message.link.sender, message.operation
        if message.kind == MessageKind.REFUSED and not self._members.tolerates_dropout:
            return  # it stays pending and is retransmitted
        accepted = message.kind == MessageKind.ACKNOWLEDGE
        status = DeliveryStatus.ACKNOWLEDGED if accepted else DeliveryStatus.MISSED
        if self._outbox.on_reply(operation, sender, status) and message.kind == MessageKind.MISSED:
            what = (operation.kind.name, operation.round)
            log.info("continued without %s of round %d of this site", *what, extra={"peer": sender})
            self._transport.send(sender, self._members.hello(sender))  # asks for REJOIN

    def _refuse(self, peer: str, error: WireError) -> Replies:
        self._counts.refused += 1
        reason = printable(str(error), 300)
        log.warning("refused: %s", reason, extra={"peer": peer})
        message = Message(self._codec.link_to(peer), MessageKind.REFUSED, self._members.round, text=reason)
        return Replies(False, [self._codec.encode(message)])
