"""What is in the journal is there after a crash, whole or not at all; what is done with leaves it."""

import threading

import pytest

from tacit.errors import TacitError
from tacit.sites.journal import Fate, Journal, Sent, Verb, digest
from tacit.sites.wire import Kind

NETWORK = "0" * 64
FIRST, NEXT = Verb(0, Kind.MIX, 0), Verb(1, Kind.MIX, 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(path):
    made = Journal(path, NETWORK)
    yield made
    made.shut()


def reopened(journal, path):
    journal.shut()
    journal.__init__(path, NETWORK)
    return journal


def test_what_is_said_stays_said(journal, path):
    assert journal.said(FIRST) is None
    journal.say(FIRST, {"b": b"to b", "c": b"to c"})
    journal.say(NEXT, {})
    for kept in (journal, reopened(journal, path)):
        assert kept.said(FIRST) == {"b": b"to b", "c": b"to c"}
        assert kept.said(NEXT) == {}
        assert kept.unanswered("c") == [Sent(FIRST, "c", b"to c")]
        assert kept.waiting == {"b", "c"}
        assert kept.closed(FIRST) is None
        assert not kept.is_closed(FIRST)


def test_what_is_said_again_is_in_order(journal):
    verbs = [Verb(r, kind, s) for r in (2, 10) for kind in (Kind.MIX, Kind.SWAP) for s in (0, 1)]
    for verb in reversed(verbs):
        journal.say(verb, {"b": str(verb).encode()})
    assert [sent.verb for sent in journal.unanswered("b")] == verbs
    assert isinstance(journal.unanswered("b")[0].verb.kind, Kind)


def test_all_of_it_or_nothing(journal, path):
    """As when the disk is full half-way."""
    with pytest.raises(TacitError, match=r"journal.sqlite cannot be used: "):
        journal.say(FIRST, {"b": b"to b", "c": None})
    assert journal.said(FIRST) is None
    assert journal.waiting == set()
    journal.say(FIRST, {"b": b"to b"})
    with pytest.raises(TacitError):
        journal.say(FIRST, {"b": b"something else"})  # nothing is said twice
    with pytest.raises(TacitError):
        journal.close(FIRST, {"b": b"of b"}, [Sent(FIRST, "b", b"to b"), Sent(FIRST, object(), b"")])
    for kept in (journal, reopened(journal, path)):
        assert kept.said(FIRST) == {"b": b"to b"}
        assert kept.closed(FIRST) is None
        assert kept.used(FIRST, "b") is None
        assert kept.waiting == {"b"}


def test_what_was_heard_stays_heard(journal, path):
    journal.say(FIRST, {})
    journal.close(FIRST, {"b": b"of b"}, [])
    for kept in (journal, reopened(journal, path)):
        assert kept.closed(FIRST) == ({"b": b"of b"}, [])
        assert kept.is_closed(FIRST)
        assert kept.used(FIRST, "b") == digest(b"of b") != digest(b"of  b")
        assert kept.used(FIRST, "c") is None
    with pytest.raises(TacitError):
        journal.close(FIRST, {"b": b"of b"}, [])


def test_a_verdict_is_news_once(journal):
    journal.say(FIRST, {"b": b"to b", "c": b"to c"})
    assert journal.answered(FIRST, "b", Fate.MISSED)
    assert not journal.answered(FIRST, "b", Fate.MISSED)
    assert not journal.answered(FIRST, "b", Fate.RECEIVED)
    assert not journal.answered(NEXT, "b", Fate.RECEIVED), "it was never said"
    assert not journal.answered(FIRST, "d", Fate.RECEIVED), "nor to whom it was not said"
    assert journal.missed(Kind.MIX, 0) == [Sent(FIRST, "b", b"to b")]
    assert journal.missed(Kind.MIX, 1) == journal.missed(Kind.SWAP, 0) == []
    assert journal.waiting == {"c"}


def test_what_is_taken_back_is_taken_back_once(journal, path):
    journal.say(FIRST, {"b": b"to b"})
    journal.close(FIRST, {}, [])
    journal.answered(FIRST, "b", Fate.MISSED)
    back = journal.missed(Kind.MIX, 0)
    journal.say(NEXT, {})
    journal.close(NEXT, {}, back)
    for kept in (journal, reopened(journal, path)):
        assert kept.missed(Kind.MIX, 0) == []
        assert kept.closed(NEXT) == ({}, back)
        assert kept.closed(FIRST) == ({}, [])
        assert not kept.answered(FIRST, "b", Fate.MISSED)


def test_a_checkpoint_keeps_what_is_still_needed(journal, path):
    """Rounds from it on are done again after a crash: what they said, heard and took back must be there."""
    third = Verb(2, Kind.MIX, 0)
    journal.say(FIRST, {"b": b"0b", "c": b"0c", "d": b"0d", "e": b"0e"})
    journal.close(FIRST, {"b": b"of b"}, [])
    for receiver, fate in {"b": Fate.RECEIVED, "c": Fate.MISSED, "d": Fate.MISSED}.items():
        journal.answered(FIRST, receiver, fate)
    journal.say(NEXT, {"b": b"1b"})
    journal.close(NEXT, {}, [Sent(FIRST, "c", b"0c")])
    journal.answered(NEXT, "b", Fate.RECEIVED)
    journal.say(third, {"b": b"2b"})
    journal.checkpoint(1, "{}", b"state 1")
    for kept in (journal, reopened(journal, path)):
        assert kept.last() == ("{}", b"state 1")
        assert kept.said(NEXT) == {"b": b"1b"}
        assert kept.closed(NEXT) == ({}, [Sent(FIRST, "c", b"0c")])
        assert set(kept.said(FIRST)) == {"c", "d", "e"}, "answered and before it"
        assert kept.used(FIRST, "b") == digest(b"of b")
        assert kept.missed(Kind.MIX, 0) == [Sent(FIRST, "d", b"0d")]
        assert kept.unanswered("e") == [Sent(FIRST, "e", b"0e")]
    journal.checkpoint(2, '{"t": 2}', b"state 2")
    assert journal.last() == ('{"t": 2}', b"state 2")
    assert set(journal.said(FIRST)) == {"d", "e"}
    assert journal.said(NEXT) == {}
    assert journal.said(third) == {"b": b"2b"}
    assert journal.is_closed(FIRST)


def test_whether_anything_was_said(journal):
    assert not journal.begun
    assert journal.last() is None
    assert journal.rounds == journal.heard("b") == 0
    journal.say(NEXT, {"b": b"to b"})
    assert journal.begun
    assert journal.begun_in(1)
    assert not journal.begun_in(2)
    journal.close(NEXT, {"b": b"of b"}, [])
    assert journal.rounds == journal.heard("b") == 2
    assert journal.heard("c") == 0


def test_another_network_is_not_touched(journal, path):
    journal.say(FIRST, {"b": b"to b"})
    with pytest.raises(TacitError, match="belongs to another network"):
        Journal(path, "1" * 64)
    assert journal.said(FIRST) == {"b": b"to b"}


@pytest.mark.parametrize("contents", [b"garbage" * 1000, None])
def test_a_file_that_is_no_journal(tmp_path, contents):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(contents) if contents else path.mkdir()
    with pytest.raises(TacitError, match=r"journal.sqlite cannot be used: "):
        Journal(path, NETWORK)


def test_two_threads(journal):
    """The one that computes and the one with the lines."""

    def answers():
        for r in range(100):
            while not journal.answered(Verb(r, Kind.MIX, 0), "b", Fate.RECEIVED):
                pass

    other = threading.Thread(target=answers)
    other.start()
    for r in range(100):
        journal.say(Verb(r, Kind.MIX, 0), {"b": b"to b"})
        journal.close(Verb(r, Kind.MIX, 0), {"b": b"of b"}, [])
        journal.checkpoint(max(0, r - 5), "{}", b"")
    other.join()
    assert journal.waiting == set()
