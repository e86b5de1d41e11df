"""Messages are decoded as they were encoded; any other bytes are refused in one line."""

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from google.protobuf import descriptor_pb2

import tacit
from tacit.sites.message import Link, Message, MessageKind
from tacit.sites.payload import DTYPES, WireError, check_tensors, pack, unpack
from tacit.sites.wire import MAX_SEQUENCE, decode, encode
from tacit.sites.wire_schema import SCHEMA

from .messages import LINK, check_decode, example_message, example_tensors, raw_envelope, raw_payload, raw_tensor


def refusal(data, link=LINK, **options):
    """Return the reason for which bytes are refused."""
    with pytest.raises(WireError) as error:
        decode(data, link, **options)
    reason = str(error.value)
    assert reason.isprintable()
    assert 0 < len(reason) < 400
    return reason


@pytest.mark.parametrize("kind", list(MessageKind))
def test_every_kind_round_trips(kind):
    sent = example_message(kind)
    data = encode(sent)
    decoded = decode(data, LINK)
    assert replace(decoded, tensors={}).__dict__ == replace(sent, tensors={}).__dict__
    assert list(decoded.tensors) == list(sent.tensors)
    assert all(torch.equal(decoded.tensors[name], sent.tensors[name]) for name in sent.tensors)
    assert encode(decoded) == data == encode(example_message(kind))


def test_message_kinds_match_the_proto():
    assert {kind.name: kind.value for kind in MessageKind} | {"NONE": 0} == {
        value.name: value.number for value in SCHEMA.enum_type[0].value
    }


def test_the_descriptor_matches_the_proto(tmp_path):
    """If it fails, run `make proto`."""
    folder, file = Path(tacit.__file__).parents[1], tmp_path / "descriptor"
    command = ["-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={file}", "tacit/sites/wire.proto"]
    subprocess.run([sys.executable, *command], check=True)
    assert descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file[0] == SCHEMA


def test_encoding_is_stable():
    short = Message(Link("01" * 32, "a", "b"), MessageKind.MAX, 5, 1, tensors={"s": torch.tensor([1.0])})
    header = b'8\0\0\0\0\0\0\0{"s":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
    payload = header + struct.pack("<f", 1.0)
    head = b"\x08\x01\x12\x20" + b"\x01" * 32 + b"\x1a\x01a\x22\x01b\x28\x05\x30\x04\x38\x01"
    assert encode(short) == head + b"\x52" + bytes([len(payload)]) + payload


@pytest.mark.parametrize("dtype", DTYPES.values())
@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 2), (2, 0)])
def test_every_dtype_round_trips(dtype, shape):
    value = (torch.arange(6).view(3, 2, 1).transpose(1, 2) if shape == (3, 1, 2) else torch.ones(shape)).to(dtype)
    if value.numel() == 0:
        with pytest.raises(WireError, match="is empty"):
            pack({"x": value})
        return
    back = unpack(pack({"x": value, "y.0": value}))
    assert back.keys() == {"x", "y.0"}
    assert all(torch.equal(one, value) and one.dtype == dtype for one in back.values())


def test_payload_is_readable_by_safetensors():
    sent = example_tensors(half=torch.ones(3, dtype=torch.float16))
    read = safetensors.torch.load(pack(sent))
    assert all(torch.equal(read[name], sent[name]) for name in sent)


@pytest.mark.parametrize("kind", [MessageKind.HELLO, MessageKind.MIX, MessageKind.ACKNOWLEDGE, MessageKind.REFUSED])
def test_truncated_message_is_refused(kind):
    data = encode(example_message(kind))
    assert not any(check_decode(data[:end]) for end in range(len(data)))


def test_appended_bytes_are_refused():
    data = encode(example_message(MessageKind.MIX))
    for tail in (b"\0", b" ", data, b"\x28\x07", b"\x7a\x00", b"\x52\x00", b"\x0b\x0c"):
        assert "sent" in refusal(data + tail)


