"""How sites greet, wait for each other and part."""

import logging
import threading

import pytest

from tacit.errors import TacitError
from tacit.sites import incoming as posts
from tacit.sites.journal import Verb
from tacit.sites.wire import Kind, Link, Message, decode, encode

from .cases import MIX, Desk, described, value
from .desks import FIRST, begun, heard, says


def test_a_hello_says_from_where_to_wait(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    begun(a, round_=5)
    assert decode(a.post.hello("b"), a.link("b")).round == 0, "something of round 0 may come still"
    assert decode(a.post.hello("c"), a.link("c")).round == 5
    b.post.take("a", a.post.hello("b"))
    assert b.post.peers["a"].speaks_in(0)
    b.post.say(FIRST, {})
    b.hears(a, data)
    heard(b, a)
    a.fed(b, b.hears(a, data))
    b.post.take("a", a.post.hello("b"))
    assert b.post.peers["a"].begins == 5
    begun(b, round_=4)
    assert b.post.say(Verb(4, MIX, 0), {"a": value(1.0)}) == {}
    assert heard(b, a, 4, patience=60.0) == ({}, [])


def test_goodbye(two, caplog):
    caplog.set_level(logging.INFO)
    a, b = begun(*two)
    says(a, b, 1.5)
    a.said.clear()
    a.post.leave(["b"], "done\nwith it")
    ((_, data),) = a.said
    assert b.hears(a, data) == []
    assert "says goodbye after 1 rounds: done\\nwith it" in caplog.text
    assert b.post.peers["a"].left == 1
    assert b.post.peers["a"].speaks_in(0)
    begun(b, round_=1)
    assert b.post.say(Verb(1, MIX, 0), {"a": value(1.0)}) == {}
    assert heard(b, a, 1, patience=60.0) == ({}, [])
    b.post.farewell(["a"], 60.0)
    b.post.take("a", a.post.hello("b"))
    assert b.post.peers["a"].left is None, "it is back"


def test_waiting_at_both_ends_of_a_run(two):
    a, b = begun(*two)
    says(a, b, 1.5)
    later = [
        threading.Timer(0.05, lambda: a.post.take("b", b.message("a", Kind.HEARD))),
        threading.Timer(0.15, lambda: a.post.take("b", b.message("a", Kind.RECEIVED, about=MIX))),
        threading.Timer(0.25, lambda: a.post.take("b", b.message("a", Kind.GOODBYE))),
    ]
    for timer in later:
        timer.start()
    a.post.meet(["b"])
    assert a.post.peers["b"].told
    a.post.meet(["c"], 0.01)
    a.post.connected("b", 1)
    assert a.post.settle(60.0) == set()
    a.post.farewell(["b"], 60.0)
    assert a.post.peers["b"].left == 0
    says(a, Desk(a.path.parent, "c"), 2.5, 1)
    assert a.post.settle(0.05) == {"c"}, "not for ever"


def test_another_network_is_refused_by_the_key_that_differs(tmp_path, caplog):
    a, b = (Desk(tmp_path, name, description=described("abc", rounds=9 + (name == "b"))) for name in "ab")
    admitted, (answer,) = b.post.admit("a", a.post.hello("b"))
    assert not admitted
    refusal = "a knows another network: rounds is 10 here and 9 there"
    assert decode(answer, b.link("a")).text == refusal
    (record,) = caplog.records
    assert record.getMessage() == f"refused: {refusal}"
    for text in ("{}", "garbage", "[" * 5000):
        assert not b.post.admit("a", encode(Message(Link("f" * 64, "a", "b"), Kind.HELLO, 7, text=text)))[0]
    assert b.post.counts["refused"] == len(caplog.records) == 4
    assert b.post.peers["a"].begins == 0


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.HELLO,)])
def test_hello_comes_first(two, kind):
    a, b = two
    facts = {"tensors": value(1.0)} if kind in (Kind.MIX, Kind.SWAP, Kind.MAX, Kind.MEAN) else {}
    facts |= {"about": MIX} if kind in (Kind.RECEIVED, Kind.MISSED) else {}
    facts |= {"text": "no"} if kind == Kind.REFUSED else {}
    admitted, _ = b.post.admit("a", a.message("b", kind, **facts))
    assert not admitted
    assert b.post._held == {}


def test_an_older_copy_of_the_state_is_noticed(two):
    """Its ledger lacks releases that others have heard."""
    a, b = begun(*two)
    b.hears(a, a.message("b", round_=3, tensors=value(1.0)))
    begun(b, round_=3)
    b.post.say(Verb(3, MIX, 0), {})
    heard(b, a, 3)
    b.answers.clear()
    a.fed(b, b.hears(a, a.post.hello("b")))
    with pytest.raises(TacitError, match="b has heard 4 rounds of this site, and its state folder knew of 0"):
        a.post.begin(0)
    with pytest.raises(TacitError, match="an older copy"):
        a.crash().post.begin(0)


def test_those_that_are_left_out_are_greeted(two, monkeypatch):
    """Both may have left each other out, with nothing more to say that would tell them."""
    now = [100.0]
    monkeypatch.setattr(posts.time, "monotonic", lambda: now[0])
    a, b = two
    a.post.peers["b"].absent = b.post.peers["a"].absent = True
    for _ in range(40):
        now[0] += 0.5
        a.post.with_new_ledger()
    assert a.spoke() == [("b", Kind.HELLO)] * int(20 / posts._AGAIN)
    assert b.kinds(a, a.post.hello("b")) == [Kind.HEARD, Kind.ABSENT]
    assert not b.post.peers["a"].absent
