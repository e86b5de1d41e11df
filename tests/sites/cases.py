"""Posts of several sites in one process, and what lies between them."""

import heapq
import json
import threading
import time
from collections import defaultdict
from contextlib import contextmanager

import torch

from tacit.sites import wire_pb2
from tacit.sites.description import NetworkDescription
from tacit.sites.exchange import Exchange
from tacit.sites.journal import Journal
from tacit.sites.message import VALUE_KINDS, Link, Message, MessageKind, Operation
from tacit.sites.transport import Replies, Transport
from tacit.sites.wire import decode, encode

MIX = MessageKind.MIX
_NOTHING = Replies(False, [])
ONE = {"0": (torch.float64, (1,))}


def described(sites, rounds=100, **changes):
    table = {"graph": {"name": "ring"}, "algorithm": {"name": "sgp"}, "privacy": {}, **changes}
    facts = {"sites": list(sites), "rounds": rounds, "seed": 0, "links": "0" * 64, **table}
    return NetworkDescription.parse(json.dumps(facts))


def value(x):
    return {"0": torch.tensor([x], dtype=torch.float64)}


class Desk(Transport):
    """A site whose wires are lists: what it says is carried by hand."""

    def __init__(
        self, folder, name, sites=("a", "b", "c"), tolerates_dropout=True, may=lambda verb, sender: True, **options
    ):
        super().__init__()
        self.path, self.name, self.sites, self.may = folder / f"{name}.sqlite", name, sites, may
        self.description = options.pop("description", None) or described(sites)
        self.options = {"tolerates_dropout": tolerates_dropout, **options}
        self.open()

    def close(self):
        pass

    def connect(self, peers):
        pass

    def open(self, handler=None):
        self.said, self.answers = [], []
        self.journal = Journal(self.path, self.description.digest)
        self.post = Exchange(self.journal, self.description, self.name, self, self.may, **self.options)

    def crash(self):
        """Only what is on disk is left."""
        self.journal.close()
        self.open()
        return self

    def send(self, peer, data):
        self.said.append((peer, data))

    def reply(self, peer, data):
        self.answers.append((peer, data))

    def link(self, to):
        return Link(self.description.digest, self.name, to)

    def message(self, to, kind=MIX, round_=0, **facts):
        return encode(Message(self.link(to), kind, round_, **facts))

    def hears(self, other, data):
        """What it answers to `other`, as messages."""
        back = [*self.post.receiver.on_message(other.name, data).messages, *self._told(other.name)]
        return [decode(one, self.link(other.name)) for one in back]

    def kinds(self, other, data):
        return [answer.kind for answer in self.hears(other, data)]

    def told(self, other):
        """What it has answered since, unasked."""
        return [decode(one, self.link(other.name)).kind for one in self._told(other.name)]

    def _told(self, name):
        mine = [data for to, data in self.answers if to == name]
        self.answers = [one for one in self.answers if one[0] != name]
        return mine

    def fed(self, other, answers):
        """Take the answers of `other` in."""
        for answer in answers:
            assert self.post.receiver.on_message(other.name, encode(answer)).messages == []

    def spoke(self):
        """What it has said since, by kind."""
        said, self.said = self.said, []
        return [(to, decode(data, self.link(to)).kind) for to, data in said]


class Crash(BaseException):
    """kill -9, as near as a thread comes to it."""


class Life:
    """From a start to a death at the disk, after so many steps there."""

    def __init__(self, steps=None):
        self.alive, self.steps = True, steps

    def step(self):
        if self.steps is not None:
            self.steps -= 1
            self.alive = self.alive and self.steps > 0
        if not self.alive:
            raise Crash


class Doomed(Journal):
    """A journal in use of which a life may end: before a step, or when it is on disk."""

    def __init__(self, path, network, life):
        self._life = life
        super().__init__(path, network)

    @contextmanager
    def _disk(self):
        with self._lock:
            self._life.step()
            with super()._disk():
                yield
            self._life.step()

    def kill(self):
        """Whoever still uses it finds that it is dead."""
        with self._lock:
            self._life.alive = False
            self._db.close()


class Hub:
    """Carries what posts say with delays, out of order, twice or not at all; it never crashes.

    It remembers all that ever left: `bytes_of` each message, and the `fates` that were told of it.
    """

    def __init__(self, random, loss, delay):
        self._random, self._loss, self._delay = random, loss, delay
        self._posts, self._new, self._queue, self._count, self._lock = {}, [], [], 0, threading.RLock()
        self.bytes_of, self.fates = defaultdict(set), defaultdict(set)
        self._on = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def plug(self, name, post):
        """New lines between a site and all others: HELLO comes first, then what has had no answer."""
        done = threading.Event()
        with self._lock:
            self._new.append((name, post, done))
        assert done.wait(30.0)

    def unplug(self, name):
        with self._lock:
            self._posts[name] = None

    def wires(self, name, life):
        return _Wires(self, name, life)

    def put(self, sender, receiver, data):
        with self._lock:
            self._note(sender, receiver, data)
            for _ in range(1 + (self._random.random() < 0.1)):
                if self._random.random() >= self._loss:
                    when = time.monotonic() + self._random.random() * self._delay
                    self._count += 1
                    heapq.heappush(self._queue, (when, self._count, sender, receiver, data))

    def stop(self):
        self._on = False
        self._thread.join()

    def _note(self, sender, receiver, data):
        message = decode(data, Link(data_network(data), sender, receiver))
        if message.kind in VALUE_KINDS:
            self.bytes_of[sender, receiver, Operation(message.round, message.kind, message.sequence)].add(data)
        elif message.reply_to in VALUE_KINDS:
            self.fates[receiver, sender, Operation(message.round, message.reply_to, message.sequence)].add(message.kind)

    def _run(self):
        while self._on:
            time.sleep(0.002)
            with self._lock:
                new, self._new = self._new, []
            for name, post, done in new:
                self._greet(name, post)
                done.set()
            with self._lock:
                posts, due = dict(self._posts), []
                while self._queue and self._queue[0][0] <= time.monotonic():
                    due.append(heapq.heappop(self._queue))
            for post in filter(None, posts.values()):
                _survived(post.receiver.on_tick)
            for _, _, sender, receiver, data in due:
                there = posts.get(receiver)
                replies = _survived(there.receiver.on_message, sender, data) if there else None
                for answer in (replies or _NOTHING).messages:
                    self.put(receiver, sender, answer)

    def _greet(self, name, post):
        """As lines do it: what others have heard of a site is told before it can say more."""
        with self._lock:
            self._posts[name] = post
            others = [(other, there) for other, there in self._posts.items() if there is not None and other != name]
        for other, there in others:
            for one, two, speaker, listener in ((name, other, post, there), (other, name, there, post)):
                hello = _survived(speaker.receiver.hello, two)
                replies = _survived(listener.receiver.on_message, one, hello) if hello else None
                for answer in (replies or _NOTHING).messages:
                    _survived(speaker.receiver.on_message, two, answer)
                for data in _survived(speaker.receiver.pending, two) or ():
                    self.put(one, two, data)


class _Wires:
    def __init__(self, hub, name, life):
        self._hub, self._name, self._life = hub, name, life

    def send(self, peer, data):
        if self._life.alive:  # the dead say nothing
            self._hub.put(self._name, peer, data)

    reply = send


def _survived(do, *values):
    try:
        return do(*values)
    except Crash:
        return None


def data_network(data):
    envelope = wire_pb2.Envelope()
    envelope.ParseFromString(data)
    return envelope.network.hex()