@pytest.mark.parametrize("kind", [MessageKind.HELLO, MessageKind.SWAP, MessageKind.MISSED])
def test_flipped_bit_gives_another_message_or_is_refused(kind):
    data = bytearray(encode(example_message(kind)))
    for place in range(8 * len(data)):
        data[place // 8] ^= 1 << place % 8
        check_decode(bytes(data))
        data[place // 8] ^= 1 << place % 8


def test_message_is_bound_to_network_sender_and_receiver():
    for key, other in {"network": "cd" * 32, "sender": "site-c", "receiver": "site-c"}.items():
        sent = encode(replace(example_message(MessageKind.MIX), link=LINK._replace(**{key: other})))
        assert refusal(sent) == f"site-a sent a message whose {key} is {other}"
    hello = replace(example_message(MessageKind.HELLO), link=LINK._replace(network="cd" * 32))
    assert decode(encode(hello), LINK).text == hello.text
    assert "sender" in refusal(encode(replace(hello, link=hello.link._replace(sender="site-c"))))


def test_reply_goes_to_the_sender():
    message = example_message(MessageKind.SWAP)
    reply = decode(encode(message.reply(MessageKind.ACKNOWLEDGE)), LINK.reversed())
    assert (reply.reply_to, reply.round, reply.sequence) == (MessageKind.SWAP, 7, 3)
    assert reply.link == Link(LINK.network, "site-b", "site-a")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"round": -1}, "round"),
        ({"round": 1 << 48}, "round"),
        ({"sequence": MAX_SEQUENCE}, "round"),
        ({"tensors": {}}, "without tensors"),
        ({"reply_to": MessageKind.MIX}, "reply_to"),
        ({"text": "hello"}, "text"),
        ({"kind": MessageKind.CLOSE}, "with tensors"),
        ({"kind": MessageKind.ACKNOWLEDGE, "tensors": {}}, "reply_to"),
        ({"kind": MessageKind.ACKNOWLEDGE, "tensors": {}, "reply_to": MessageKind.HELLO}, "reply_to"),
        ({"kind": MessageKind.HELLO, "tensors": {}}, "text"),
        ({"kind": MessageKind.CLOSE, "tensors": {}, "text": "two\nlines"}, "one printable line"),
        ({"kind": MessageKind.CLOSE, "tensors": {}, "text": "x" * 501}, "too long"),
        ({"link": LINK._replace(sender="two\nlines")}, "sender"),
        ({"link": LINK._replace(network="ab")}, "network"),
        ({"tensors": {"x": torch.tensor([1.0, float("nan")])}}, "finite"),
        ({"tensors": {"x": torch.tensor([float("inf")])}}, "finite"),
        ({"tensors": {"a\nb": torch.ones(1)}}, "valid tensor name"),
        ({"tensors": {"x": torch.ones(1, dtype=torch.bool)}}, "cannot be sent"),
        ({"tensors": {"x": torch.ones([1] * 9)}}, "dimensions"),
        ({"tensors": {f"{k:060d}": torch.ones(1) for k in range(2000)}}, "too many"),
    ],
)
def test_encode_refuses_malformed_messages(change, reason):
    with pytest.raises(WireError, match=reason):
        encode(replace(example_message(MessageKind.MIX), **change))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 2}, "version"),
        ({"kind": 12}, "unknown kind"),
        ({"kind": 0}, "unknown kind"),
        ({"reply_to": 99}, "unknown kind"),
        ({"network": b""}, "network"),
        ({"sender": "../site"}, "sender"),
        ({"round": 1 << 63}, "round"),
        ({"sequence": MAX_SEQUENCE}, "round"),
        ({"payload": b""}, "without tensors"),
        ({"kind": MessageKind.REJOIN}, "with tensors"),
        ({"text": "x"}, "text"),
        ({"payload": b"garbage"}, "length"),
        ({"payload": struct.pack("<Q", 1 << 62) + b"{}"}, "length"),
        ({"payload": struct.pack("<Q", 8) + b"[" * 8}, "safetensors"),
        ({"payload": struct.pack("<Q", 100_000) + b"[" * 100_000}, "safetensors"),
        ({"payload": struct.pack("<Q", 50_000) + b'{"a":' * 10_000}, "safetensors"),
        ({"payload": struct.pack("<Q", 1 << 18) + b" " * (1 << 18)}, "length"),
    ],
)
def test_decode_refuses_malformed_envelopes(fields, reason):
    assert reason in refusal(raw_envelope(**fields))


