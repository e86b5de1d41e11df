"""The encoding of messages as bytes.

The envelope is protobuf, tensors are safetensors; no code is ever loaded from a message. The rules for a well-formed
message are checked by both ends: `encode` produces nothing that `decode` refuses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from google.protobuf.message import DecodeError
from torch import Tensor

from tacit.sites.message import VALUE_KINDS, Link, Message, MessageKind
from tacit.sites.payload import WireError, pack, unpack
from tacit.sites.wire_schema import Envelope

MAX_MESSAGE_BYTES = 64 << 20
"""Default size limit of one message."""
MAX_SEQUENCE = 4096
"""Limit on the messages of one kind in one round."""
_VERSION = 1
_MAX_ROUND = 1 << 48
_MAX_TEXT, _MAX_DESCRIPTION = 500, 1 << 20
_SITE = re.compile(r"[a-z0-9.-]{1,64}")
_NETWORK = re.compile(r"[0-9a-f]{64}")
_REPLY_TO = {
    MessageKind.ACKNOWLEDGE: VALUE_KINDS,
    MessageKind.MISSED: VALUE_KINDS,
    MessageKind.REFUSED: VALUE_KINDS | {MessageKind.HELLO, None},
}
_TEXT_LENGTH = {
    MessageKind.HELLO: (1, _MAX_DESCRIPTION),
    MessageKind.REFUSED: (1, _MAX_TEXT),
    MessageKind.CLOSE: (0, _MAX_TEXT),
}


@dataclass(frozen=True)
class Codec:
    """Encodes and decodes the messages of one site of a network."""

    network: str
    site: str
    max_bytes: int = MAX_MESSAGE_BYTES

    def link_to(self, peer: str) -> Link:
        return Link(self.network, self.site, peer)

    def link_from(self, peer: str) -> Link:
        return Link(self.network, peer, self.site)

    def encode(self, message: Message) -> bytes:
        return encode(message, self.max_bytes)

    def decode(self, data: bytes, link: Link) -> Message:
        return decode(data, link, self.max_bytes)


def encode(message: Message, max_bytes: int = MAX_MESSAGE_BYTES) -> bytes:
    """Return the bytes of a message. Equal messages have equal bytes.

    Raises:
        WireError: The message is not well-formed, or is too large.
    """
    _check(message)
    link = message.link
    envelope = Envelope(
        version=_VERSION,
        network=bytes.fromhex(link.network),
        sender=link.sender,
        receiver=link.receiver,
        round=message.round,
        kind=message.kind.name,
        sequence=message.sequence,
        reply_to=message.reply_to.name if message.reply_to else "NONE",
        text=message.text,
        payload=pack(message.tensors),
    )
    data: bytes = envelope.SerializeToString(deterministic=True)
    if len(data) > max_bytes:
        raise WireError(f"a message must have at most {max_bytes} bytes, got {len(data)}")
    return data


def decode(data: bytes, link: Link, max_bytes: int = MAX_MESSAGE_BYTES) -> Message:
    """Return the message in untrusted bytes that arrived on `link`.

    A HELLO may name another network, since its text shows in what that network differs.

    Raises:
        WireError: The bytes are not a well-formed message on this link. No other exception is raised.
    """
    try:
        if len(data) > max_bytes:
            raise WireError(f"a message of {len(data)} bytes; at most {max_bytes} are accepted")
        message, payload = _parse(data)
        named = message.link._replace(network=link.network) if message.kind == MessageKind.HELLO else message.link
        for key, expected, found in zip(Link._fields, link, named, strict=True):
            if expected != found:
                raise WireError(f"a message whose {key} is {found}")
        return replace(message, tensors=_unpack(message, payload))
    except WireError as error:
        raise WireError(f"{link.sender} sent {error}") from None


def _parse(data: bytes) -> tuple[Message, bytes]:
    """Return the message without its tensors, and the payload that contains them."""
    envelope = Envelope()
    try:
        envelope.ParseFromString(data)
    except DecodeError:
        raise WireError("bytes that are not a message") from None
    payload = envelope.payload
    envelope.DiscardUnknownFields()
    envelope.ClearField("payload")
    head = envelope.SerializeToString(deterministic=True)
    # Accept only the bytes that `encode` writes: no unknown, repeated, non-minimal or reordered field. After the other
    # fields come the payload's tag (1 byte), its length in groups of 7 bits, and the payload itself.
    rest = len(payload) + 1 + -(-len(payload).bit_length() // 7) if payload else 0
    if len(data) != len(head) + rest or not data.startswith(head):
        raise WireError("a message that is not in canonical form")
    if envelope.version != _VERSION:
        raise WireError(f"a message of version {envelope.version}; this site accepts version {_VERSION}")
    try:
        kind = MessageKind(envelope.kind)
        reply_to = MessageKind(envelope.reply_to) if envelope.reply_to else None
    except ValueError:
        raise WireError("a message of unknown kind") from None
    link = Link(envelope.network.hex(), envelope.sender, envelope.receiver)
    message = Message(link, kind, envelope.round, envelope.sequence, reply_to, envelope.text)
    _check(message, bool(payload))
    return message, payload


def _unpack(message: Message, payload: bytes) -> dict[str, Tensor]:
    try:
        return unpack(payload)
    except WireError as error:
        raise WireError(f"{message}: {error}") from None


def _check(message: Message, has_tensors: bool | None = None) -> None:
    """Raise `WireError` unless the message is well-formed. The error text contains no unchecked string."""
    link, kind = message.link, message.kind
    if not (_NETWORK.fullmatch(link.network) and _SITE.fullmatch(link.sender) and _SITE.fullmatch(link.receiver)):
        raise WireError("a message without a valid network, sender and receiver")
    if not (0 <= message.round < _MAX_ROUND and 0 <= message.sequence < MAX_SEQUENCE):
        raise WireError(f"a {kind.name} message whose round or sequence is out of range")
    if (kind in VALUE_KINDS) != (bool(message.tensors) if has_tensors is None else has_tensors):
        raise WireError(f"a {kind.name} message {'without' if kind in VALUE_KINDS else 'with'} tensors")
    if message.reply_to not in _REPLY_TO.get(kind, {None}):
        raise WireError(f"a {kind.name} message with an invalid reply_to")
    shortest, longest = _TEXT_LENGTH.get(kind, (0, 0))
    if not shortest <= len(message.text) <= longest or not message.text.isprintable():
        raise WireError(f"a {kind.name} message whose text is missing, too long or not one printable line")
