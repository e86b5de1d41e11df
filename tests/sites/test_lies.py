"""Lies, wrong forms and words out of turn are refused, and change nothing."""

import random
import struct
import threading
import time

import pytest
import torch

from tacit.graphs.families import ring
from tacit.sites.message import Link, Message, MessageKind, Operation
from tacit.sites.peers import sender_check
from tacit.sites.wire import decode, encode

from .cases import MIX, ONE, Desk, value
from .desks import FIRST, begun, heard, says


@pytest.mark.parametrize("when", ["held", "used", "after a crash"])
def test_another_content_is_refused(tmp_path, two, caplog, when):
    a, b = begun(*two)
    true, lie = says(a, b, 1.5), a.message("b", tensors=value(2.5))
    b.hears(a, true)
    if when != "held":
        b.post.send(FIRST, {})
        heard(b, a)
        b.answers.clear()
    if when == "after a crash":
        b.crash()
    (answer,) = b.hears(a, lie)
    assert (answer.kind, answer.reply_to) == (MessageKind.REFUSED, None)
    assert answer.text == "a sent MIX 0 of round 0 twice, with different contents"
    assert b.post.counts.refused == 1
    assert [record.getMessage() for record in caplog.records] == [f"refused: {answer.text}"]
    if when == "held":
        b.post.send(FIRST, {})
    assert heard(b, a) == ({"a": 1.5}, [])


def bad(desk):
    """Bytes that are no message of round 0 to b, and words of the refusal."""
    good = desk.message("b", tensors=value(1.0))
    nan = good.replace(struct.pack("<d", 1.0), struct.pack("<d", float("nan")))
    assert nan != good
    yield b"", "a message of version 0"
    yield random.Random(0).randbytes(1000), "bytes that are not a message"
    yield good[:-1], "bytes that are not a message"
    yield nan, "values that are not finite"
    yield desk.message("c", tensors=value(1.0)), "a message whose receiver is c"
    other = Desk(desk.path.parent, "c").message("b", tensors=value(1.0))
    yield other, "a message whose sender is c"
    strange = Message(Link("f" * 64, desk.name, "b"), MIX, 0, tensors=value(1.0))
    yield encode(strange), f"a message whose network is {'f' * 64}"
    yield (
        desk.message("b", tensors={"0": torch.ones(2, dtype=torch.float64)}),
        "tensor 0 is float64 (2), expected float64",
    )
    yield desk.message("b", tensors={"0": torch.ones(1)}), "tensor 0 is float32 (1), expected float64 (1)"
    yield desk.message("b", tensors={"1": torch.ones(1)}), "the tensors are 1, expected 0"
    yield desk.message("b", tensors={**value(1.0), "1": torch.ones(1)}), "the tensors are 0, 1, expected 0"


def test_lies_are_refused_and_change_nothing(two, caplog):
    a, b = begun(*two)
    b.post.send(FIRST, {})
    hearing = threading.Thread(target=lambda: heard(b, a, patience=60.0), daemon=True)
    hearing.start()
    while b.post.waiting_for != ("a",):
        time.sleep(0.001)
    for number, (data, words) in enumerate(bad(a), 1):
        (answer,) = b.hears(a, data)
        assert answer.kind == MessageKind.REFUSED
        assert words in answer.text
        assert b.post.counts.refused == number == len(caplog.records)
        assert "\n" not in caplog.records[-1].getMessage()
        assert caplog.records[-1].peer == "a"
        assert b.journal.completed(FIRST) is None
    assert b.hears(a, says(a, b, 1.5)) == []
    hearing.join()
    assert heard(b, a) == ({"a": 1.5}, [])


def test_wrong_forms_are_found_when_the_form_is_known(two):
    """What was held from before is refused then, and is its sender's again."""
    a, b = begun(*two)
    says(a, b, 1.0)
    lie = a.message("b", tensors={"0": torch.ones(7)})
    assert b.hears(a, lie) == []
    b.post.send(FIRST, {})
    assert heard(b, a) == ({}, [])
    (answer,) = [decode(data, b.link("a")) for _, data in b.answers]
    assert (answer.kind, answer.reply_to) == (MessageKind.REFUSED, MIX)
    assert "tensor 0 is float32 (7), expected float64 (1)" in answer.text
    a.fed(b, [answer])
    assert [sent.operation for sent in a.journal.missed(MIX, 0)] == [FIRST]


def test_who_has_nothing_to_say_is_not_heard(tmp_path):
    graph = ring(3, directed=True)
    sites = ("a", "b", "c")
    b, c = (Desk(tmp_path, name, sites, may=sender_check(graph, sites, name)) for name in "bc")
    a = Desk(tmp_path, "a", sites)
    begun(b, c)
    data = a.message("b", tensors=value(1.0))
    assert b.hears(a, data) == []
    (answer,) = c.hears(a, a.message("c", tensors=value(1.0)))
    assert answer.text == "a sent MIX 0 of round 0, but this site expects no such message from it"
    assert len(c.post._inbox) == 0


def test_a_neighbour_that_speaks_out_of_turn(tmp_path):
    """In an exchange of some edges only, others may speak as little as strangers."""
    a, b, c = (Desk(tmp_path, name, tolerates_dropout=False) for name in "abc")
    begun(a, b, c)
    verb = Operation(0, MessageKind.SWAP, 0)
    b.post.send(verb, {"a": value(0.0)})
    hearing = threading.Thread(target=lambda: b.post.receive(verb, {"a": ONE}, 60.0), daemon=True)
    hearing.start()
    while b.post.waiting_for != ("a",):
        time.sleep(0.001)
    (answer,) = b.hears(c, c.message("b", MessageKind.SWAP, tensors=value(1.0)))
    assert (answer.kind, b.post.counts.refused) == (MessageKind.REFUSED, 1)
    b.hears(a, a.message("b", MessageKind.SWAP, tensors=value(2.0)))
    hearing.join()
    assert set(b.journal.completed(verb)[0]) == {"a"}


def test_verdicts_about_nothing(two):
    """Someone answers what was never said, or not to it."""
    a, b = begun(*two)
    says(a, b, 1.5)
    c = Desk(a.path.parent, "c")
    for kind in (MessageKind.ACKNOWLEDGE, MessageKind.MISSED):
        assert a.post.receiver.on_message("c", c.message("a", kind, reply_to=MIX)).messages == []
        assert a.post.receiver.on_message("b", b.message("a", kind, 7, reply_to=MIX)).messages == []
    assert a.journal.pending_receivers == {"b"}
    assert a.journal.missed(MIX, 0) == []


def test_a_liar_among_several_moves_us_by_less(tmp_path):
    a, b, c = (Desk(tmp_path, name) for name in "abc")
    a.post.receiver.on_message("b", b.message("a", MessageKind.REJOIN, 5))
    a.post.receiver.on_message("c", c.message("a", MessageKind.REJOIN, 100))
    assert a.post.begin(1) == 5
    begun(a, round_=5)
