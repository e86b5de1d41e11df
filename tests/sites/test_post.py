"""Each message has one fate, whatever is lost, late, sent twice or a lie, and whoever crashes when."""

import logging
import random
import struct
import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graphs.families import one_peer_exponential, ring
from tacit.sites import incoming as posts
from tacit.sites.journal import Fate, Verb
from tacit.sites.peers import Peers, speaks
from tacit.sites.post import Post
from tacit.sites.wire import Kind, Link, Message, decode, encode

from .cases import MIX, ONE, Crash, Desk, Doomed, Hub, Life, data_network, described, value

FIRST = Verb(0, MIX, 0)


@pytest.fixture
def two(tmp_path):
    return Desk(tmp_path, "a"), Desk(tmp_path, "b")


def begun(*desks, round_=0):
    for desk in desks:
        assert desk.post.begin(round_) == round_
    return desks


def says(one, other, x, round_=0):
    """One says a number to the other: the bytes that leave."""
    one.said.clear()
    one.post.say(Verb(round_, MIX, 0), {other.name: value(x)})
    ((to, data),) = one.said
    assert to == other.name
    return data


def heard(desk, other, round_=0, patience=0.01):
    used, back = desk.post.hear(Verb(round_, MIX, 0), {other.name: ONE} if other else {}, patience)
    return {name: float(tensors["0"]) for name, tensors in used.items()}, [
        (one.receiver, one.round, float(one.tensors["0"])) for one in back
    ]


