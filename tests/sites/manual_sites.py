"""Sites without connections: a test delivers their messages one by one."""

import json

import torch

from tacit.sites.description import NetworkDescription
from tacit.sites.exchange import Exchange
from tacit.sites.journal import Journal
from tacit.sites.message import Link, Message, MessageKind, Operation
from tacit.sites.transport import Transport
from tacit.sites.wire import decode, encode

MIX = MessageKind.MIX
FIRST = Operation(0, MIX, 0)
ONE_NUMBER = {"0": (torch.float64, (1,))}  # the form of `number`


def describe(sites, rounds=100, **changes):
    table = {"graph": {"name": "ring"}, "algorithm": {"name": "sgp"}, "privacy": {}, **changes}
    facts = {"sites": list(sites), "rounds": rounds, "seed": 0, "links": "0" * 64, **table}
    return NetworkDescription.parse(json.dumps(facts))


def number(x):
    return {"0": torch.tensor([x], dtype=torch.float64)}


class ManualSite(Transport):
    """A site and its transport, which collects `sent` messages and `replies` as (peer, bytes)."""

    def __init__(
        self,
        folder,
        name,
        sites=("a", "b", "c"),
        *,
        may_send=lambda operation, sender: True,
        description=None,
        **options,
    ):
        super().__init__()
        self.path, self.name = folder / f"{name}.sqlite", name
        self.description = description or describe(sites)
        self._may_send, self._options = may_send, {"tolerates_dropout": True, **options}
        self._start()

    def _start(self):
        self.sent, self.replies = [], []
        self.journal = Journal(self.path, self.description.digest)
        self.exchange = Exchange(self.journal, self.description, self.name, self, self._may_send, **self._options)
        self.receiver, self.peers = self.exchange.receiver, self.exchange.peers

    def restart(self):
        """Crash and start again from the journal."""
        self.journal.close()
        self._start()
        return self

    def open(self, handler):
        pass

    def connect(self, peers):
        pass

    def close(self):
        pass

    def send(self, peer, data):
        self.sent.append((peer, data))

    def reply(self, peer, data):
        self.replies.append((peer, data))

    def link_to(self, peer):
        return Link(self.description.digest, self.name, peer)

    def encode(self, to, kind=MIX, round_=0, **fields):
        """Return the bytes of a message from this site, without sending it."""
        return encode(Message(self.link_to(to), kind, round_, **fields))

    def deliver(self, sender, data):
        """Handle a message from another site, and return all replies to that site since the last call."""
        replies = [*self.receiver.on_message(sender.name, data).messages, *self._take_replies(sender.name)]
        return [decode(reply, self.link_to(sender.name)) for reply in replies]

    def deliver_replies(self, sender, replies):
        for reply in replies:
            assert self.receiver.on_message(sender.name, encode(reply)).messages == []

    def reply_kinds(self, sender, data):
        return [reply.kind for reply in self.deliver(sender, data)]

    def take_reply_kinds(self, peer):
        """Return and forget the kinds of the replies to a peer that were sent outside of `deliver`."""
        return [decode(reply, self.link_to(peer.name)).kind for reply in self._take_replies(peer.name)]

    def take_sent_kinds(self):
        """Return and forget the sent messages, as (peer, kind)."""
        sent, self.sent = self.sent, []
        return [(to, decode(data, self.link_to(to)).kind) for to, data in sent]

    def _take_replies(self, name):
        mine = [data for to, data in self.replies if to == name]
        self.replies = [reply for reply in self.replies if reply[0] != name]
        return mine


def begin(*sites, round_=0):
    """Begin a round at each site."""
    for site in sites:
        assert site.exchange.begin(round_) == round_
    return sites


def send(site, receiver, x, round_=0):
    """Send a number to another site, and return the bytes of the message."""
    site.sent.clear()
    site.exchange.send(Operation(round_, MIX, 0), {receiver.name: number(x)})
    ((to, data),) = site.sent
    assert to == receiver.name
    return data


def receive(site, sender, round_=0, timeout=0.01):
    """Return the received numbers by sender, and the returned messages as (receiver, round, number)."""
    expected = {sender.name: ONE_NUMBER} if sender else {}
    received, returned = site.exchange.receive(Operation(round_, MIX, 0), expected, timeout)
    numbers = {name: float(tensors["0"]) for name, tensors in received.items()}
    return numbers, [(one.receiver, one.round, float(one.tensors["0"])) for one in returned]
