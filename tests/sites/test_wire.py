"""Messages come back as they were sent, or are refused in one line; nothing else happens, whatever the bytes."""

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch
from google.protobuf import descriptor_pb2

from tacit.sites import wire_pb2
from tacit.sites.message import Link, Message, MessageKind
from tacit.sites.payload import DTYPES, WireError, check_tensors, pack, unpack
from tacit.sites.wire import MAX_SEQUENCE, decode, encode

from .messages import LINK, attempt, described, envelope, example_of, tensor_bytes, values


def refused(data, link=LINK, **options):
    """The one line with which the bytes are refused."""
    with pytest.raises(WireError) as error:
        decode(data, link, **options)
    line = str(error.value)
    assert line.isprintable()
    assert 0 < len(line) < 400
    return line


@pytest.mark.parametrize("kind", list(MessageKind))
def test_every_kind_comes_back(kind):
    sent = example_of(kind)
    data = encode(sent)
    came = decode(data, LINK)
    assert replace(came, tensors={}).__dict__ == replace(sent, tensors={}).__dict__
    assert list(came.tensors) == list(sent.tensors)
    assert all(torch.equal(came.tensors[name], sent.tensors[name]) for name in sent.tensors)
    assert encode(came) == data == encode(example_of(kind))


def test_kinds_are_those_of_the_envelope():
    assert {kind.name: kind.value for kind in MessageKind} | {"NONE": 0} == dict(wire_pb2.MessageKind.items())


def test_generated_code_is_that_of_the_proto(tmp_path):
    """If not: `make proto`."""
    folder, file = Path(wire_pb2.__file__).parents[2], tmp_path / "described"
    command = ["-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={file}", "tacit/sites/wire.proto"]
    subprocess.run([sys.executable, *command], check=True)
    described = descriptor_pb2.FileDescriptorSet.FromString(file.read_bytes()).file[0]
    kept = descriptor_pb2.FileDescriptorProto.FromString(wire_pb2.DESCRIPTOR.serialized_pb)
    for one in (described, kept):
        for field in one.message_type[0].field:
            field.ClearField("json_name")  # written by some compilers only
    assert described == kept


def test_bytes_stay_the_same_from_version_to_version():
    short = Message(Link("01" * 32, "a", "b"), MessageKind.MAX, 5, 1, tensors={"s": torch.tensor([1.0])})
    header = b'8\0\0\0\0\0\0\0{"s":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
    payload = header + struct.pack("<f", 1.0)
    head = b"\x08\x01\x12\x20" + b"\x01" * 32 + b"\x1a\x01a\x22\x01b\x28\x05\x30\x04\x38\x01"
    assert encode(short) == head + b"\x52" + bytes([len(payload)]) + payload


@pytest.mark.parametrize("dtype", DTYPES.values())
@pytest.mark.parametrize("shape", [(), (1,), (3, 1, 2), (2, 0)])
def test_every_dtype_comes_back(dtype, shape):
    value = (torch.arange(6).view(3, 2, 1).transpose(1, 2) if shape == (3, 1, 2) else torch.ones(shape)).to(dtype)
    if value.numel() == 0:
        with pytest.raises(WireError, match="is empty"):
            pack({"x": value})
        return
    back = unpack(pack({"x": value, "y.0": value}))
    assert back.keys() == {"x", "y.0"}
    assert all(torch.equal(one, value) and one.dtype == dtype for one in back.values())


def test_any_reader_of_safetensors_reads_the_payload():
    sent = values(half=torch.ones(3, dtype=torch.float16))
    read = safetensors.torch.load(pack(sent))
    assert all(torch.equal(read[name], sent[name]) for name in sent)


@pytest.mark.parametrize("kind", [MessageKind.HELLO, MessageKind.MIX, MessageKind.ACKNOWLEDGE, MessageKind.REFUSED])
def test_truncated_at_every_byte(kind):
    data = encode(example_of(kind))
    assert not any(attempt(data[:end]) for end in range(len(data)))


def test_longer_by_anything():
    data = encode(example_of(MessageKind.MIX))
    for tail in (b"\0", b" ", data, b"\x28\x07", b"\x7a\x00", b"\x52\x00", b"\x0b\x0c"):
        assert "sent" in refused(data + tail)