def test_used_once(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.say(FIRST, {})
    assert b.hears(a, data) == b.hears(a, data) == [], "its fate is not decided yet"
    assert heard(b, a) == ({"a": 1.5}, [])
    assert b.told(a) == [Kind.RECEIVED]
    assert b.kinds(a, data) == [Kind.RECEIVED]
    assert b.post.counts["received"] == 1
    assert heard(b, a) == ({"a": 1.5}, []), "asked again, the same again"
    a.fed(b, b.hears(a, data))
    assert a.journal.waiting == set()
    assert a.post.backlog("b") == []
    assert b.crash().kinds(a, data) == [Kind.RECEIVED]


def test_what_is_decided_outlives_a_crash(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.say(FIRST, {})
    b.hears(a, data)
    b.crash()
    assert b.hears(a, data) == [], "nothing was decided"
    b.post.say(FIRST, {})
    heard(b, a)
    begun(b.crash())
    assert b.post.say(FIRST, {"a": value(9.0)}) == {}
    assert heard(b, a) == ({"a": 1.5}, []), "without a word from the other"


def test_late_is_missed_and_comes_back_once(two, caplog):
    caplog.set_level(logging.INFO)
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.say(FIRST, {})
    assert heard(b, a) == ({}, [])
    assert b.post.peers["a"].absent
    assert "silent for 0.01 seconds: going on without it" in caplog.text
    (answer,) = b.hears(a, data)
    assert answer.kind == Kind.MISSED
    for _ in range(2):
        assert b.kinds(a, data) == [Kind.MISSED]
    assert b.crash().kinds(a, data) == [Kind.MISSED]
    heard(a, None)
    begun(a, round_=1)
    a.fed(b, [answer, answer])
    assert a.spoke()[-1:] == [("b", Kind.HELLO)], "it asks whether it counts again"
    says(a, b, 2.0, 1)
    assert heard(a, None, 1) == ({}, [("b", 0, 1.5)])
    a.fed(b, [answer])
    begun(a, round_=2)
    a.post.say(Verb(2, MIX, 0), {})
    assert heard(a, None, 2) == ({}, [])
    begun(a.crash(), round_=1)
    assert a.post.say(Verb(1, MIX, 0), {"b": value(9.0)})["b"]["0"] == 2.0
    assert heard(a, None, 1) == ({}, [("b", 0, 1.5)]), "the round is done again as it was"
    assert heard(a, None, 2) == ({}, [])
    a.fed(b, [answer])
    assert a.journal.missed(MIX, 0) == []


def test_what_comes_while_it_is_decided_is_missed(two, monkeypatch):
    """Between the last look and the disk: held, but not used."""
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.post.say(FIRST, {})
    close = b.journal.close

    def closing(*decision):
        assert b.hears(a, data) == []
        close(*decision)

    monkeypatch.setattr(b.journal, "close", closing)
    assert heard(b, a) == ({}, [])
    begun(b, round_=1)
    assert b.told(a) == [Kind.MISSED]
    assert b.kinds(a, data) == [Kind.MISSED]


def test_held_for_a_round_that_was_left_out_is_missed(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    b.hears(a, data)
    begun(b, round_=1)
    assert b.told(a) == [Kind.MISSED]
    assert b.kinds(a, data) == [Kind.MISSED]


def test_it_says_the_same_bytes_after_a_crash(two):
    a, b = begun(*two)
    data = says(a, b, 1.5)
    begun(a.crash())
    assert a.post.backlog("b") == [data]
    assert a.post.backlog("c") == []
    told = a.post.say(FIRST, {"b": value(9.0), "c": value(9.0)})
    assert {to: float(tensors["0"]) for to, tensors in told.items()} == {"b": 1.5}
    assert a.post.backlog("b") == [data]
    assert b.hears(a, data) == []


@pytest.mark.parametrize("when", ["held", "used", "after a crash"])
def test_another_content_is_refused(tmp_path, two, caplog, when):
    a, b = begun(*two)
    true, lie = says(a, b, 1.5), a.message("b", tensors=value(2.5))
    b.hears(a, true)
    if when != "held":
        b.post.say(FIRST, {})
        heard(b, a)
        b.answers.clear()
    if when == "after a crash":
        b.crash()
    (answer,) = b.hears(a, lie)
    assert (answer.kind, answer.about) == (Kind.REFUSED, None)
    assert answer.text == "a sent MIX 0 of round 0 twice, with different contents"
    assert b.post.counts["refused"] == 1
    assert [record.getMessage() for record in caplog.records] == [f"refused: {answer.text}"]
    if when == "held":
        b.post.say(FIRST, {})
    assert heard(b, a) == ({"a": 1.5}, [])


def bad(desk):
    """Bytes that are no message of round 0 to b, and words of the refusal."""
    good = desk.message("b", tensors=value(1.0))
    nan = good.replace(struct.pack("<d", 1.0), struct.pack("<d", float("nan")))
    assert nan != good
    yield b"", "a message of version 0"
    yield random.Random(0).randbytes(1000), "bytes that are no message"
    yield good[:-1], "bytes that are no message"
    yield nan, "values that are not finite"
    yield desk.message("c", tensors=value(1.0)), "a message whose receiver is c"
    other = Desk(desk.path.parent, "c").message("b", tensors=value(1.0))
    yield other, "a message whose sender is c"
    strange = Message(Link("f" * 64, desk.name, "b"), MIX, 0, tensors=value(1.0))
    yield encode(strange), f"a message whose network is {'f' * 64}"
    yield desk.message("b", tensors={"0": torch.ones(2, dtype=torch.float64)}), "tensor 0 is float64 (2), not float64"
    yield desk.message("b", tensors={"0": torch.ones(1)}), "tensor 0 is float32 (1), not float64 (1)"
    yield desk.message("b", tensors={"1": torch.ones(1)}), "tensors are 1, not 0"
    yield desk.message("b", tensors={**value(1.0), "1": torch.ones(1)}), "tensors are 0, 1, not 0"


def test_lies_are_refused_and_change_nothing(two, caplog):
    a, b = begun(*two)
    b.post.say(FIRST, {})
    hearing = threading.Thread(target=lambda: heard(b, a, patience=60.0), daemon=True)
    hearing.start()
    while b.post.waiting_for != ("a",):
        time.sleep(0.001)
    for number, (data, words) in enumerate(bad(a), 1):
        (answer,) = b.hears(a, data)
        assert answer.kind == Kind.REFUSED
        assert words in answer.text
        assert b.post.counts["refused"] == number == len(caplog.records)
        assert "\n" not in caplog.records[-1].getMessage()
        assert caplog.records[-1].peer == "a"
        assert b.journal.closed(FIRST) is None
    assert b.hears(a, says(a, b, 1.5)) == []
    hearing.join()
    assert heard(b, a) == ({"a": 1.5}, [])


def test_wrong_forms_are_found_when_the_form_is_known(two):
    """What was held from before is refused then, and is its sender's again."""
    a, b = begun(*two)
    says(a, b, 1.0)
    lie = a.message("b", tensors={"0": torch.ones(7)})
    assert b.hears(a, lie) == []
    b.post.say(FIRST, {})
    assert heard(b, a) == ({}, [])
    (answer,) = [decode(data, b.link("a")) for _, data in b.answers]
    assert (answer.kind, answer.about) == (Kind.REFUSED, MIX)
    assert "tensor 0 is float32 (7), not float64 (1)" in answer.text
    a.fed(b, [answer])
    assert [sent.verb for sent in a.journal.missed(MIX, 0)] == [FIRST]


def test_who_has_nothing_to_say_is_not_heard(tmp_path):
    graph = ring(3, directed=True)
    sites = ("a", "b", "c")
    b, c = (Desk(tmp_path, name, sites, may=speaks(graph, sites, name)) for name in "bc")
    a = Desk(tmp_path, "a", sites)
    begun(b, c)
    data = a.message("b", tensors=value(1.0))
    assert b.hears(a, data) == []
    (answer,) = c.hears(a, a.message("c", tensors=value(1.0)))
    assert answer.text == "a sent MIX 0 of round 0, in which it has nothing to say to this site"
    assert c.post._held == {}


def test_a_neighbour_that_speaks_out_of_turn(tmp_path):
    """In an exchange of some edges only, others may speak as little as strangers."""
    a, b, c = (Desk(tmp_path, name, forgiving=False) for name in "abc")
    begun(a, b, c)
    verb = Verb(0, Kind.SWAP, 0)
    b.post.say(verb, {"a": value(0.0)})
    hearing = threading.Thread(target=lambda: b.post.hear(verb, {"a": ONE}, 60.0), daemon=True)
    hearing.start()
    while b.post.waiting_for != ("a",):
        time.sleep(0.001)
    (answer,) = b.hears(c, c.message("b", Kind.SWAP, tensors=value(1.0)))
    assert (answer.kind, b.post.counts["refused"]) == (Kind.REFUSED, 1)
    b.hears(a, a.message("b", Kind.SWAP, tensors=value(2.0)))
    hearing.join()
    assert set(b.journal.closed(verb)[0]) == {"a"}


def test_held_messages_are_few(two):
    a, b = begun(*two)
    for r in range(0, 100, 4):
        assert b.hears(a, a.message("b", round_=r, tensors=value(1.0))) == []
    for s in range(100):
        assert b.hears(a, a.message("b", round_=1, sequence=s, tensors=value(1.0))) == []
    assert len(b.post._held) == posts._AHEAD
    c = Desk(b.path.parent, "c")
    assert b.hears(c, c.message("b", tensors=value(1.0))) == []
    assert len(b.post._held) == posts._AHEAD + 1, "one that talks too much does not silence others"


def test_what_has_no_answer_is_said_again_and_ever_more_seldom(two, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(posts.time, "monotonic", lambda: now[0])
    a, b = begun(*two)
    data = says(a, b, 1.5)
    times = []
    for _ in range(3000):
        a.said.clear()
        now[0] += 0.5
        a.post.again()
        if a.said:
            assert a.said == [("b", data)]
            times.append(now[0] - 100.0)
    pauses = [later - sooner for sooner, later in zip([0.0, *times], times, strict=False)]
    assert pauses[0] == posts._AGAIN
    assert pauses == sorted(pauses)
    assert pauses[-1] == posts._SELDOM
    b.post.say(FIRST, {})
    b.hears(a, data)
    heard(b, a)
    a.fed(b, b.hears(a, data))
    a.said.clear()
    now[0] += 1000.0
    a.post.again()
    assert (a.said, a.post._due) == ([], {})


def test_others_are_waited_for_where_nobody_may_be_left_out(tmp_path, caplog):
    a, b = begun(*(Desk(tmp_path, name, forgiving=False) for name in "ab"))
    data = says(a, b, 1.5)
    b.post.say(FIRST, {})
    threading.Timer(0.1, lambda: b.post.connected("a", 1)).start()
    threading.Timer(0.3, lambda: b.post.take("a", data)).start()
    assert heard(b, a, patience=0.05) == ({"a": 1.5}, [])
    assert "waiting for a since 0 seconds" in caplog.text
    assert not b.post.peers["a"].absent
    assert b.post.waiting_for == ()


def test_nothing_is_taken_back_where_nobody_may_be_left_out(tmp_path):
    a, b = begun(*(Desk(tmp_path, name, forgiving=False) for name in "ab"))
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


def test_a_liar_among_several_moves_us_by_less(tmp_path):
    a, b, c = (Desk(tmp_path, name) for name in "abc")
    a.post.take("b", b.message("a", Kind.ABSENT, 5))
    a.post.take("c", c.message("a", Kind.ABSENT, 100))
    assert a.post.begin(1) == 5
    begun(a, round_=5)


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
        a.post.again()
    assert a.spoke() == [("b", Kind.HELLO)] * int(20 / posts._AGAIN)
    assert b.kinds(a, a.post.hello("b")) == [Kind.HEARD, Kind.ABSENT]
    assert not b.post.peers["a"].absent


def test_verdicts_about_nothing(two):
    """Someone answers what was never said, or not to it."""
    a, b = begun(*two)
    says(a, b, 1.5)
    c = Desk(a.path.parent, "c")
    for kind in (Kind.RECEIVED, Kind.MISSED):
        assert a.post.take("c", c.message("a", kind, about=MIX)) == []
        assert a.post.take("b", b.message("a", kind, 7, about=MIX)) == []
    assert a.journal.waiting == {"b"}
    assert a.journal.missed(MIX, 0) == []


class Summing:
    """Push-sum at a site that dies where it is told to, and goes on from its journal."""

    def __init__(self, folder, hub, graph, sites, me, rounds, deaths, patience):
        self.name, self._folder, self._hub, self._graph = me, folder, hub, graph
        self._sites, self._rounds, self._patience = sites, rounds, patience
        self._start = torch.tensor([[10.0 ** sites.index(me), 1.0]], dtype=torch.float64)
        self.crashes, self.error, self.state, self._deaths = 0, None, self._start, list(deaths)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def join(self):
        self._thread.join(60.0)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _live(self):
        try:
            while not self._lived():
                self.crashes += 1
                self._hub.unplug(self.name)
                self.journal.kill()
                time.sleep(0.05)
        except BaseException as error:
            self.error = error

    def _lived(self):
        life, description = Life(self._deaths.pop(0) if self._deaths else None), described(self._sites, self._rounds)
        self.journal = Doomed(self._folder / f"{self.name}.sqlite", description.network, life)
        wires, may = self._hub.wires(self.name, life), speaks(self._graph, self._sites, self.name)
        post = Post(self.journal, description, self.name, wires, may, forgiving=True)
        try:
            self._hub.plug(self.name, post)
            self._sum(post)
            life.steps = None
            post.settle(0.3)
            return True
        except Crash:
            return False

    def _sum(self, post):
        peers = Peers(self._graph, self._sites, post, self._patience)
        kept = self.journal.last()
        t = int(kept[0]) if kept else 0
        state = torch.frombuffer(bytearray(kept[1]), dtype=torch.float64)[None] if kept else self._start
        while t < self._rounds:
            now = peers.begin(t)
            if now == t:
                x, w = peers.mix(t, state[:, :1], state[:, 1:])
                state, t = torch.cat([x, w], 1), t + 1
                if t % 4:
                    continue
            t = max(t, now)
            self.journal.checkpoint(t, str(t), state.numpy().tobytes())
        peers.begin(self._rounds)
        self.state = state


def mass(sites, graph, names):
    """All that is anywhere: in states, in messages that nobody has used, in those to be taken back."""
    total = sum(site.state[0].clone() for site in sites.values())
    number = names.index
    for name, site in sites.items():
        for sent in [*site.journal._sent("fate IN (?, ?)", (Fate.UNKNOWN, Fate.MISSED))]:
            used = sites[sent.receiver].journal.used(sent.verb, name)
            message = decode(sent.data, Link(data_network(sent.data), name, sent.receiver))
            if used is None:
                weight = float(graph.at(sent.verb.round)[number(sent.receiver), number(name)])
                total += weight * torch.cat([message.tensors["0"], message.tensors["1"]])
    return total


def summed(folder, seed, loss, deaths, rounds=14):
    names, graph = ["a", "b", "c", "d", "e"], one_peer_exponential(5)
    hub = Hub(random.Random(seed), loss, delay=0.06)
    sites = {
        name: Summing(folder, hub, graph, names, name, rounds, deaths.get(name, ()), patience=0.05) for name in names
    }
    for site in sites.values():
        site.join()
    hub.stop()
    return sites, hub, mass(sites, graph, names)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 2**32),
    loss=st.sampled_from([0.0, 0.1, 0.3]),
    deaths=st.dictionaries(st.sampled_from("abcde"), st.lists(st.integers(12, 150), max_size=4), max_size=5),
)
def test_mass_is_conserved(tmp_path_factory, seed, loss, deaths):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(posts, "_AGAIN", 0.03)
        sites, hub, total = summed(tmp_path_factory.mktemp("sum"), seed, loss, deaths)
    assert total.tolist() == pytest.approx([11111.0, 5.0], abs=1e-9)
    for said in hub.bytes_of.values():
        assert len(said) == 1, "what is said again are the same bytes"
    for (sender, receiver, verb), told in hub.fates.items():
        assert len(told) == 1, "a fate is told once and for all"
        used = sites[receiver].journal.used(verb, sender) is not None
        assert told == {Kind.RECEIVED if used else Kind.MISSED}
    for site in sites.values():
        site.journal.kill()


def test_mass_is_conserved_where_many_die(tmp_path, monkeypatch):
    """The same, at length in one place: everyone dies often, and nearly a third of all is lost."""
    monkeypatch.setattr(posts, "_AGAIN", 0.03)
    deaths = {name: [30 + 7 * i + k for i in range(8)] for k, name in enumerate("abcde")}
    sites, hub, total = summed(tmp_path, 1, 0.3, deaths, rounds=40)
    assert sum(site.crashes for site in sites.values()) >= 20
    assert {Kind.RECEIVED} in hub.fates.values()
    assert {Kind.MISSED} in hub.fates.values()
    assert total.tolist() == pytest.approx([11111.0, 5.0], abs=1e-9)
