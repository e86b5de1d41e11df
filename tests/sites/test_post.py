"""Each message has one fate, whatever is lost, late or sent twice, and whoever crashes when."""

import logging

from tacit.sites import inbox, outbox
from tacit.sites.message import MessageKind, Operation

from .cases import MIX, Desk, value
from .desks import FIRST, begun, heard, says


def test_used_once(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.send(FIRST, {})
    assert b.hears(a, data) == b.hears(a, data) == [], "its fate is not decided yet"
    assert heard(b, a) == ({"a": 1.5}, [])
    assert b.told(a) == [MessageKind.ACKNOWLEDGE]
    assert b.kinds(a, data) == [MessageKind.ACKNOWLEDGE]
    assert b.post.counts.received == 1
    assert heard(b, a) == ({"a": 1.5}, []), "asked again, the same again"
    a.fed(b, b.hears(a, data))
    assert a.journal.pending_receivers == set()
    assert a.post.receiver.pending("b") == []
    assert b.crash().kinds(a, data) == [MessageKind.ACKNOWLEDGE]


def test_what_is_decided_outlives_a_crash(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.send(FIRST, {})
    b.hears(a, data)
    b.crash()
    assert b.hears(a, data) == [], "nothing was decided"
    b.post.send(FIRST, {})
    heard(b, a)
    begun(b.crash())
    assert b.post.send(FIRST, {"a": value(9.0)}) == {}
    assert heard(b, a) == ({"a": 1.5}, []), "without a word from the other"


def test_late_is_missed_and_comes_back_once(two, caplog):
    caplog.set_level(logging.INFO)
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.send(FIRST, {})
    assert heard(b, a) == ({}, [])
    assert b.post.peers["a"].absent
    assert "no message for 0.01 seconds: continuing without it" in caplog.text
    (answer,) = b.hears(a, data)
    assert answer.kind == MessageKind.MISSED
    for _ in range(2):
        assert b.kinds(a, data) == [MessageKind.MISSED]
    assert b.crash().kinds(a, data) == [MessageKind.MISSED]
    heard(a, None)
    begun(a, round_=1)
    a.fed(b, [answer, answer])
    assert a.spoke()[-1:] == [("b", MessageKind.HELLO)], "it asks whether it counts again"
    says(a, b, 2.0, 1)
    assert heard(a, None, 1) == ({}, [("b", 0, 1.5)])
    a.fed(b, [answer])
    begun(a, round_=2)
    a.post.send(Operation(2, MIX, 0), {})
    assert heard(a, None, 2) == ({}, [])
    begun(a.crash(), round_=1)
    assert a.post.send(Operation(1, MIX, 0), {"b": value(9.0)})["b"]["0"] == 2.0
    assert heard(a, None, 1) == ({}, [("b", 0, 1.5)]), "the round is done again as it was"
    assert heard(a, None, 2) == ({}, [])
    a.fed(b, [answer])
    assert a.journal.missed(MIX, 0) == []


def test_what_comes_while_it_is_decided_is_missed(two, monkeypatch):
    """Between the last look and the disk: held, but not used."""
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.send(FIRST, {})
    complete = b.journal.complete

    def closing(*decision):
        assert b.hears(a, data) == []
        complete(*decision)

    monkeypatch.setattr(b.journal, "complete", closing)
    assert heard(b, a) == ({}, [])
    begun(b, round_=1)
    assert b.told(a) == [MessageKind.MISSED]
    assert b.kinds(a, data) == [MessageKind.MISSED]


def test_held_for_a_round_that_was_left_out_is_missed(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.hears(a, data)
    begun(b, round_=1)
    assert b.told(a) == [MessageKind.MISSED]
    assert b.kinds(a, data) == [MessageKind.MISSED]


def test_it_says_the_same_bytes_after_a_crash(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    begun(a.crash())
    assert a.post.receiver.pending("b") == [data]
    assert a.post.receiver.pending("c") == []
    told = a.post.send(FIRST, {"b": value(9.0), "c": value(9.0)})
    assert {to: float(tensors["0"]) for to, tensors in told.items()} == {"b": 1.5}
    assert a.post.receiver.pending("b") == [data]
    assert b.hears(a, data) == []


def test_held_messages_are_few(two):
    a, b = begun(*two)
    for r in range(0, 100, 4):
        assert b.hears(a, a.message("b", round_=r, tensors=value(1.0))) == []
    for s in range(100):
        assert b.hears(a, a.message("b", round_=1, sequence=s, tensors=value(1.0))) == []
    assert len(b.post._inbox) == inbox.MAX_HELD_AHEAD
    c = Desk(b.path.parent, "c")
    assert b.hears(c, c.message("b", tensors=value(1.0))) == []
    assert len(b.post._inbox) == inbox.MAX_HELD_AHEAD + 1, "one that talks too much does not silence others"


def test_what_has_no_answer_is_said_again_and_ever_more_seldom(two, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(outbox.time, "monotonic", lambda: now[0])
    a, b = begun(*two)
    data = says(a, b, 1.5)
    times = []
    for _ in range(3000):
        a.said.clear()
        now[0] += 0.5
        a.post.receiver.on_tick()
        if a.said:
            assert a.said == [("b", data)]
            times.append(now[0] - 100.0)
    pauses = [later - sooner for sooner, later in zip([0.0, *times], times, strict=False)]
    assert pauses[0] == outbox.FIRST_RETRANSMIT
    assert pauses == sorted(pauses)
    assert pauses[-1] == outbox.MAX_RETRANSMIT_INTERVAL
    b.post.send(FIRST, {})
    b.hears(a, data)
    heard(b, a)
    a.fed(b, b.hears(a, data))
    a.said.clear()
    now[0] += 1000.0
    a.post.receiver.on_tick()
    assert (a.said, a.post._outbox._retransmissions) == ([], {})
