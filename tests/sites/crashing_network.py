"""Sites in one process that crash at any step on disk, and a network that loses, delays and repeats messages."""

import heapq
import threading
import time
from collections import defaultdict
from contextlib import contextmanager

from tacit.sites.journal import Journal
from tacit.sites.message import VALUE_KINDS, Link
from tacit.sites.transport import Transport
from tacit.sites.wire import decode
from tacit.sites.wire_schema import Envelope


class Crash(BaseException):
    """The simulated kill of a site."""


class Lifetime:
    """The time from a start to a crash, in steps on disk. Without `steps` there is no crash."""

    def __init__(self, steps=None):
        self.alive, self.steps = True, steps

    def step(self):
        if self.steps is not None:
            self.steps -= 1
            self.alive = self.alive and self.steps > 0
        if not self.alive:
            raise Crash


class CrashingJournal(Journal):
    """A journal whose site may crash before and after every use of the disk."""

    def __init__(self, path, network, lifetime):
        self._lifetime = lifetime
        super().__init__(path, network)

    @contextmanager
    def _disk(self):
        with self._lock:
            self._lifetime.step()
            with super()._disk():
                yield
            self._lifetime.step()

    def kill(self):
        """Make every later use raise `Crash`."""
        with self._lock:
            self._lifetime.alive = False
            self._db.close()


class UnreliableNetwork:
    """Delivers messages late, out of order, twice or not at all. It does not crash itself.

    Attributes:
        bytes_of: All bytes that were sent, by (sender, receiver, operation).
        decisions: The kinds of all replies that were sent, by (sender, receiver, operation) of the original message.
    """

    def __init__(self, random, loss, delay):
        self._random, self._loss, self._delay = random, loss, delay
        self._receivers, self._new, self._queue, self._count, self._lock = {}, [], [], 0, threading.RLock()
        self.bytes_of, self.decisions = defaultdict(set), defaultdict(set)
        self._running = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def connect(self, name, receiver):
        """Connect a site to all others: HELLO first, then the pending messages."""
        done = threading.Event()
        with self._lock:
            self._new.append((name, receiver, done))
        assert done.wait(30.0)

    def disconnect(self, name):
        with self._lock:
            self._receivers[name] = None

    def transport(self, name, lifetime):
        return _NetworkTransport(self, name, lifetime)

    def put(self, sender, receiver, data):
        with self._lock:
            self._record(sender, receiver, data)
            for _ in range(1 + (self._random.random() < 0.1)):
                if self._random.random() >= self._loss:
                    when = time.monotonic() + self._random.random() * self._delay
                    self._count += 1
                    heapq.heappush(self._queue, (when, self._count, sender, receiver, data))

    def stop(self):
        self._running = False
        self._thread.join()

    def _record(self, sender, receiver, data):
        message = decode(data, Link(network_of(data), sender, receiver))
        if message.kind in VALUE_KINDS:
            self.bytes_of[sender, receiver, message.operation].add(data)
        elif message.reply_to in VALUE_KINDS:
            self.decisions[receiver, sender, message.operation].add(message.kind)

    def _run(self):
        while self._running:
            time.sleep(0.002)
            with self._lock:
                new, self._new = self._new, []
            for name, receiver, done in new:
                self._greet(name, receiver)
                done.set()
            with self._lock:
                receivers, due = dict(self._receivers), []
                while self._queue and self._queue[0][0] <= time.monotonic():
                    due.append(heapq.heappop(self._queue))
            for receiver in filter(None, receivers.values()):
                _unless_crashed(receiver.on_tick)
            for _, _, sender, to, data in due:
                for reply in _replies(receivers.get(to), sender, data):
                    self.put(to, sender, reply)

    def _greet(self, name, receiver):
        """Complete the handshake in both directions before any value is sent, as a transport does."""
        with self._lock:
            self._receivers[name] = receiver
            others = [(other, there) for other, there in self._receivers.items() if there is not None and other != name]
        for other, there in others:
            for one, two, sender, peer in ((name, other, receiver, there), (other, name, there, receiver)):
                hello = _unless_crashed(sender.hello, two)
                for reply in _replies(peer, one, hello) if hello else ():
                    _unless_crashed(sender.on_message, two, reply)
                for data in _unless_crashed(sender.pending, two) or ():
                    self.put(one, two, data)


class _NetworkTransport(Transport):
    def __init__(self, network, name, lifetime):
        super().__init__()
        self._network, self._name, self._lifetime = network, name, lifetime

    def send(self, peer, data):
        if self._lifetime.alive:
            self._network.put(self._name, peer, data)

    reply = send

    def open(self, handler):
        pass

    def connect(self, peers):
        pass

    def close(self):
        pass


def network_of(data):
    """Return the network digest that a message names."""
    envelope = Envelope()
    envelope.ParseFromString(data)
    return envelope.network.hex()


def _replies(receiver, sender, data):
    result = _unless_crashed(receiver.on_message, sender, data) if receiver else None
    return result.messages if result else ()


def _unless_crashed(function, *values):
    try:
        return function(*values)
    except Crash:
        return None
