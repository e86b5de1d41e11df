"""Messages of every kind, envelopes and tensors that no site would make, and what becomes of any bytes."""

import json
import struct

import torch

from tacit.sites import wire_pb2
from tacit.sites.message import VALUE_KINDS, Link, Message, MessageKind
from tacit.sites.payload import WireError, pack
from tacit.sites.wire import decode, encode

LINK = Link("ab" * 32, "site-a", "site-b")


def values(**more):
    return {"0": torch.arange(6.0).view(2, 3), "1": torch.tensor([2.5], dtype=torch.float64), **more}


def example_of(kind):
    """A well-formed message of each kind."""
    text = {
        MessageKind.HELLO: '{"a":1}',
        MessageKind.REFUSED: "algorithm.lr is 1 here and 2 there: ε",
        MessageKind.CLOSE: "done",
    }
    return Message(
        LINK,
        kind,
        round=7,
        sequence=3 if kind in VALUE_KINDS else 0,
        reply_to=MessageKind.SWAP
        if kind in (MessageKind.ACKNOWLEDGE, MessageKind.MISSED, MessageKind.REFUSED)
        else None,
        text=text.get(kind, ""),
        tensors=values() if kind in VALUE_KINDS else {},
    )


def attempt(data):
    """Whatever the bytes: refused in one line, or a message that is these very bytes."""
    try:
        message = decode(data, LINK, 1 << 16)
    except WireError as error:
        line = str(error)
    else:
        assert encode(message) == data
        return True
    assert line.isprintable()
    assert len(line) < 400
    return False


def envelope(**fields):
    """Bytes of an envelope that no `encode` would have made."""
    link = {"network": bytes.fromhex(LINK.network), "sender": LINK.sender, "receiver": LINK.receiver}
    whole = {"version": 1, "round": 7, "kind": MessageKind.MIX, "payload": pack(values()), **link, **fields}
    return wire_pb2.Envelope(**whole).SerializeToString(deterministic=True)


def tensor_bytes(data=b"\0" * 4, **entry):
    whole = {"dtype": "F32", "shape": [1], "data_offsets": [0, len(data)], **entry}
    return described(json.dumps({"x": whole}, separators=(",", ":")), data)


def described(header, data=b"\0" * 4):
    padded = header.encode() + b" " * (-len(header) % 8)
    return struct.pack("<Q", len(padded)) + padded + data