@pytest.mark.parametrize("kind", [MessageKind.HELLO, MessageKind.SWAP, MessageKind.MISSED])
def test_every_bit_flipped(kind):
    """A flipped bit may give another well-formed message, never anything else."""
    data = bytearray(encode(example_of(kind)))
    for place in range(8 * len(data)):
        data[place // 8] ^= 1 << place % 8
        attempt(bytes(data))
        data[place // 8] ^= 1 << place % 8


def test_bound_to_network_sender_and_receiver():
    for key, other in {"network": "cd" * 32, "sender": "site-c", "receiver": "site-c"}.items():
        sent = encode(replace(example_of(MessageKind.MIX), link=LINK._replace(**{key: other})))
        assert refused(sent) == f"site-a sent a message whose {key} is {other}"
    hello = replace(example_of(MessageKind.HELLO), link=LINK._replace(network="cd" * 32))
    assert decode(encode(hello), LINK).text == hello.text
    assert "sender" in refused(encode(replace(hello, link=hello.link._replace(sender="site-c"))))


def test_an_answer_goes_back():
    message = example_of(MessageKind.SWAP)
    answer = decode(encode(message.reply(MessageKind.ACKNOWLEDGE)), LINK.reversed())
    assert (answer.reply_to, answer.round, answer.sequence) == (MessageKind.SWAP, 7, 3)
    assert answer.link == Link(LINK.network, "site-b", "site-a")


@pytest.mark.parametrize(
    ("change", "why"),
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
def test_nothing_is_sent_that_would_be_refused(change, why):
    with pytest.raises(WireError, match=why):
        encode(replace(example_of(MessageKind.MIX), **change))


@pytest.mark.parametrize(
    ("fields", "why"),
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
def test_wrong_envelopes(fields, why):
    assert why in refused(envelope(**fields))


@pytest.mark.parametrize(
    "payload",
    [
        tensor_bytes(shape=[1 << 62, 1 << 62]),
        tensor_bytes(shape=[1 << 40]),
        tensor_bytes(shape=[10**30]),
        tensor_bytes(b"", shape=[0, 1 << 62]),
        tensor_bytes(shape=[-1]),
        tensor_bytes(shape=["1"]),
        tensor_bytes(dtype="U8", shape=[4]),
        tensor_bytes(dtype="F99"),
        tensor_bytes(data_offsets=[0, 1 << 62]),
        tensor_bytes(data_offsets=[4, 0]),
        tensor_bytes(extra=1),
        tensor_bytes(struct.pack("<f", float("nan"))),
        tensor_bytes(struct.pack("<f", float("-inf"))),
        tensor_bytes(struct.pack("<ff", 0, float("nan")), shape=[2]),
        tensor_bytes() + b"\0",
        described('{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
        described(
            '{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        ),
        described('{"\\u0078":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
        described('{"x": {"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
        described("{}", b""),
        described('{"' + "é" * 5 + '":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'),
    ],
)
def test_wrong_tensors(payload):
    assert "tensor" in refused(envelope(payload=payload))


def test_refusals_say_who_what_and_why():
    nan = envelope(payload=tensor_bytes(struct.pack("<f", float("nan"))), sequence=2)
    assert refused(nan) == "site-a sent MIX 2 of round 7: tensor x contains values that are not finite"
    assert refused(b"garbage") == "site-a sent bytes that are not a message"


def test_wrong_tensors_differ_from_right_ones_only_in_what_is_wrong():
    assert decode(envelope(payload=tensor_bytes()), LINK).tensors["x"].tolist() == [0.0]


def test_values_that_sum_to_infinity_are_finite():
    large = torch.full((4,), 3e38)
    assert torch.equal(unpack(pack({"x": large}))["x"], large)


def test_oversized_both_ways():
    message = replace(example_of(MessageKind.MIX), tensors={"x": torch.zeros(1000)})
    data = encode(message)
    assert decode(data, LINK, len(data)).tensors["x"].shape == (1000,)
    assert f"{len(data)} bytes; at most {len(data) - 1} are accepted" in refused(data, max_bytes=len(data) - 1)
    with pytest.raises(WireError, match=f"at most {len(data) - 1} bytes, got {len(data)}"):
        encode(message, len(data) - 1)


def test_tensors_must_be_those_expected():
    expected = {"0": (torch.float32, (2, 3)), "1": (torch.float64, (1,))}
    check_tensors(values(), expected)
    for wrong, why in [
        ({"0": torch.zeros(3, 2)}, r"tensor 0 is float32 \(3, 2\), expected float32 \(2, 3\)"),
        ({"1": torch.zeros(1)}, r"tensor 1 is float32 \(1\), expected float64 \(1\)"),
        ({"2": torch.zeros(1)}, "the tensors are 0, 1, 2, expected 0, 1"),
    ]:
        with pytest.raises(WireError, match=why):
            check_tensors({**values(), **wrong}, expected)
