"""Each message is used once or returned once, whatever is lost, late or repeated, and whichever site restarts."""

import logging

from tacit.sites import inbox, outbox
from tacit.sites.message import MessageKind, Operation

from .manual_sites import FIRST, MIX, ManualSite, begin, number, receive, send


def test_message_is_used_once(site_pair):
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    b.exchange.send(FIRST, {})
    assert b.deliver(a, data) == b.deliver(a, data) == [], "not decided yet"
    assert receive(b, a) == ({"a": 1.5}, [])
    assert b.take_reply_kinds(a) == [MessageKind.ACKNOWLEDGE]
    assert b.reply_kinds(a, data) == [MessageKind.ACKNOWLEDGE]
    assert b.exchange.counts.received == 1
    assert receive(b, a) == ({"a": 1.5}, []), "the same result again"
    a.deliver_replies(b, b.deliver(a, data))
    assert a.journal.pending_receivers == set()
    assert a.receiver.pending("b") == []
    assert b.restart().reply_kinds(a, data) == [MessageKind.ACKNOWLEDGE]


def test_decision_survives_restart(site_pair):
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    b.exchange.send(FIRST, {})
    b.deliver(a, data)
    b.restart()
    assert b.deliver(a, data) == [], "nothing was decided before the restart"
    b.exchange.send(FIRST, {})
    receive(b, a)
    begin(b.restart())
    assert b.exchange.send(FIRST, {"a": number(9.0)}) == {}
    assert receive(b, a) == ({"a": 1.5}, []), "without another message from the sender"


def test_late_message_is_missed_and_returned_once(site_pair, caplog):
    caplog.set_level(logging.INFO)
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    b.exchange.send(FIRST, {})
    assert receive(b, a) == ({}, [])
    assert b.peers["a"].absent
    assert "no message for 0.01 seconds: continuing without it" in caplog.text
    (reply,) = b.deliver(a, data)
    assert reply.kind == MessageKind.MISSED
    for _ in range(2):
        assert b.reply_kinds(a, data) == [MessageKind.MISSED]
    assert b.restart().reply_kinds(a, data) == [MessageKind.MISSED]
    receive(a, None)
    begin(a, round_=1)
    a.deliver_replies(b, [reply, reply])
    assert a.take_sent_kinds()[-1:] == [("b", MessageKind.HELLO)], "asks for REJOIN"
    send(a, b, 2.0, 1)
    assert receive(a, None, 1) == ({}, [("b", 0, 1.5)])
    a.deliver_replies(b, [reply])
    begin(a, round_=2)
    a.exchange.send(Operation(2, MIX, 0), {})
    assert receive(a, None, 2) == ({}, [])
    begin(a.restart(), round_=1)
    assert a.exchange.send(Operation(1, MIX, 0), {"b": number(9.0)})["b"]["0"] == 2.0
    assert receive(a, None, 1) == ({}, [("b", 0, 1.5)]), "the repeated round has the same result"
    assert receive(a, None, 2) == ({}, [])
    a.deliver_replies(b, [reply])
    assert a.journal.missed(MIX, 0) == []


def test_message_that_arrives_while_the_operation_completes_is_missed(site_pair, monkeypatch):
    """It arrives after the last check of the inbox and before the decision is on disk."""
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    b.exchange.send(FIRST, {})
    complete = b.journal.complete

    def deliver_and_complete(*decision):
        assert b.deliver(a, data) == []
        complete(*decision)

    monkeypatch.setattr(b.journal, "complete", deliver_and_complete)
    assert receive(b, a) == ({}, [])
    begin(b, round_=1)
    assert b.take_reply_kinds(a) == [MessageKind.MISSED]
    assert b.reply_kinds(a, data) == [MessageKind.MISSED]


def test_held_message_of_a_skipped_round_is_missed(site_pair):
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    b.deliver(a, data)
    begin(b, round_=1)
    assert b.take_reply_kinds(a) == [MessageKind.MISSED]
    assert b.reply_kinds(a, data) == [MessageKind.MISSED]


def test_restarted_site_sends_the_same_bytes(site_pair):
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    begin(a.restart())
    assert a.receiver.pending("b") == [data]
    assert a.receiver.pending("c") == []
    sent = a.exchange.send(FIRST, {"b": number(9.0), "c": number(9.0)})
    assert {to: float(tensors["0"]) for to, tensors in sent.items()} == {"b": 1.5}
    assert a.receiver.pending("b") == [data]
    assert b.deliver(a, data) == []


def test_a_message_is_in_the_journal_before_it_is_sent(site_pair, monkeypatch):
    """A crash in between must not leave a message that the restarted site would replace by another one."""
    a, _ = begin(*site_pair)
    recorded = []
    monkeypatch.setattr(a, "send", lambda peer, data: recorded.append(a.journal.sent(FIRST) == {peer: data}))
    a.exchange.send(FIRST, {"b": number(1.5)})
    assert recorded == [True]


def test_number_of_held_messages_is_limited_per_sender(site_pair):
    a, b = begin(*site_pair)
    for round_ in range(0, 100, 4):
        assert b.deliver(a, a.encode("b", round_=round_, tensors=number(1.0))) == []
    for sequence in range(100):
        assert b.deliver(a, a.encode("b", round_=1, sequence=sequence, tensors=number(1.0))) == []
    assert len(b.exchange._inbox) == inbox.MAX_HELD_AHEAD
    c = ManualSite(b.path.parent, "c")
    assert b.deliver(c, c.encode("b", tensors=number(1.0))) == []
    assert len(b.exchange._inbox) == inbox.MAX_HELD_AHEAD + 1, "other senders are not affected"


def test_message_without_reply_is_retransmitted_at_growing_intervals(site_pair, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(outbox.time, "monotonic", lambda: now[0])
    a, b = begin(*site_pair)
    data = send(a, b, 1.5)
    times = []
    for _ in range(3000):
        a.sent.clear()
        now[0] += 0.5
        a.receiver.on_tick()
        if a.sent:
            assert a.sent == [("b", data)]
            times.append(now[0] - 100.0)
    intervals = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    assert intervals[0] == outbox.FIRST_RETRANSMIT
    assert intervals == sorted(intervals)
    assert intervals[-1] == outbox.MAX_RETRANSMIT_INTERVAL
    b.exchange.send(FIRST, {})
    b.deliver(a, data)
    receive(b, a)
    a.deliver_replies(b, b.deliver(a, data))
    a.sent.clear()
    now[0] += 1000.0
    a.receiver.on_tick()
    assert (a.sent, a.exchange._outbox._retransmissions) == ([], {})
