"""Who may be left out of a round, and how one that was comes back."""

import logging
import threading
import time

import pytest

from tacit.errors import TacitError
from tacit.sites.journal import Verb
from tacit.sites.wire import Kind, decode

from .cases import MIX, Desk, described, value
from .desks import FIRST, begun, heard, says


def test_others_are_waited_for_where_nobody_may_be_left_out(tmp_path, caplog):
    a, b = begun(*(Desk(tmp_path, name, tolerates_dropout=False) for name in "ab"))
    data = says(a, b, 1.5)
    b.post.say(FIRST, {})
    threading.Timer(0.1, lambda: b.post.connected("a", 1)).start()
    threading.Timer(0.3, lambda: b.post.take("a", data)).start()
    assert heard(b, a, patience=0.05) == ({"a": 1.5}, [])
    assert "waiting for a since 0 seconds" in caplog.text
    assert not b.post.peers["a"].absent
    assert b.post.waiting_for == ()


def test_nothing_is_taken_back_where_nobody_may_be_left_out(tmp_path):
    a, b = begun(*(Desk(tmp_path, name, tolerates_dropout=False) for name in "ab"))
    says(a, b, 1.5)
    a.post.take("b", b.message("a", Kind.REFUSED, about=MIX, text="no"))
    assert a.journal.waiting == {"b"}, "it will be said again"
    a.post.take("b", b.message("a", Kind.ABSENT, 50))
    begun(a, round_=1)


def test_one_that_was_left_out_comes_back(two, caplog):
    caplog.set_level(logging.INFO)
    a, b = begun(*two)
    b.post.say(FIRST, {"a": value(0.0)})
    heard(b, a)
    for r in range(1, 6):
        begun(b, round_=r)
        assert b.post.say(Verb(r, MIX, 0), {"a": value(float(r))}) == {}, "nothing is said to one who is away"
        assert heard(b, a, r, patience=60.0) == ({}, []), "nor is it waited for"
    admitted, answers = b.post.admit("a", a.post.hello("b"))
    assert admitted
    told = [decode(data, b.link("a")) for data in answers]
    assert [(one.kind, one.round) for one in told] == [(Kind.HEARD, 0), (Kind.ABSENT, 6)]
    assert "is back, and counts again from round 6" in caplog.text
    assert b.kinds(a, a.post.hello("b")) == [Kind.HEARD], "told once"
    a.fed(b, told)
    assert a.post.begin(0) == 6
    a.post.connected("b", 1)
    begun(a, round_=6)
    assert ("b", Kind.HELLO) in a.spoke(), "nobody need wait for what it left out"
    begun(b, round_=6)
    data = says(a, b, 6.5, 6)
    assert b.hears(a, data) == []
    assert set(b.post.say(Verb(6, MIX, 0), {"a": value(6.0)})) == {"a"}
    assert heard(b, a, 6) == ({"a": 6.5}, [])


def test_nobody_goes_beyond_the_last_round(tmp_path):
    a, b = (Desk(tmp_path, name, description=described("abc", rounds=10)) for name in "ab")
    for kind in (Kind.ABSENT, Kind.HEARD, Kind.GOODBYE):
        assert a.kinds(b, b.message("a", kind, 11)) == [Kind.REFUSED]
    begun(a, round_=3)
    assert a.kinds(b, b.message("a", Kind.ABSENT, 10)) == []
    assert a.post.begin(4) == 10
    begun(a, round_=10)


def test_one_that_is_not_reached_is_left_out(tmp_path):
    """Where a graph is directed it may be one of whom nothing is to be heard."""
    a = Desk(tmp_path, "a", silence=0.05)
    a.post.connected("b", 1)
    begun(a)
    assert set(a.post.say(FIRST, {"b": value(1.0), "c": value(1.0)})) == {"b", "c"}
    a.post.connected("b", -1)
    time.sleep(0.1)
    assert a.post.say(Verb(0, MIX, 1), {"b": value(1.0), "c": value(1.0)}) == {}
    assert a.post.peers["b"].absent


def test_lines_that_cannot_go_on_end_it(two):
    a, _ = begun(*two)
    a.post.broken("the disk is full")
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
    a.post.take("b", b.message("a", Kind.ABSENT, 9))
    for r in range(4):  # the last of them is not over
        begun(a, round_=r)
        assert float(a.post.say(Verb(r, MIX, 0), {"b": value(9.0)})["b"]["0"]) == r
        heard(a, None, r)
    assert a.post.begin(4) == 9
