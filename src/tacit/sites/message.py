"""The messages that sites send to each other: kinds, links and operations."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from tacit.sites.payload import Tensors


class MessageKind(IntEnum):
    """The type of a message; wire.proto describes each."""

    HELLO = 1
    MIX = 2
    SWAP = 3
    MAX = 4
    MEAN = 5
    ACKNOWLEDGE = 6
    MISSED = 7
    REJOIN = 8
    REFUSED = 9
    CLOSE = 10
    HELLO_REPLY = 11


VALUE_KINDS = frozenset({MessageKind.MIX, MessageKind.SWAP, MessageKind.MAX, MessageKind.MEAN})
"""Kinds that carry tensors. Each such message is used exactly once or reported as missed."""


class Operation(NamedTuple):
    """One use of the network by all sites; `sequence` is its 0-based index among this round's uses of the same kind."""

    round: int
    kind: MessageKind
    sequence: int

    def __str__(self) -> str:
        return f"{self.kind.name} {self.sequence} of round {self.round}"


class Link(NamedTuple):
    """One direction between two sites of a network. Every message is bound to one link."""

    network: str
    sender: str
    receiver: str

    def reversed(self) -> Link:
        return Link(self.network, self.receiver, self.sender)


@dataclass(frozen=True, eq=False)
class Message:
    """A message from one site to another.

    Args:
        link: Network, sender and receiver.
        kind: The type of the message.
        round: The round of a value; wire.proto defines what it means for other kinds.
        sequence: 0-based index among this round's messages of the same kind.
        reply_to: The kind of the message that this one replies to.
        text: A reason, or the network description in HELLO.
        tensors: The values, in messages of `VALUE_KINDS`.

    >>> import torch
    >>> from tacit.sites.wire import decode, encode
    >>> link = Link("0" * 64, "site-a", "site-b")
    >>> mixed = Message(link, MessageKind.MIX, round=3, tensors={"x": torch.ones(2)})
    >>> decode(encode(mixed), link).tensors
    {'x': tensor([1., 1.])}
    >>> decode(encode(mixed), link._replace(sender="site-c"))
    Traceback (most recent call last):
    tacit.sites.payload.WireError: site-c sent a message whose sender is site-a
    """

    link: Link
    kind: MessageKind
    round: int
    sequence: int = 0
    reply_to: MessageKind | None = None
    text: str = ""
    tensors: Tensors = field(default_factory=dict)

    @classmethod
    def of(cls, operation: Operation, link: Link, tensors: Tensors | None = None) -> Message:
        """Return the message of an operation on a link."""
        return cls(link, operation.kind, operation.round, operation.sequence, tensors=tensors or {})

    def __str__(self) -> str:
        return f"{self.kind.name} {self.sequence} of round {self.round}"

    @property
    def operation(self) -> Operation:
        """The operation that a message of `VALUE_KINDS` belongs to, or that a reply refers to."""
        return Operation(self.round, self.reply_to or self.kind, self.sequence)

    def reply(self, kind: MessageKind, text: str = "") -> Message:
        """Return ACKNOWLEDGE, MISSED or REFUSED for this message."""
        return Message(self.link.reversed(), kind, self.round, self.sequence, self.kind, text)
