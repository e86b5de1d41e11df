"""Who may be left out of a round, and how one that was comes back."""

import logging
import threading
import time

import pytest

from tacit.errors import TacitError
from tacit.sites.message import MessageKind, Operation
from tacit.sites.wire import decode

from .cases import MIX, Desk, described, value
from .desks import FIRST, begun, heard, says


def test_others_are_waited_for_where_nobody_may_be_left_out(tmp_path, caplog):
    a, b = begun(*(Desk(tmp_path, name, tolerates_dropout=False) for name in "ab"))
    data = says(a, b, 1.5)
    b.post.send(FIRST, {})
    threading.Timer(0.1, lambda: b.post.receiver.on_connected("a")).start()
    threading.Timer(0.3, lambda: b.post.receiver.on_message("a", data)).start()
    assert heard(b, a, patience=0.05) == ({"a": 1.5}, [])
    assert "waiting for a for 0 seconds" in caplog.text
    assert not b.post.peers["a"].absent
    assert b.post.waiting_for == ()


def test_nothing_is_taken_back_where_nobody_may_be_left_out(tmp_path):
    a, b = begun(*(Desk(tmp_path, name, tolerates_dropout=False) for name in "ab"))
    says(a, b, 1.5)
    a.post.receiver.on_message("b", b.message("a", MessageKind.REFUSED, reply_to=MIX, text="no"))
    assert a.journal.pending_receivers == {"b"}, "it will be said again"
    a.post.receiver.on_message("b", b.message("a", MessageKind.REJOIN, 50))
    begun(a, round_=1)


def test_one_that_was_left_out_comes_back(two, caplog):
    caplog.set_level(logging.INFO)
    a, b = begun(*two)
    b.post.send(FIRST, {"a": value(0.0)})
    heard(b, a)
    for r in range(1, 6):
        begun(b, round_=r)
        assert b.post.send(Operation(r, MIX, 0), {"a": value(float(r))}) == {}, "nothing is said to one who is away"
        assert heard(b, a, r, patience=60.0) == ({}, []), "nor is it waited for"
    admitted, answers = b.post.receiver.on_first_message("a", a.post.receiver.hello("b"))
    assert admitted
    told = [decode(data, b.link("a")) for data in answers]
    assert [(one.kind, one.round) for one in told] == [(MessageKind.HELLO_REPLY, 0), (MessageKind.REJOIN, 6)]
    assert "rejoined: expected again from round 6 on" in caplog.text
    assert b.kinds(a, a.post.receiver.hello("b")) == [MessageKind.HELLO_REPLY], "told once"
    a.fed(b, told)
    assert a.post.begin(0) == 6
    a.post.receiver.on_connected("b")
    begun(a, round_=6)
    assert ("b", MessageKind.HELLO) in a.spoke(), "nobody need wait for what it left out"
    begun(b, round_=6)
    data = says(a, b, 6.5, 6)
    assert b.hears(a, data) == []
    assert set(b.post.send(Operation(6, MIX, 0), {"a": value(6.0)})) == {"a"}
    assert heard(b, a, 6) == ({"a": 6.5}, [])


def test_nobody_goes_beyond_the_last_round(tmp_path):
    a, b = (Desk(tmp_path, name, description=described("abc", rounds=10)) for name in "ab")
    for kind in (MessageKind.REJOIN, MessageKind.HELLO_REPLY, MessageKind.CLOSE):
        assert a.kinds(b, b.message("a", kind, 11)) == [MessageKind.REFUSED]
    begun(a, round_=3)
    assert a.kinds(b, b.message("a", MessageKind.REJOIN, 10)) == []
    assert a.post.begin(4) == 10
    begun(a, round_=10)


def test_one_that_is_not_reached_is_left_out(tmp_path):
    """Where a graph is directed it may be one of whom nothing is to be heard."""
    a = Desk(tmp_path, "a", unreachable_after=0.05)
    a.post.receiver.on_connected("b")
    begun(a)
    assert set(a.post.send(FIRST, {"b": value(1.0), "c": value(1.0)})) == {"b", "c"}
    a.post.receiver.on_disconnected("b")
    time.sleep(0.1)
    assert a.post.send(Operation(0, MIX, 1), {"b": value(1.0), "c": value(1.0)}) == {}
    assert a.post.peers["b"].absent


def test_lines_that_cannot_go_on_end_it(two):
    a, _ = begun(*two)
    a.post.receiver.on_failure("the disk is full")
    with pytest.raises(TacitError, match="the disk is full"):
        a.post.begin(1)


def test_rounds_that_were_made_before_a_crash_are_not_left_out(two):
    """What they heard was told to be received, and what they said was sent: both must count."""
    a, b = two
    for r in range(4):
        begun(a, round_=r)
        says(a, b, float(r), r)
        if r < 3:
            heard(a, None, r)
    a.crash()
    a.post.receiver.on_message("b", b.message("a", MessageKind.REJOIN, 9))
    for r in range(4):  # the last of them is not over
        begun(a, round_=r)
        assert float(a.post.send(Operation(r, MIX, 0), {"b": value(9.0)})["b"]["0"]) == r
        heard(a, None, r)
    assert a.post.begin(4) == 9
