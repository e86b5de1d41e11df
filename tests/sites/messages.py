"""Well-formed messages of every kind, malformed envelopes and payloads, and a check for any bytes."""

import json
import struct

import torch

from tacit.sites.message import VALUE_KINDS, Link, Message, MessageKind
from tacit.sites.payload import WireError, pack
from tacit.sites.wire import decode, encode
from tacit.sites.wire_schema import Envelope

LINK = Link("ab" * 32, "site-a", "site-b")
_TEXTS = {
    MessageKind.HELLO: '{"a":1}',
    MessageKind.REFUSED: "algorithm.lr is 1 here and 2 there: ε",
    MessageKind.CLOSE: "done",
}
_REPLIES = (MessageKind.ACKNOWLEDGE, MessageKind.MISSED, MessageKind.REFUSED)


def example_tensors(**more):
    return {"0": torch.arange(6.0).view(2, 3), "1": torch.tensor([2.5], dtype=torch.float64), **more}


def example_message(kind):
    """Return a well-formed message of a kind."""
    is_value = kind in VALUE_KINDS
    return Message(
        LINK,
        kind,
        round=7,
        sequence=3 if is_value else 0,
        reply_to=MessageKind.SWAP if kind in _REPLIES else None,
        text=_TEXTS.get(kind, ""),
        tensors=example_tensors() if is_value else {},
    )


def check_decode(data):
    """Check that bytes are refused in one line or are the encoding of a message; return whether they were accepted."""
    try:
        message = decode(data, LINK, 1 << 16)
    except WireError as error:
        reason = str(error)
    else:
        assert encode(message) == data
        return True
    assert reason.isprintable()
    assert len(reason) < 400
    return False


def raw_envelope(**fields):
    """Return the bytes of an envelope that `encode` may never produce."""
    link = {"network": bytes.fromhex(LINK.network), "sender": LINK.sender, "receiver": LINK.receiver}
    content = {"round": 7, "kind": MessageKind.MIX, "payload": pack(example_tensors())}
    return Envelope(**{"version": 1, **content, **link, **fields}).SerializeToString(deterministic=True)


def raw_tensor(data=b"\0" * 4, **entry):
    """Return a payload with one tensor x, described by `entry`."""
    described = {"dtype": "F32", "shape": [1], "data_offsets": [0, len(data)], **entry}
    return raw_payload(json.dumps({"x": described}, separators=(",", ":")), data)


def raw_payload(header, data=b"\0" * 4):
    """Return a payload with any header and data."""
    padded = header.encode() + b" " * (-len(header) % 8)
    return struct.pack("<Q", len(padded)) + padded + data
