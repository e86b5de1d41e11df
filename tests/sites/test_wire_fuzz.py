"""Any bytes are refused in one line, or are exactly the encoding of a message."""

import random
import resource
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.sites.message import MessageKind
from tacit.sites.wire import encode

from .messages import check_decode, example_message, raw_envelope, raw_payload, raw_tensor

MESSAGES = [encode(example_message(kind)) for kind in MessageKind]
PAYLOADS = [raw_tensor(), raw_tensor(shape=[1 << 62]), raw_payload("{}", b""), b"[" * 200]


def mutated_message(rng):
    """Return an encoded message with a few mutations, or an envelope with random fields."""
    if rng.random() < 0.3:
        fields = {"round": rng.getrandbits(64), "kind": rng.randrange(-2, 14), "sequence": rng.getrandbits(32)}
        fields |= {"reply_to": rng.randrange(13), "text": chr(rng.randrange(0xD800)) * rng.randrange(3)}
        fields |= {"payload": mutate(rng, rng.choice(PAYLOADS)), "sender": rng.choice(["site-a", "", "\n", "é"])}
        return raw_envelope(**dict(rng.sample(sorted(fields.items()), rng.randrange(4))))
    return mutate(rng, rng.choice(MESSAGES))


def mutate(rng, data):
    """Change, delete, double or replace a few ranges of bytes."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice([0, 1, 1, 2, 8, 60]))
        doubled, foreign = bytes(data[start:end]) * 2, rng.choice(MESSAGES)[start:end]
        data[start:end] = rng.choice([b"", rng.randbytes(end - start), doubled, foreign])
    return bytes(data)


@given(st.binary(max_size=400))
@example(b"")
def test_any_bytes(data):
    check_decode(data)


@given(st.randoms(use_true_random=False))
@settings(max_examples=500)
def test_any_mutated_message(rng):
    check_decode(mutated_message(rng))


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: struct.pack("<Q", len(data)) + data))
def test_any_payload(payload):
    check_decode(raw_envelope(payload=payload))


@pytest.mark.full
def test_200_000_mutated_messages():
    rng = random.Random(9)
    for _ in range(5000):
        check_decode(mutated_message(rng))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    accepted = sum(check_decode(mutated_message(rng)) for _ in range(200_000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "kilobytes of memory growth"
    assert 0 < accepted < 100_000, "both outcomes occur"
