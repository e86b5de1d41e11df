"""How sites greet, wait for each other and part."""

import logging
import threading

import pytest

from tacit.errors import TacitError
from tacit.sites import membership
from tacit.sites.message import Link, Message, MessageKind, Operation
from tacit.sites.wire import decode, encode

from .cases import MIX, Desk, described, value
from .desks import FIRST, begun, heard, says


def test_a_hello_says_from_where_to_wait(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    begun(a, round_=5)
    assert decode(a.post.receiver.hello("b"), a.link("b")).round == 0, "something of round 0 may come still"
    assert decode(a.post.receiver.hello("c"), a.link("c")).round == 5
    b.post.receiver.on_message("a", a.post.receiver.hello("b"))
    assert b.post.peers["a"].takes_part_in(0)
    b.post.send(FIRST, {})
    b.hears(a, data)
    heard(b, a)
    a.fed(b, b.hears(a, data))
    b.post.receiver.on_message("a", a.post.receiver.hello("b"))
    assert b.post.peers["a"].first_round == 5
    begun(b, round_=4)
    assert b.post.send(Operation(4, MIX, 0), {"a": value(1.0)}) == {}
    assert heard(b, a, 4, patience=60.0) == ({}, [])


def test_goodbye(two, caplog):
    caplog.set_level(logging.INFO)
    a, b = begun(*two)
    says(a, b, 1.5)
    a.said.clear()
    a.post.close(["b"], "done\nwith it")
    ((_, data),) = a.said
    assert b.hears(a, data) == []
    assert "closed after 1 rounds: done\\nwith it" in caplog.text
    assert b.post.peers["a"].closed_after == 1
    assert b.post.peers["a"].takes_part_in(0)
    begun(b, round_=1)
    assert b.post.send(Operation(1, MIX, 0), {"a": value(1.0)}) == {}
    assert heard(b, a, 1, patience=60.0) == ({}, [])
    b.post.wait_for_close(["a"], 60.0)
    b.post.receiver.on_message("a", a.post.receiver.hello("b"))
    assert b.post.peers["a"].closed_after is None, "it is back"


def test_waiting_at_both_ends_of_a_run(two):
    a, b = begun(*two)
    says(a, b, 1.5)
    later = [
        threading.Timer(0.05, lambda: a.post.receiver.on_message("b", b.message("a", MessageKind.HELLO_REPLY))),
        threading.Timer(
            0.15, lambda: a.post.receiver.on_message("b", b.message("a", MessageKind.ACKNOWLEDGE, reply_to=MIX))
        ),
        threading.Timer(0.25, lambda: a.post.receiver.on_message("b", b.message("a", MessageKind.CLOSE))),
    ]
    for timer in later:
        timer.start()
    a.post.wait_for_hello_replies(["b"])
    assert a.post.peers["b"].has_replied
    a.post.wait_for_hello_replies(["c"], 0.01)
    a.post.receiver.on_connected("b")
    assert a.post.wait_for_acknowledgements(60.0) == set()
    a.post.wait_for_close(["b"], 60.0)
    assert a.post.peers["b"].closed_after == 0
    says(a, Desk(a.path.parent, "c"), 2.5, 1)
    assert a.post.wait_for_acknowledgements(0.05) == {"c"}, "not for ever"


def test_another_network_is_refused_by_the_key_that_differs(tmp_path, caplog):
    a, b = (Desk(tmp_path, name, description=described("abc", rounds=9 + (name == "b"))) for name in "ab")
    admitted, (answer,) = b.post.receiver.on_first_message("a", a.post.receiver.hello("b"))
    assert not admitted
    refusal = "a belongs to another network: rounds is 10 here and 9 there"
    assert decode(answer, b.link("a")).text == refusal
    (record,) = caplog.records
    assert record.getMessage() == f"refused: {refusal}"
    for text in ("{}", "garbage", "[" * 5000):
        assert not b.post.receiver.on_first_message(
            "a", encode(Message(Link("f" * 64, "a", "b"), MessageKind.HELLO, 7, text=text))
        )[0]
    assert b.post.counts.refused == len(caplog.records) == 4
    assert b.post.peers["a"].first_round == 0


@pytest.mark.parametrize("kind", [kind for kind in MessageKind if kind not in (MessageKind.HELLO,)])
def test_hello_comes_first(two, kind):
    a, b = two
    facts = (
        {"tensors": value(1.0)}
        if kind in (MessageKind.MIX, MessageKind.SWAP, MessageKind.MAX, MessageKind.MEAN)
        else {}
    )
    facts |= {"reply_to": MIX} if kind in (MessageKind.ACKNOWLEDGE, MessageKind.MISSED) else {}
    facts |= {"text": "no"} if kind == MessageKind.REFUSED else {}
    admitted, _ = b.post.receiver.on_first_message("a", a.message("b", kind, **facts))
    assert not admitted
    assert len(b.post._inbox) == 0


def test_an_older_copy_of_the_state_is_noticed(two):
    """Its ledger lacks releases that others have heard."""
    a, b = begun(*two)
    b.hears(a, a.message("b", round_=3, tensors=value(1.0)))
    begun(b, round_=3)
    b.post.send(Operation(3, MIX, 0), {})
    heard(b, a, 3)
    b.answers.clear()
    a.fed(b, b.hears(a, a.post.receiver.hello("b")))
    with pytest.raises(TacitError, match="b has used messages of 4 rounds of this site, but the folder recorded 0"):
        a.post.begin(0)
    with pytest.raises(TacitError, match="an outdated copy"):
        a.crash().post.begin(0)


def test_those_that_are_left_out_are_greeted(two, monkeypatch):
    """Both may have left each other out, with nothing more to say that would tell them."""
    now = [100.0]
    monkeypatch.setattr(membership.time, "monotonic", lambda: now[0])
    a, b = two
    a.post.peers["b"].absent = b.post.peers["a"].absent = True
    for _ in range(40):
        now[0] += 0.5
        a.post.receiver.on_tick()
    assert a.spoke() == [("b", MessageKind.HELLO)] * int(20 / membership.HELLO_INTERVAL)
    assert b.kinds(a, a.post.receiver.hello("b")) == [MessageKind.HELLO_REPLY, MessageKind.REJOIN]
    assert not b.post.peers["a"].absent
