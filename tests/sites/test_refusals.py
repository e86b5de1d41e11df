"""Forged, malformed and unexpected messages are refused with a reason, and change nothing."""

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

from .manual_sites import FIRST, MIX, ONE_NUMBER, ManualSite, begin, number, receive, send


def start_receiving(site, operation, sender):
    """Receive in another thread, and return the thread once it waits."""
    expected = {sender.name: ONE_NUMBER}
    thread = threading.Thread(target=lambda: site.exchange.receive(operation, expected, 60.0), daemon=True)
    thread.start()
    while site.exchange.waiting_for != (sender.name,):
        time.sleep(0.001)
    return thread


@pytest.mark.parametrize("when", ["held", "used", "after a restart"])
def test_repeated_message_with_other_contents_is_refused(site_pair, caplog, when):
    a, b = begin(*site_pair)
    original, forged = send(a, b, 1.5), a.encode("b", tensors=number(2.5))
    b.deliver(a, original)
    if when != "held":
        b.exchange.send(FIRST, {})
        receive(b, a)
        b.replies.clear()
    if when == "after a restart":
        b.restart()
    (reply,) = b.deliver(a, forged)
    assert (reply.kind, reply.reply_to) == (MessageKind.REFUSED, None)
    assert reply.text == "a sent MIX 0 of round 0 twice, with different contents"
    assert b.exchange.counts.refused == 1
    assert [record.getMessage() for record in caplog.records] == [f"refused: {reply.text}"]
    if when == "held":
        b.exchange.send(FIRST, {})
    assert receive(b, a) == ({"a": 1.5}, [])


def invalid_messages(site):
    """Yield bytes that are not a valid message of round 0 from the site to b, with a part of the reason."""
    valid = site.encode("b", tensors=number(1.0))
    nan = valid.replace(struct.pack("<d", 1.0), struct.pack("<d", float("nan")))
    assert nan != valid
    yield b"", "a message of version 0"
    yield random.Random(0).randbytes(1000), "bytes that are not a message"
    yield valid[:-1], "bytes that are not a message"
    yield nan, "values that are not finite"
    yield site.encode("c", tensors=number(1.0)), "a message whose receiver is c"
    yield ManualSite(site.path.parent, "c").encode("b", tensors=number(1.0)), "a message whose sender is c"
    other_network = Message(Link("f" * 64, site.name, "b"), MIX, 0, tensors=number(1.0))
    yield encode(other_network), f"a message whose network is {'f' * 64}"
    two_numbers = {"0": torch.ones(2, dtype=torch.float64)}
    yield site.encode("b", tensors=two_numbers), "tensor 0 is float64 (2), expected float64 (1)"
    yield site.encode("b", tensors={"0": torch.ones(1)}), "tensor 0 is float32 (1), expected float64 (1)"
    yield site.encode("b", tensors={"1": torch.ones(1)}), "the tensors are 1, expected 0"
    yield site.encode("b", tensors={**number(1.0), "1": torch.ones(1)}), "the tensors are 0, 1, expected 0"


def test_invalid_messages_are_refused_and_change_nothing(site_pair, caplog):
    a, b = begin(*site_pair)
    b.exchange.send(FIRST, {})
    receiving = start_receiving(b, FIRST, a)
    for count, (data, reason) in enumerate(invalid_messages(a), 1):
        (reply,) = b.deliver(a, data)
        assert reply.kind == MessageKind.REFUSED
        assert reason in reply.text
        assert b.exchange.counts.refused == count == len(caplog.records)
        assert "\n" not in caplog.records[-1].getMessage()
        assert caplog.records[-1].peer == "a"
        assert b.journal.completed(FIRST) is None
    assert b.deliver(a, send(a, b, 1.5)) == []
    receiving.join()
    assert receive(b, a) == ({"a": 1.5}, [])


def test_held_message_of_another_form_is_refused_when_the_form_is_known(site_pair):
    """It then belongs to its sender again."""
    a, b = begin(*site_pair)
    send(a, b, 1.0)
    assert b.deliver(a, a.encode("b", tensors={"0": torch.ones(7)})) == []
    b.exchange.send(FIRST, {})
    assert receive(b, a) == ({}, [])
    (reply,) = [decode(data, b.link_to("a")) for _, data in b.replies]
    assert (reply.kind, reply.reply_to) == (MessageKind.REFUSED, MIX)
    assert reply.text == "a sent MIX 0 of round 0: tensor 0 is float32 (7), expected float64 (1)"
    a.deliver_replies(b, [reply])
    assert [sent.operation for sent in a.journal.missed(MIX, 0)] == [FIRST]


def test_message_of_a_site_that_is_not_an_in_neighbour_is_refused(tmp_path):
    graph = ring(3, directed=True)
    sites = ("a", "b", "c")
    b, c = (ManualSite(tmp_path, name, sites, may_send=sender_check(graph, sites, name)) for name in "bc")
    a = ManualSite(tmp_path, "a", sites)
    begin(b, c)
    assert b.deliver(a, a.encode("b", tensors=number(1.0))) == []
    (reply,) = c.deliver(a, a.encode("c", tensors=number(1.0)))
    assert reply.text == "a sent MIX 0 of round 0, but this site expects no such message from it"
    assert len(c.exchange._inbox) == 0


def test_neighbour_outside_the_operation_is_refused(tmp_path):
    """A swap over some edges only: other neighbours may not send."""
    a, b, c = begin(*(ManualSite(tmp_path, name, tolerates_dropout=False) for name in "abc"))
    operation = Operation(0, MessageKind.SWAP, 0)
    b.exchange.send(operation, {"a": number(0.0)})
    receiving = start_receiving(b, operation, a)
    (reply,) = b.deliver(c, c.encode("b", MessageKind.SWAP, tensors=number(1.0)))
    assert (reply.kind, b.exchange.counts.refused) == (MessageKind.REFUSED, 1)
    b.deliver(a, a.encode("b", MessageKind.SWAP, tensors=number(2.0)))
    receiving.join()
    assert set(b.journal.completed(operation).used) == {"a"}


def test_reply_to_a_message_that_was_not_sent_is_ignored(site_pair):
    a, b = begin(*site_pair)
    send(a, b, 1.5)
    c = ManualSite(a.path.parent, "c")
    for kind in (MessageKind.ACKNOWLEDGE, MessageKind.MISSED):
        assert a.receiver.on_message("c", c.encode("a", kind, reply_to=MIX)).messages == []
        assert a.receiver.on_message("b", b.encode("a", kind, 7, reply_to=MIX)).messages == []
    assert a.journal.pending_receivers == {"b"}
    assert a.journal.missed(MIX, 0) == []


def test_one_false_rejoin_round_has_limited_effect(tmp_path):
    a, b, c = (ManualSite(tmp_path, name) for name in "abc")
    a.receiver.on_message("b", b.encode("a", MessageKind.REJOIN, 5))
    a.receiver.on_message("c", c.encode("a", MessageKind.REJOIN, 100))
    assert a.exchange.begin(1) == 5
    begin(a, round_=5)