@pytest.mark.parametrize(
    "payload",
    [
        raw_tensor(shape=[1 << 62, 1 << 62]),
        raw_tensor(shape=[1 << 40]),
        raw_tensor(shape=[10**30]),
        raw_tensor(b"", shape=[0, 1 << 62]),
        raw_tensor(shape=[-1]),
        raw_tensor(shape=["1"]),
        raw_tensor(dtype="U8", shape=[4]),
        raw_tensor(dtype="F99"),
        raw_tensor(data_offsets=[0, 1 << 62]),
        raw_tensor(data_offsets=[4, 0]),
        raw_tensor(extra=1),
        raw_tensor(struct.pack("<f", float("nan"))),
        raw_tensor(struct.pack("<f", float("-inf"))),
        raw_tensor(struct.pack("<ff", 0, float("nan")), shape=[2]),
        raw_tensor() + b"\0",
        raw_payload('{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
        raw_payload(
            '{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        ),
        raw_payload('{"\\u0078":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
        raw_payload('{"x": {"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
        raw_payload("{}", b""),
        raw_payload('{"' + "é" * 5 + '":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
    ],
)
def test_decode_refuses_malformed_tensors(payload):
    assert "tensor" in refusal(raw_envelope(payload=payload))


def test_reason_names_sender_message_and_problem():
    nan = raw_envelope(payload=raw_tensor(struct.pack("<f", float("nan"))), sequence=2)
    assert refusal(nan) == "site-a sent MIX 2 of round 7: tensor x contains values that are not finite"
    assert refusal(b"garbage") == "site-a sent bytes that are not a message"


def test_unmodified_raw_tensor_is_accepted():
    """The malformed tensors above are refused for their one difference from it."""
    assert decode(raw_envelope(payload=raw_tensor()), LINK).tensors["x"].tolist() == [0.0]


def test_finite_values_with_an_infinite_sum_are_accepted():
    large = torch.full((4,), 3e38)
    assert torch.equal(unpack(pack({"x": large}))["x"], large)


def test_oversized_message_is_refused_by_both_ends():
    message = replace(example_message(MessageKind.MIX), tensors={"x": torch.zeros(1000)})
    data = encode(message)
    assert decode(data, LINK, len(data)).tensors["x"].shape == (1000,)
    assert f"{len(data)} bytes; at most {len(data) - 1} are accepted" in refusal(data, max_bytes=len(data) - 1)
    with pytest.raises(WireError, match=f"at most {len(data) - 1} bytes, got {len(data)}"):
        encode(message, len(data) - 1)


def test_tensors_must_match_their_specs():
    expected = {"0": (torch.float32, (2, 3)), "1": (torch.float64, (1,))}
    check_tensors(example_tensors(), expected)
    for wrong, reason in [
        ({"0": torch.zeros(3, 2)}, r"tensor 0 is float32 \(3, 2\), expected float32 \(2, 3\)"),
        ({"1": torch.zeros(1)}, r"tensor 1 is float32 \(1\), expected float64 \(1\)"),
        ({"2": torch.zeros(1)}, "the tensors are 0, 1, 2, expected 0, 1"),
    ]:
        with pytest.raises(WireError, match=reason):
            check_tensors({**example_tensors(), **wrong}, expected)
