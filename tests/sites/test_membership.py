"""How sites connect, wait for each other and stop."""

import logging
import threading

import pytest

from tacit.errors import TacitError
from tacit.sites import membership
from tacit.sites.message import VALUE_KINDS, Link, Message, MessageKind, Operation
from tacit.sites.wire import decode, encode

from .manual_sites import FIRST, MIX, ManualSite, begin, describe, number, receive, send


def test_hello_names_the_first_round_to_wait_for(site_pair):
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    begin(a, round_=5)
    assert decode(a.receiver.hello("b"), a.link_to("b")).round == 0, "a message of round 0 is pending"
    assert decode(a.receiver.hello("c"), a.link_to("c")).round == 5
    b.receiver.on_message("a", a.receiver.hello("b"))
    assert b.peers["a"].takes_part_in(0)
    b.exchange.send(FIRST, {})
    b.deliver(a, data)
    receive(b, a)
    a.deliver_replies(b, b.deliver(a, data))
    b.receiver.on_message("a", a.receiver.hello("b"))
    assert b.peers["a"].first_round == 5
    begin(b, round_=4)
    assert b.exchange.send(Operation(4, MIX, 0), {"a": number(1.0)}) == {}
    assert receive(b, a, 4, timeout=60.0) == ({}, [])


def test_close_ends_the_part_of_a_site(site_pair, caplog):
    caplog.set_level(logging.INFO)
    a, b = begin(*site_pair)
    send(a, b, 1.5)
    a.sent.clear()
    a.exchange.close(["b"], "all rounds\ndone")
    ((_, data),) = a.sent
    assert b.deliver(a, data) == []
    assert "closed after 1 rounds: all rounds\\ndone" in caplog.text
    assert b.peers["a"].closed_after == 1
    assert b.peers["a"].takes_part_in(0)
    begin(b, round_=1)
    assert b.exchange.send(Operation(1, MIX, 0), {"a": number(1.0)}) == {}
    assert receive(b, a, 1, timeout=60.0) == ({}, [])
    b.exchange.wait_for_close(["a"], 60.0)
    b.receiver.on_message("a", a.receiver.hello("b"))
    assert b.peers["a"].closed_after is None, "HELLO reverts CLOSE"


def test_waits_at_the_start_and_the_end_of_a_run(site_pair):
    a, b = begin(*site_pair)
    send(a, b, 1.5)

    def deliver_later(seconds, kind, **fields):
        threading.Timer(seconds, lambda: a.receiver.on_message("b", b.encode("a", kind, **fields))).start()

    deliver_later(0.05, MessageKind.HELLO_REPLY)
    deliver_later(0.15, MessageKind.ACKNOWLEDGE, reply_to=MIX)
    deliver_later(0.25, MessageKind.CLOSE)
    a.exchange.wait_for_hello_replies(["b"])
    assert a.peers["b"].has_replied
    a.exchange.wait_for_hello_replies(["c"], 0.01)
    a.receiver.on_connected("b")
    assert a.exchange.wait_for_acknowledgements(60.0) == set()
    a.exchange.wait_for_close(["b"], 60.0)
    assert a.peers["b"].closed_after == 0
    send(a, ManualSite(a.path.parent, "c"), 2.5, 1)
    assert a.exchange.wait_for_acknowledgements(0.05) == {"c"}, "the wait has a limit"


def test_site_of_another_network_is_refused_with_the_difference(tmp_path, caplog):
    a, b = (ManualSite(tmp_path, name, description=describe("abc", rounds=9 + (name == "b"))) for name in "ab")
    accepted, (reply,) = b.receiver.on_first_message("a", a.receiver.hello("b"))
    assert not accepted
    reason = "a belongs to another network: rounds is 10 here and 9 there"
    assert decode(reply, b.link_to("a")).text == reason
    (record,) = caplog.records
    assert record.getMessage() == f"refused: {reason}"
    for text in ("{}", "garbage", "[" * 5000):
        hello = encode(Message(Link("f" * 64, "a", "b"), MessageKind.HELLO, 7, text=text))
        assert not b.receiver.on_first_message("a", hello).accepted
    assert b.exchange.counts.refused == len(caplog.records) == 4
    assert b.peers["a"].first_round == 0


@pytest.mark.parametrize("kind", [kind for kind in MessageKind if kind != MessageKind.HELLO])
def test_hello_must_come_first(site_pair, kind):
    a, b = site_pair
    fields = {"tensors": number(1.0)} if kind in VALUE_KINDS else {}
    fields |= {"reply_to": MIX} if kind in (MessageKind.ACKNOWLEDGE, MessageKind.MISSED) else {}
    fields |= {"text": "no"} if kind == MessageKind.REFUSED else {}
    assert not b.receiver.on_first_message("a", a.encode("b", kind, **fields)).accepted
    assert len(b.exchange._inbox) == 0


def test_outdated_state_folder_is_detected(site_pair):
    """The ledger of such a folder lacks releases that other sites have received."""
    a, b = begin(*site_pair)
    b.deliver(a, a.encode("b", round_=3, tensors=number(1.0)))
    begin(b, round_=3)
    b.exchange.send(Operation(3, MIX, 0), {})
    receive(b, a, 3)
    b.replies.clear()
    a.deliver_replies(b, b.deliver(a, a.receiver.hello("b")))
    reason = "b has used messages of 4 rounds of this site, but the folder recorded 0"
    with pytest.raises(TacitError, match=reason):
        a.exchange.begin(0)
    with pytest.raises(TacitError, match=reason):
        a.restart().exchange.begin(0)


def test_absent_peers_are_greeted_regularly(site_pair, monkeypatch):
    """Two sites may each regard the other as absent and have no message to send that would end it."""
    now = [100.0]
    monkeypatch.setattr(membership.time, "monotonic", lambda: now[0])
    a, b = site_pair
    a.peers["b"].absent = b.peers["a"].absent = True
    for _ in range(40):
        now[0] += 0.5
        a.receiver.on_tick()
    assert a.take_sent_kinds() == [("b", MessageKind.HELLO)] * int(20 / membership.HELLO_INTERVAL)
    assert b.reply_kinds(a, a.receiver.hello("b")) == [MessageKind.HELLO_REPLY, MessageKind.REJOIN]
    assert not b.peers["a"].absent
