"""What a site says and hears, in step with its rounds: each verb is said, waited for, and written down."""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tacit.errors import TacitError
from tacit.sites.incoming import Incoming, Tensors, head
from tacit.sites.journal import Sent, Verb
from tacit.sites.payload import Expected, WireError
from tacit.sites.text import printable
from tacit.sites.wire import Kind, Message, encode

log = logging.getLogger(__name__)


class Returned(NamedTuple):
    """A message that its receiver has missed: what it carried is ours again."""

    receiver: str
    round: int
    tensors: Tensors


class Post(Incoming):
    """For the thread that computes: rounds begin, verbs are said and heard, and in the end a site leaves."""

    def begin(self, round_: int) -> int:
        """Begin a round; or, where others have gone on without us, do nothing and tell the round they are in."""
        with self._changed:
            self._check_state()
            ahead = [there for there in self._rejoin.values() if there > round_]
            if ahead and not self._journal.begun_in(round_):  # what was said counts
                self._rejoin = {}
                return statistics.median_low(ahead)  # a liar among several moves us by less
            jumped = round_ > self._next
            self._round, self._next = round_, max(self._next, round_)
            for verb, sender in [key for key in self._held if key[0].round < round_]:
                del self._held[verb, sender]
                self.counts["missed"] += 1
                self._answer(sender, self._about(verb, sender, Kind.MISSED))
        for peer in [name for name, standing in self.peers.items() if standing.up] if jumped else ():
            self._wires.send(peer, self.hello(peer))  # it need not wait for the rounds that were left out
        return round_

    def say(self, verb: Verb, messages: Mapping[str, Tensors]) -> dict[str, Tensors]:
        """Send to all who are there: told is what was sent, which after a crash is what was sent before it."""
        before = self._journal.said(verb)
        if before is not None:
            self._next = max(self._next, verb.round + 1)
            return {to: self._read(data, self._link(to)).tensors for to, data in before.items()}
        with self._changed:
            self._check_state()
            for to in messages if self.tolerates_dropout else ():
                self._look_for(to)
            there = [to for to in messages if not (self.tolerates_dropout and self._is_away(to, verb.round))]
            self._next = max(self._next, verb.round + 1)
        said = {to: encode(Message(self._link(to), *head(verb), tensors=messages[to]), self._most) for to in there}
        self._journal.say(verb, said)
        for to, data in said.items():
            self.counts["sent"] += 1
            self._wires.send(to, self._spoken(Sent(verb, to, data)))
        return {to: messages[to] for to in there}

    def hear(
        self, verb: Verb, expected: Mapping[str, Expected], patience: float
    ) -> tuple[dict[str, Tensors], list[Returned]]:
        """What the others say, and what is ours again. Whoever is silent for `patience` seconds is left out, or told of
        in the log."""
        decided = self._journal.closed(verb)
        if decided is None:
            used = self._await(verb, expected, patience)
            back = self._journal.missed(verb.kind, verb.sequence) if self.tolerates_dropout else []
            self._journal.close(verb, {sender: data for sender, (data, _) in used.items()}, back)
            with self._changed:
                for sender in used:
                    del self._held[verb, sender]
            for sender in used:
                self._answer(sender, self._about(verb, sender, Kind.RECEIVED))
            self.counts["returned"] += len(back)
            return {sender: tensors for sender, (_, tensors) in used.items()}, [self._returned(one) for one in back]
        heard = {sender: self._read(data, self._link(sender).back()).tensors for sender, data in decided[0].items()}
        return heard, [self._returned(one) for one in decided[1]]

    def meet(self, others: Sequence[str], longest: float | None = None, every: float = 30.0) -> None:
        """Wait until all of them have said HELLO, and what they have heard of us."""
        with self._changed:
            self._wait(lambda: [name for name in others if not self.peers[name].told], longest, every)

    def settle(self, patience: float) -> set[str]:
        """Wait until all that was said has its fate, or as long as someone who owes an answer is there and `patience`
        more: who still owes one then."""
        seen = time.monotonic()

        def owing() -> list[str]:
            nonlocal seen
            names = sorted(self._journal.waiting)
            if any(self.peers[name].up for name in names):
                seen = time.monotonic()
            return names if time.monotonic() - seen < patience else []

        with self._changed:
            self._wait(owing, patience if self.tolerates_dropout else None, max(patience, 1.0))
        return self._journal.waiting

    def farewell(self, others: Sequence[str], patience: float) -> None:
        """Stay for those who are there and have not said GOODBYE: they may need an answer."""

        def staying() -> list[str]:
            return [name for name in others if self.peers[name].left is None and self.peers[name].up]

        with self._changed:
            self._wait(staying, patience, patience)

    def leave(self, others: Sequence[str], why: str = "") -> None:
        """Say GOODBYE."""
        for to in others:
            self._wires.send(to, encode(Message(self._link(to), Kind.GOODBYE, self._next, text=printable(why, 500))))

    def _await(self, verb: Verb, expected: Mapping[str, Expected], patience: float) -> dict[str, tuple[bytes, Tensors]]:
        with self._changed:
            self._expecting = verb, expected
            for sender in expected:
                self._refit(verb, sender, expected[sender])

            def missing() -> list[str]:
                return [
                    sender
                    for sender in expected
                    if (verb, sender) not in self._held
                    and not (self.tolerates_dropout and self._is_away(sender, verb.round))
                ]

            for sender in self._wait(missing, patience if self.tolerates_dropout else None, patience):
                self.peers[sender].absent = True
                log.warning("silent for %g seconds: going on without it", patience, extra={"peer": sender})
            self._expecting = None
            return {sender: self._held[verb, sender] for sender in expected if (verb, sender) in self._held}

    def _wait(self, missing: Callable[[], list[str]], longest: float | None, every: float) -> list[str]:
        """Until nobody is missing, or for so long: who is missing then. The log is told `every` so many seconds."""
        began = told = time.monotonic()
        while names := missing():
            self._check_state()
            now = time.monotonic()
            if longest is not None and now - began >= longest:
                break
            if now - told >= every:
                told = now
                log.warning("waiting for %s since %.0f seconds", ", ".join(names[:5]), now - began)
            self.waiting_for = tuple(names)
            self._changed.wait(1.0 if longest is None else min(1.0, longest - (now - began)))
        self.waiting_for = ()
        return names

    def _check_state(self) -> None:
        """A ledger that has lost releases must not be gone on with, nor a site whose wires are dead."""
        if self._wrong:
            raise TacitError(self._wrong)

    def _look_for(self, peer: str) -> None:
        """One that we only speak to may never be missed by hearing: what it cannot get would be lost to all."""
        standing = self.peers[peer]
        if not standing.absent and standing.away > self._silence:
            standing.absent = True
            log.warning("not reached for %g seconds: going on without it", self._silence, extra={"peer": peer})

    def _is_away(self, peer: str, round_: int) -> bool:
        standing = self.peers[peer]
        return standing.absent or not standing.speaks_in(round_)

    def _refit(self, verb: Verb, sender: str, expected: Expected) -> None:
        """Of what was held before its form was known."""
        held = self._held.get((verb, sender))
        if held is None:
            return
        message = Message(self._link(sender).back(), *head(verb))
        try:
            self._fit(held[1], expected, message)
        except WireError as error:
            del self._held[verb, sender]
            self.counts["refused"] += 1
            log.warning("refused: %s", error, extra={"peer": sender})
            self._answer(sender, message.answer(Kind.REFUSED, printable(str(error), 300)))

    def _returned(self, sent: Sent) -> Returned:
        message = self._read(sent.data, self._link(sent.receiver))
        return Returned(sent.receiver, sent.verb.round, message.tensors)
