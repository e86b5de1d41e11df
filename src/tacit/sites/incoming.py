"""What comes to a site, by the rules: which messages count, which are too late, and what is answered.

Each message has one fate, which its receiver decides once and for all: it was used, or it was missed, and then what it
carried is its sender's again. Both sides have written down what they know before they act on it (`Journal`), so that
neither a crash nor a message that is lost, late or sent twice makes anything count twice or not at all.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from torch import Tensor

from tacit.errors import TacitError
from tacit.sites.description import NetworkDescription, first_difference
from tacit.sites.journal import Fate, Journal, Sent, Verb, digest
from tacit.sites.payload import Expected, WireError, fits
from tacit.sites.standing import Standing
from tacit.sites.text import printable
from tacit.sites.wire import MOST, VALUES, Kind, Link, Message, decode, encode

log = logging.getLogger(__name__)
Tensors = Mapping[str, Tensor]
_AHEAD = 16  # messages of one sender that are held before they are due
_AGAIN, _SELDOM = 2.0, 60.0  # seconds after which a message without an answer is said again: first, and at last


class Wires(Protocol):
    """Lines to other sites. Neither call waits."""

    def send(self, peer: str, data: bytes) -> None:
        """Over our line to it, if there is one now."""

    def answer(self, peer: str, data: bytes) -> None:
        """Over its line to us, if there is one now. Nothing but HELLO goes to one whose HEARD has not been taken."""


class Incoming:
    """The site `me` among `description.sites`, as its wires know it; `Post` is what the computing thread does with it.

    `speaks` says who may say something to this site in a verb. With `tolerates_dropout`, whoever is silent for too
    long, or has not been reached for `silence` seconds, is left out, and missed messages are taken back; else all
    are waited for.
    """

    def __init__(
        self,
        journal: Journal,
        description: NetworkDescription,
        me: str,
        wires: Wires,
        speaks: Callable[[Verb, str], bool],
        *,
        tolerates_dropout: bool,
        most: int = MOST,
        silence: float = math.inf,
    ) -> None:
        self.me, self.tolerates_dropout, self.counts = me, tolerates_dropout, Counter[str]()
        self.waiting_for: tuple[str, ...] = ()
        self._journal, self._description, self._wires, self._speaks, self._most = (
            journal,
            description,
            wires,
            speaks,
            most,
        )
        self.peers = {name: Standing() for name in description.sites if name != me}
        self._silence = silence
        self._knew = journal.rounds
        self._round, self._next = 0, self._knew  # the round we are in, and the first of which nothing was said yet
        self._rejoin: dict[str, int] = {}
        self._wrong = journal.outdated
        self._held: dict[tuple[Verb, str], tuple[bytes, Tensors]] = {}
        self._expecting: tuple[Verb, Mapping[str, Expected]] | None = None
        self._due: dict[tuple[Verb, str], tuple[float, float]] = {}
        self._changed = threading.Condition(threading.RLock())

    def hello(self, to: str) -> bytes:
        """Who we are, what we know of the network, and the first round of which something may still come."""
        with self._changed:
            first = self._journal.first_unanswered(to)
            begins = self._round if first is None else min(self._round, first)
            return encode(Message(self._link(to), Kind.HELLO, begins, text=self._description.text), self._most)

    def backlog(self, to: str) -> list[bytes]:
        """All that one has not answered, for a line that is new."""
        return [self._spoken(sent) for sent in self._journal.unanswered(to)]

    def connected(self, peer: str, by: int) -> None:
        """A line to or from it is there (1), or is gone (−1)."""
        with self._changed:
            self.peers[peer].count(by)
            self._changed.notify_all()

    def broken(self, why: str) -> None:
        """The wires cannot go on: neither can the site."""
        with self._changed:
            self._wrong = self._wrong or why
            self._changed.notify_all()

    def again(self) -> None:
        """Say again what has had no answer for long, and HELLO to those we go on without: they may do so too."""
        now = time.monotonic()
        with self._changed:
            due = {key for key, (when, _) in self._due.items() if when <= now}
            lonely = [name for name, peer in self.peers.items() if peer.absent and peer.greeted + _AGAIN <= now]
        for name in lonely:
            self.peers[name].greeted = now
            self._wires.send(name, self.hello(name))
        for to in {to for _, to in due}:
            for sent in self._journal.unanswered(to):
                if (sent.verb, to) in due:
                    due.discard((sent.verb, to))
                    self._wires.send(to, self._spoken(sent, 2 * self._due[sent.verb, to][1]))
        with self._changed:
            for key in due:  # answered since
                self._due.pop(key, None)

    def admit(self, peer: str, data: bytes) -> tuple[bool, list[bytes]]:
        """Whether the first that came over a line is the HELLO of one who knows this network; the answers to it."""
        refused = self.counts["refused"]
        try:
            kind = self._read(data, self._link(peer).back()).kind
            if kind not in (Kind.HELLO, Kind.REFUSED):
                raise WireError(f"{peer} does not say HELLO first")
        except WireError as error:
            return False, self._refusal(peer, error)
        answers = self.take(peer, data)
        return kind == Kind.HELLO and self.counts["refused"] == refused, answers

    def take(self, peer: str, data: bytes) -> list[bytes]:
        """What came over a line, either way; the answers to it. Whatever it is, nothing is raised."""
        try:
            message = self._read(data, self._link(peer).back())
            with self._changed:
                answers = self._taken(message, data)
                self._changed.notify_all()
        except WireError as error:
            return self._refusal(peer, error)
        return [encode(answer, self._most) for answer in answers]

    def _refusal(self, peer: str, error: WireError) -> list[bytes]:
        self.counts["refused"] += 1
        log.warning("refused: %s", printable(str(error), 300), extra={"peer": peer})
        return [encode(Message(self._link(peer), Kind.REFUSED, self._round, text=printable(str(error), 300)))]

    def _taken(self, message: Message, data: bytes) -> list[Message]:
        peer = self.peers[message.link.sender]
        if message.kind in VALUES:
            return self._heard(message, data)
        if message.kind == Kind.HELLO:
            return self._greeted(message)
        if message.round > self._description.rounds:
            raise WireError(f"{message.link.sender} sent {message}, and there are {self._description.rounds} rounds")
        if message.kind == Kind.ABSENT and self.tolerates_dropout:
            self._rejoin[message.link.sender] = message.round
            peer.begins = max(peer.begins, message.round)
        elif message.kind == Kind.HEARD and not peer.told:
            peer.told = True
            self._compare(message)
        elif message.kind == Kind.GOODBYE:
            peer.left = message.round
            log.info(
                "says goodbye after %d rounds: %s", message.round, message.text, extra={"peer": message.link.sender}
            )
        elif message.kind == Kind.REFUSED:
            log.warning("refuses us: %s", message.text, extra={"peer": message.link.sender})
        if message.about in VALUES:
            return self._answered(message, Verb(message.round, message.about, message.sequence))
        return []

    def _compare(self, message: Message) -> None:
        """Others must not have heard more of this site than it knew at its start: its ledger would lack something."""
        if message.round > self._knew:
            self._wrong = (
                f"{message.link.sender} has heard {message.round} rounds of this site, and its state folder knew of "
                f"{self._knew}: an older copy, whose ledger lacks what was released since; put the latest one back"
            )
            self._journal.mark(self._wrong)

    def _heard(self, message: Message, data: bytes) -> list[Message]:
        """Values: used before, too late, a lie, too early, or to be held until they are due."""
        verb, sender = Verb(message.round, message.kind, message.sequence), message.link.sender
        if verb.round >= self._description.rounds:
            raise WireError(f"{sender} sent {message}, and there are {self._description.rounds} rounds")
        self.peers[sender].round = max(self.peers[sender].round, verb.round + 1)
        over = verb.round < self._round or self._journal.is_closed(verb)  # asked first: what is used is closed after
        used = self._journal.used(verb, sender)
        if used is not None:
            if used != digest(data):
                raise WireError(f"{sender} sent {message} twice, with different contents")
            return [message.answer(Kind.RECEIVED)]
        if over:
            self.counts["missed"] += 1
            log.info("%s came too late", message, extra={"peer": sender})
            return [message.answer(Kind.MISSED)]
        held = self._held.get((verb, sender))
        if held is not None:
            if held[0] != data:
                raise WireError(f"{sender} sent {message} twice, with different contents")
            return []
        expected = self._expecting[1] if self._expecting is not None and self._expecting[0] == verb else None
        if not self._speaks(verb, sender) or (expected is not None and sender not in expected):
            raise WireError(f"{sender} sent {message}, in which it has nothing to say to this site")
        if expected is not None:
            self._fit(message.tensors, expected[sender], message)
        if verb.round == self._round or sum(who == sender for _, who in self._held) < _AHEAD:  # else it will come again
            self.counts["received"] += 1
            self._held[verb, sender] = (data, message.tensors)
        return []

    def _greeted(self, message: Message) -> list[Message]:
        sender = message.link.sender
        if message.link.network != self._description.digest:
            try:
                why = first_difference(self._description, NetworkDescription.parse(message.text))
            except TacitError as error:
                why = str(error)
            raise WireError(f"{sender} knows another network: {why or 'its description is written otherwise'}")
        peer = self.peers[sender]
        peer.begins, peer.left = message.round, None
        heard = Message(self._link(sender), Kind.HEARD, max(self._journal.heard(sender), peer.round))
        if not peer.absent:
            return [heard]
        peer.absent = False
        log.info("is back, and counts again from round %d", self._next, extra={"peer": sender})
        return [heard, Message(self._link(sender), Kind.ABSENT, self._next)]

    def _answered(self, message: Message, verb: Verb) -> list[Message]:
        """The fate of something we have sent."""
        peer = message.link.sender
        if message.kind == Kind.REFUSED and not self.tolerates_dropout:
            return []  # whether it helps or not, it will be said again
        fate = Fate.RECEIVED if message.kind == Kind.RECEIVED else Fate.MISSED
        news = self._journal.answered(verb, peer, fate)
        self._due.pop((verb, peer), None)
        if news and message.kind == Kind.MISSED:
            log.info("went on without %s of round %d", verb.kind.name, verb.round, extra={"peer": peer})
            self._wires.send(peer, self.hello(peer))  # are we counted on again, and from when?
        return []

    def _fit(self, tensors: Tensors, expected: Expected, message: Message) -> None:
        try:
            fits(tensors, expected)
        except WireError as error:
            raise WireError(f"{message.link.sender} sent {message}, in which {error}") from None

    def _spoken(self, sent: Sent, pause: float = 0.0) -> bytes:
        """What is about to leave, with a line in the log that can be held against the ledger."""
        pause = min(max(pause, _AGAIN), _SELDOM)
        with self._changed:
            self._due[sent.verb, sent.receiver] = (time.monotonic() + pause, pause)
        what = {"round": sent.verb.round, "kind": sent.verb.kind.name, "sequence": sent.verb.sequence}
        log.debug("says", extra={"peer": sent.receiver, **what, "digest": digest(sent.data).hex()})
        return sent.data

    def _read(self, data: bytes, link: Link) -> Message:
        return decode(data, link, self._most)

    def _about(self, verb: Verb, sender: str, kind: Kind) -> Message:
        return Message(self._link(sender).back(), *head(verb)).answer(kind)

    def _answer(self, peer: str, message: Message) -> None:
        self._wires.answer(peer, encode(message, self._most))

    def _link(self, to: str) -> Link:
        return Link(self._description.digest, self.me, to)


def head(verb: Verb) -> tuple[Kind, int, int]:
    return verb.kind, verb.round, verb.sequence
