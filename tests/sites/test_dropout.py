"""When a run continues without a site, and how that site rejoins."""

import logging
import threading
import time

import pytest

from tacit.errors import TacitError
from tacit.sites.message import MessageKind, Operation
from tacit.sites.wire import decode

from .manual_sites import FIRST, MIX, ManualSite, begin, describe, number, receive, send


def test_without_dropout_a_site_waits_for_its_peers(tmp_path, caplog):
    a, b = begin(*(ManualSite(tmp_path, name, tolerates_dropout=False) for name in "ab"))
    data = send(a, b, 1.5)
    b.exchange.send(FIRST, {})
    threading.Timer(0.1, lambda: b.receiver.on_connected("a")).start()
    threading.Timer(0.3, lambda: b.receiver.on_message("a", data)).start()
    assert receive(b, a, timeout=0.05) == ({"a": 1.5}, [])
    assert "still waiting for a after 0 seconds" in caplog.text
    assert not b.peers["a"].absent
    assert b.exchange.waiting_for == ()


def test_without_dropout_a_refused_message_stays_pending(tmp_path):
    a, b = begin(*(ManualSite(tmp_path, name, tolerates_dropout=False) for name in "ab"))
    send(a, b, 1.5)
    a.receiver.on_message("b", b.encode("a", MessageKind.REFUSED, reply_to=MIX, text="no"))
    assert a.journal.pending_receivers == {"b"}, "it will be retransmitted"
    a.receiver.on_message("b", b.encode("a", MessageKind.REJOIN, 50))
    begin(a, round_=1)


def test_absent_site_rejoins(site_pair, caplog):
    caplog.set_level(logging.INFO)
    a, b = begin(*site_pair)
    b.exchange.send(FIRST, {"a": number(0.0)})
    receive(b, a)
    for round_ in range(1, 6):
        begin(b, round_=round_)
        sent = b.exchange.send(Operation(round_, MIX, 0), {"a": number(float(round_))})
        assert sent == {}, "nothing is sent to an absent site"
        assert receive(b, a, round_, timeout=60.0) == ({}, []), "there is no wait for it"
    accepted, replies = b.receiver.on_first_message("a", a.receiver.hello("b"))
    assert accepted
    replies = [decode(data, b.link_to("a")) for data in replies]
    assert [(reply.kind, reply.round) for reply in replies] == [(MessageKind.HELLO_REPLY, 0), (MessageKind.REJOIN, 6)]
    assert "rejoined: expected again from round 6 on" in caplog.text
    assert b.reply_kinds(a, a.receiver.hello("b")) == [MessageKind.HELLO_REPLY], "REJOIN is sent once"
    a.deliver_replies(b, replies)
    assert a.exchange.begin(0) == 6
    a.receiver.on_connected("b")
    begin(a, round_=6)
    assert ("b", MessageKind.HELLO) in a.take_sent_kinds(), "b need not wait for the skipped rounds"
    begin(b, round_=6)
    data = send(a, b, 6.5, 6)
    assert b.deliver(a, data) == []
    assert set(b.exchange.send(Operation(6, MIX, 0), {"a": number(6.0)})) == {"a"}
    assert receive(b, a, 6) == ({"a": 6.5}, [])


def test_round_after_the_last_is_refused(tmp_path):
    a, b = (ManualSite(tmp_path, name, description=describe("abc", rounds=10)) for name in "ab")
    for kind in (MessageKind.REJOIN, MessageKind.HELLO_REPLY, MessageKind.CLOSE):
        assert a.reply_kinds(b, b.encode("a", kind, 11)) == [MessageKind.REFUSED]
    begin(a, round_=3)
    assert a.reply_kinds(b, b.encode("a", MessageKind.REJOIN, 10)) == []
    assert a.exchange.begin(4) == 10
    begin(a, round_=10)


def test_unreachable_receiver_is_absent(tmp_path):
    """In a directed graph a site may expect nothing from a receiver, so that no wait for it ever times out."""
    a = ManualSite(tmp_path, "a", unreachable_after=0.05)
    a.receiver.on_connected("b")
    begin(a)
    assert set(a.exchange.send(FIRST, {"b": number(1.0), "c": number(1.0)})) == {"b", "c"}
    a.receiver.on_disconnected("b")
    time.sleep(0.1)
    assert a.exchange.send(Operation(0, MIX, 1), {"b": number(1.0), "c": number(1.0)}) == {}
    assert a.peers["b"].absent


def test_failed_transport_stops_the_run(site_pair):
    a, _ = begin(*site_pair)
    a.receiver.on_failure("the disk is full")
    with pytest.raises(TacitError, match="the disk is full"):
        a.exchange.begin(1)


def test_rounds_from_before_a_restart_are_repeated_before_rejoining(site_pair):
    """Their messages were sent and received, so they must count."""
    a, b = site_pair
    for round_ in range(4):
        begin(a, round_=round_)
        send(a, b, float(round_), round_)
        if round_ < 3:
            receive(a, None, round_)
    a.restart()
    a.receiver.on_message("b", b.encode("a", MessageKind.REJOIN, 9))
    for round_ in range(4):  # the last of them is incomplete
        begin(a, round_=round_)
        assert float(a.exchange.send(Operation(round_, MIX, 0), {"b": number(9.0)})["b"]["0"]) == round_
        receive(a, None, round_)
    assert a.exchange.begin(4) == 9
