"""Messages between sites as bytes: one message, one string of bytes, and back again or refused.

The envelope is protobuf, tensors are safetensors; nothing that is read can run. What a message must be is said here
once, for both ends: `encode` makes nothing that `decode` refuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError
from torch import Tensor

from tacit.sites import wire_pb2
from tacit.sites.payload import WireError, pack, unpack

MOST = 64 << 20
"""Bytes of the largest message, unless a network says otherwise."""
MOST_SEQUENCE = 4096
"""Messages of one kind in one round."""
_VERSION = 1
_MOST_ROUND = 1 << 48
_MOST_TEXT, _MOST_DESCRIPTION = 500, 1 << 20
_SITE = re.compile(r"[a-z0-9.-]{1,64}")
_NETWORK = re.compile(r"[0-9a-f]{64}")


class Kind(IntEnum):
    """What a message is. wire.proto says what each kind tells."""

    HELLO = wire_pb2.HELLO
    MIX = wire_pb2.MIX
    SWAP = wire_pb2.SWAP
    MAX = wire_pb2.MAX
    MEAN = wire_pb2.MEAN
    RECEIVED = wire_pb2.RECEIVED
    MISSED = wire_pb2.MISSED
    ABSENT = wire_pb2.ABSENT
    REFUSED = wire_pb2.REFUSED
    GOODBYE = wire_pb2.GOODBYE
    HEARD = wire_pb2.HEARD


VALUES = frozenset({Kind.MIX, Kind.SWAP, Kind.MAX, Kind.MEAN})
"""Kinds that carry tensors, and so count once."""
_ABOUT = {Kind.RECEIVED: VALUES, Kind.MISSED: VALUES, Kind.REFUSED: VALUES | {Kind.HELLO, None}}
_TEXT = {Kind.HELLO: (1, _MOST_DESCRIPTION), Kind.REFUSED: (1, _MOST_TEXT), Kind.GOODBYE: (0, _MOST_TEXT)}


class Link(NamedTuple):
    """One direction between two sites of a network: what every message on it must be bound to."""

    network: str
    sender: str
    receiver: str

    def back(self) -> Link:
        return Link(self.network, self.receiver, self.sender)


@dataclass(frozen=True, eq=False)
class Message:
    """Something a site tells another: `sequence` counts those of its kind in its round, `about` is what it answers.

    >>> import torch
    >>> link = Link("0" * 64, "site-a", "site-b")
    >>> mixed = Message(link, Kind.MIX, round=3, tensors={"x": torch.ones(2)})
    >>> decode(encode(mixed), link).tensors
    {'x': tensor([1., 1.])}
    >>> decode(encode(mixed), link._replace(sender="site-c"))
    Traceback (most recent call last):
    tacit.sites.payload.WireError: site-c sent a message whose sender is site-a
    """

    link: Link
    kind: Kind
    round: int
    sequence: int = 0
    about: Kind | None = None
    text: str = ""
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    def __str__(self) -> str:
        """What it is, in a line of a log."""
        return f"{self.kind.name} {self.sequence} of round {self.round}"

    def answer(self, kind: Kind, text: str = "") -> Message:
        """RECEIVED, MISSED or REFUSED, about this one, in the other direction."""
        return Message(self.link.back(), kind, self.round, self.sequence, self.kind, text)


def encode(message: Message, most: int = MOST) -> bytes:
    """The bytes of a message: the same ones every time, so that what is sent again is no other message."""
    _check(message)
    link = message.link
    envelope = wire_pb2.Envelope(
        version=_VERSION,
        network=bytes.fromhex(link.network),
        sender=link.sender,
        receiver=link.receiver,
        round=message.round,
        kind=message.kind.name,
        sequence=message.sequence,
        about=message.about.name if message.about else "NONE",
        text=message.text,
        payload=pack(message.tensors),
    )
    data = envelope.SerializeToString(deterministic=True)
    if len(data) > most:
        raise WireError(f"a message of {len(data)} bytes is to be sent, and {most} is the most")
    return data


def decode(data: bytes, link: Link, most: int = MOST) -> Message:
    """The message in bytes that came over `link`; whatever they are, nothing but a `WireError` is raised.

    A HELLO may be from another network: its text says how that differs.
    """
    try:
        if len(data) > most:
            raise WireError(f"a message of {len(data)} bytes, and {most} is the most")
        message, payload = _opened(data)
        named = message.link._replace(network=link.network) if message.kind == Kind.HELLO else message.link
        for key, here, there in zip(Link._fields, link, named, strict=True):
            if here != there:
                raise WireError(f"a message whose {key} is {there}")
        return replace(message, tensors=_unpacked(message, payload))
    except WireError as error:
        raise WireError(f"{link.sender} sent {error}") from None


def _opened(data: bytes) -> tuple[Message, bytes]:
    """The envelope, and its payload unread."""
    envelope = wire_pb2.Envelope()
    try:
        envelope.ParseFromString(data)
    except DecodeError:
        raise WireError("bytes that are no message") from None
    payload = envelope.payload
    envelope.DiscardUnknownFields()
    envelope.ClearField("payload")
    head = envelope.SerializeToString(deterministic=True)
    # Only what `encode` writes is a message: no field unknown, twice, at length or out of place. Behind the head come
    # the payload's tag, its length in groups of 7 bits, and the payload.
    rest = len(payload) + 1 + -(-len(payload).bit_length() // 7) if payload else 0
    if len(data) != len(head) + rest or not data.startswith(head):
        raise WireError("a message with parts that do not belong there")
    if envelope.version != _VERSION:
        raise WireError(f"a message of version {envelope.version}, and this is version {_VERSION}")
    try:
        kind, about = Kind(envelope.kind), Kind(envelope.about) if envelope.about else None
    except ValueError:
        raise WireError("a message of unknown kind") from None
    link = Link(envelope.network.hex(), envelope.sender, envelope.receiver)
    message = Message(link, kind, envelope.round, envelope.sequence, about, envelope.text)
    _check(message, bool(payload))
    return message, payload


def _unpacked(message: Message, payload: bytes) -> dict[str, Tensor]:
    try:
        return unpack(payload)
    except WireError as error:
        raise WireError(f"{message}, in which {error}") from None


def _check(message: Message, tensors: bool | None = None) -> None:
    """What must hold of every message. Only names that have been checked are told."""
    link, kind = message.link, message.kind
    if not (_NETWORK.fullmatch(link.network) and _SITE.fullmatch(link.sender) and _SITE.fullmatch(link.receiver)):
        raise WireError("a message without a network, sender and receiver")
    if not (0 <= message.round < _MOST_ROUND and 0 <= message.sequence < MOST_SEQUENCE):
        raise WireError(f"a message {kind.name} with a number in its round, or a round, that cannot be")
    if (kind in VALUES) != (bool(message.tensors) if tensors is None else tensors):
        raise WireError(f"a message {kind.name} {'without' if kind in VALUES else 'with'} tensors")
    if message.about not in _ABOUT.get(kind, {None}):
        raise WireError(f"a message {kind.name} about what it cannot be about")
    least, most = _TEXT.get(kind, (0, 0))
    if not least <= len(message.text) <= most or not message.text.isprintable():
        raise WireError(f"a message {kind.name} with a text that is too short, too long or not one line")
