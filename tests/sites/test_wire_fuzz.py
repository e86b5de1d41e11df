"""Any bytes at all: refused in one line, or a message that is these very bytes."""

import random
import resource
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tacit.sites.message import MessageKind
from tacit.sites.wire import encode

from .messages import attempt, described, envelope, example_of, tensor_bytes

EXAMPLES = [encode(example_of(kind)) for kind in MessageKind]
RAW = [tensor_bytes(), tensor_bytes(shape=[1 << 62]), described("{}", b""), b"[" * 200]


def mutated(rng):
    """A well-formed message with a few bytes changed, dropped, doubled or taken from another; or its parts askew."""
    if rng.random() < 0.3:
        fields = {"round": rng.getrandbits(64), "kind": rng.randrange(-2, 14), "sequence": rng.getrandbits(32)}
        fields |= {"reply_to": rng.randrange(13), "text": chr(rng.randrange(0xD800)) * rng.randrange(3)}
        fields |= {"payload": crumpled(rng, rng.choice(RAW)), "sender": rng.choice(["site-a", "", "\n", "é"])}
        return envelope(**dict(rng.sample(sorted(fields.items()), rng.randrange(4))))
    return crumpled(rng, rng.choice(EXAMPLES))


def crumpled(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice([0, 1, 1, 2, 8, 60]))
        piece = rng.choice(
            [b"", rng.randbytes(end - start), bytes(data[start:end]) * 2, rng.choice(EXAMPLES)[start:end]]
        )
        data[start:end] = piece
    return bytes(data)


@given(st.binary(max_size=400))
@example(b"")
def test_any_bytes(data):
    attempt(data)


@given(st.randoms(use_true_random=False))
@settings(max_examples=500)
def test_any_message_gone_wrong(rng):
    attempt(mutated(rng))


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: struct.pack("<Q", len(data)) + data))
def test_any_payload(payload):
    attempt(envelope(payload=payload))


@pytest.mark.full
def test_fuzz_at_length():
    """200,000 messages gone wrong: refused or well-formed, every one, without growing."""
    rng = random.Random(9)
    for _ in range(5000):
        attempt(mutated(rng))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = sum(attempt(mutated(rng)) for _ in range(200_000))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes
    assert 0 < taken < 100_000  # both ends were tried
