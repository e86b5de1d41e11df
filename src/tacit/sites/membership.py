"""Which peers take part in the run, and from which round on.

Rules:

* The first message on a connection is HELLO. It contains the network description; a peer with another description is
  refused. Its round is the first for which the sender may still send messages.
* HELLO_REPLY reports how many rounds of the other site have been used. If that is more than the other site recorded
  before it started, its state folder is an outdated copy whose ledger lacks releases, and it stops for good.
* If the method tolerates dropout, a peer that sends nothing in time is absent: nothing is sent to it and no operation
  waits for it. When it sends HELLO, REJOIN names the round from which it is expected again. It skips to that round.
* CLOSE ends a site's part after a number of rounds. HELLO reverts it.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections.abc import Callable, Iterable

from tacit.errors import TacitError
from tacit.sites.description import NetworkDescription, first_difference
from tacit.sites.journal import Journal
from tacit.sites.message import Message, MessageKind
from tacit.sites.payload import WireError
from tacit.sites.peer_state import PeerState
from tacit.sites.wire import Codec

log = logging.getLogger(__name__)
HELLO_INTERVAL = 2.0
"""Seconds between two HELLO messages to a peer that is absent."""


class Membership:
    """The state of every peer, the site's own round, and the threads that wait for either to change.

    The computing thread and the transport's thread share it. `changed` guards all of it and is re-entrant. Some
    methods require that the caller holds it, as their docstrings state.

    Args:
        journal: The site's journal.
        description: What the sites of the network agreed on.
        codec: Names this site and its network.
        tolerates_dropout: Whether the run may continue without a peer.
        unreachable_after: Seconds without a connection after which a peer is absent, if dropout is tolerated.
    """

    def __init__(
        self,
        journal: Journal,
        description: NetworkDescription,
        codec: Codec,
        *,
        tolerates_dropout: bool,
        unreachable_after: float,
    ) -> None:
        self.tolerates_dropout, self.changed = tolerates_dropout, threading.Condition(threading.RLock())
        self.peers = {name: PeerState() for name in description.sites if name != codec.site}
        self.waiting_for: tuple[str, ...] = ()
        self._journal, self._description, self._codec = journal, description, codec
        self._unreachable_after = unreachable_after
        self._rounds_at_start = journal.rounds_sent
        self.round = 0
        self.next_round = self._rounds_at_start  # the first round in which nothing has been sent
        self._rejoin_rounds: dict[str, int] = {}
        self._failure = journal.outdated

    # Rounds

    def enter(self, round_: int) -> int:
        """Enter a round, or return a later one that the other sites have reached. The caller holds `changed`."""
        ahead = [there for there in self._rejoin_rounds.values() if there > round_]
        # A round with a recorded operation must be repeated: its messages were sent and received.
        if ahead and not self._journal.has_sent(round_):
            self._rejoin_rounds = {}
            return statistics.median_low(ahead)  # limits the effect of one peer that lies
        self.round, self.next_round = round_, max(self.next_round, round_)
        return round_

    def mark_sent(self, round_: int) -> None:
        """Note that a message of this round is about to be sent."""
        with self.changed:
            self.next_round = max(self.next_round, round_ + 1)

    # Peers that are absent

    def takes_part(self, peer: str, round_: int) -> bool:
        """Return whether to wait for a peer in a round. The caller holds `changed`."""
        state = self.peers[peer]
        return not self.tolerates_dropout or (not state.absent and state.takes_part_in(round_))

    def mark_unreachable(self, peers: Iterable[str]) -> None:
        """Mark receivers without a connection as absent. The caller holds `changed`.

        In a directed graph, a site may receive nothing from a peer that it sends to, so that it never times out.
        """
        for name in peers if self.tolerates_dropout else ():
            state = self.peers[name]
            if not state.absent and state.seconds_disconnected > self._unreachable_after:
                state.absent = True
                seconds = self._unreachable_after
                log.warning("not connected for %g seconds: continuing without it", seconds, extra={"peer": name})

    def mark_silent(self, peers: Iterable[str], timeout: float) -> None:
        """Mark senders whose messages did not arrive in time as absent. The caller holds `changed`."""
        for name in peers:
            self.peers[name].absent = True
            log.warning("no message for %g seconds: continuing without it", timeout, extra={"peer": name})

    def absent_peers_to_greet(self) -> list[str]:
        """Return absent peers to which a HELLO is due: each side may regard the other as absent."""
        now = time.monotonic()
        with self.changed:
            due = [name for name, p in self.peers.items() if p.absent and p.last_hello + HELLO_INTERVAL <= now]
            for name in due:
                self.peers[name].last_hello = now
        return due

    # Control messages

    def hello(self, peer: str) -> bytes:
        """Return the HELLO for a peer."""
        with self.changed:
            pending = self._journal.first_pending_round(peer)
            first = self.round if pending is None else min(self.round, pending)
            link, text = self._codec.link_to(peer), self._description.text
            return self._codec.encode(Message(link, MessageKind.HELLO, first, text=text))

    def on_control(self, message: Message) -> list[Message]:
        """Handle HELLO, HELLO_REPLY, REJOIN or CLOSE, and return the replies. The caller holds `changed`.

        Raises:
            WireError: The message is refused.
        """
        sender = message.link.sender
        peer = self.peers[sender]
        if message.kind == MessageKind.HELLO:
            return self._on_hello(message, peer)
        if message.kind == MessageKind.REJOIN and self.tolerates_dropout:
            self._rejoin_rounds[sender] = message.round
            peer.first_round = max(peer.first_round, message.round)
        elif message.kind == MessageKind.HELLO_REPLY and not peer.has_replied:
            peer.has_replied = True
            self._check_rounds_used(sender, message.round)
        elif message.kind == MessageKind.CLOSE:
            peer.closed_after = message.round
            log.info("closed after %d rounds: %s", message.round, message.text, extra={"peer": sender})
        return []

    def _on_hello(self, message: Message, peer: PeerState) -> list[Message]:
        sender = message.link.sender
        if message.link.network != self._codec.network:
            try:
                difference = first_difference(self._description, NetworkDescription.parse(message.text))
            except TacitError as error:
                difference = str(error)
            raise WireError(f"{sender} belongs to another network: {difference or 'its description differs in form'}")
        peer.first_round, peer.closed_after = message.round, None
        used = max(self._journal.rounds_used(sender), peer.round)
        link = self._codec.link_to(sender)
        replies = [Message(link, MessageKind.HELLO_REPLY, used)]
        if peer.absent:
            peer.absent = False
            log.info("rejoined: expected again from round %d on", self.next_round, extra={"peer": sender})
            replies.append(Message(link, MessageKind.REJOIN, self.next_round))
        return replies

    def _check_rounds_used(self, sender: str, used: int) -> None:
        if used > self._rounds_at_start:
            self._failure = (
                f"The state folder is an outdated copy: {sender} has used messages of {used} rounds of this site, but "
                f"the folder recorded {self._rounds_at_start} at the start. Its ledger lacks releases. Restore the "
                "latest copy"
            )
            self._journal.mark_outdated(self._failure)

    # Waiting

    def fail(self, reason: str) -> None:
        """Make all waits and the next call of `check` raise."""
        with self.changed:
            self._failure = self._failure or reason
            self.changed.notify_all()

    def check(self) -> None:
        """Raise `TacitError` if the run must not continue."""
        if self._failure:
            raise TacitError(self._failure)

    def wait_while(self, missing: Callable[[], list[str]], timeout: float | None, log_every: float) -> list[str]:
        """Wait while `missing` returns peers, at most `timeout` seconds; return the peers that are still missing.

        A warning is logged every `log_every` seconds. The caller holds `changed`.
        """
        start = last_log = time.monotonic()
        while names := missing():
            self.check()
            now = time.monotonic()
            if timeout is not None and now - start >= timeout:
                break
            if now - last_log >= log_every:
                last_log = now
                log.warning("still waiting for %s after %.0f seconds", ", ".join(names[:5]), now - start)
            self.waiting_for = tuple(names)
            self.changed.wait(1.0 if timeout is None else min(1.0, timeout - (now - start)))
        self.waiting_for = ()
        return names
