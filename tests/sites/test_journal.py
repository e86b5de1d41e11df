"""What is in the journal is there after a crash, whole or not at all; what is done with leaves it."""

import threading

import pytest

from tacit.errors import TacitError
from tacit.sites.journal import DeliveryStatus, Journal, SentMessage, digest
from tacit.sites.message import MessageKind, Operation

NETWORK = "0" * 64
FIRST, NEXT = Operation(0, MessageKind.MIX, 0), Operation(1, MessageKind.MIX, 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(path):
    made = Journal(path, NETWORK)
    yield made
    made.close()


def reopened(journal, path):
    journal.close()
    journal.__init__(path, NETWORK)
    return journal


def test_what_is_said_stays_said(journal, path):
    assert journal.sent(FIRST) is None
    journal.record_sent(FIRST, {"b": b"to b", "c": b"to c"})
    journal.record_sent(NEXT, {})
    for kept in (journal, reopened(journal, path)):
        assert kept.sent(FIRST) == {"b": b"to b", "c": b"to c"}
        assert kept.sent(NEXT) == {}
        assert kept.pending("c") == [SentMessage(FIRST, "c", b"to c")]
        assert kept.pending_receivers == {"b", "c"}
        assert kept.completed(FIRST) is None
        assert not kept.is_complete(FIRST)


def test_what_is_said_again_is_in_order(journal):
    verbs = [Operation(r, kind, s) for r in (2, 10) for kind in (MessageKind.MIX, MessageKind.SWAP) for s in (0, 1)]
    for verb in reversed(verbs):
        journal.record_sent(verb, {"b": str(verb).encode()})
    assert [sent.operation for sent in journal.pending("b")] == verbs
    assert isinstance(journal.pending("b")[0].operation.kind, MessageKind)


def test_all_of_it_or_nothing(journal, path):
    """As when the disk is full half-way."""
    with pytest.raises(TacitError, match=r"cannot use the journal .*journal.sqlite: "):
        journal.record_sent(FIRST, {"b": b"to b", "c": None})
    assert journal.sent(FIRST) is None
    assert journal.pending_receivers == set()
    journal.record_sent(FIRST, {"b": b"to b"})
    with pytest.raises(TacitError):
        journal.record_sent(FIRST, {"b": b"something else"})  # nothing is said twice
    with pytest.raises(TacitError):
        journal.complete(FIRST, {"b": b"of b"}, [SentMessage(FIRST, "b", b"to b"), SentMessage(FIRST, object(), b"")])
    for kept in (journal, reopened(journal, path)):
        assert kept.sent(FIRST) == {"b": b"to b"}
        assert kept.completed(FIRST) is None
        assert kept.used_digest(FIRST, "b") is None
        assert kept.pending_receivers == {"b"}


def test_what_was_heard_stays_heard(journal, path):
    journal.record_sent(FIRST, {})
    journal.complete(FIRST, {"b": b"of b"}, [])
    for kept in (journal, reopened(journal, path)):
        assert kept.completed(FIRST) == ({"b": b"of b"}, [])
        assert kept.is_complete(FIRST)
        assert kept.used_digest(FIRST, "b") == digest(b"of b") != digest(b"of  b")
        assert kept.used_digest(FIRST, "c") is None
    with pytest.raises(TacitError):
        journal.complete(FIRST, {"b": b"of b"}, [])


def test_a_verdict_is_news_once(journal):
    journal.record_sent(FIRST, {"b": b"to b", "c": b"to c"})
    assert journal.record_reply(FIRST, "b", DeliveryStatus.MISSED)
    assert not journal.record_reply(FIRST, "b", DeliveryStatus.MISSED)
    assert not journal.record_reply(FIRST, "b", DeliveryStatus.ACKNOWLEDGED)
    assert not journal.record_reply(NEXT, "b", DeliveryStatus.ACKNOWLEDGED), "it was never said"
    assert not journal.record_reply(FIRST, "d", DeliveryStatus.ACKNOWLEDGED), "nor to whom it was not said"
    assert journal.missed(MessageKind.MIX, 0) == [SentMessage(FIRST, "b", b"to b")]
    assert journal.missed(MessageKind.MIX, 1) == journal.missed(MessageKind.SWAP, 0) == []
    assert journal.pending_receivers == {"c"}


def test_what_is_taken_back_is_taken_back_once(journal, path):
    journal.record_sent(FIRST, {"b": b"to b"})
    journal.complete(FIRST, {}, [])
    journal.record_reply(FIRST, "b", DeliveryStatus.MISSED)
    back = journal.missed(MessageKind.MIX, 0)
    journal.record_sent(NEXT, {})
    journal.complete(NEXT, {}, back)
    for kept in (journal, reopened(journal, path)):
        assert kept.missed(MessageKind.MIX, 0) == []
        assert kept.completed(NEXT) == ({}, back)
        assert kept.completed(FIRST) == ({}, [])
        assert not kept.record_reply(FIRST, "b", DeliveryStatus.MISSED)


def test_a_checkpoint_keeps_what_is_still_needed(journal, path):
    """Rounds from it on are done again after a crash: what they said, heard and took back must be there."""
    third = Operation(2, MessageKind.MIX, 0)
    journal.record_sent(FIRST, {"b": b"0b", "c": b"0c", "d": b"0d", "e": b"0e"})
    journal.complete(FIRST, {"b": b"of b"}, [])
    for receiver, fate in {
        "b": DeliveryStatus.ACKNOWLEDGED,
        "c": DeliveryStatus.MISSED,
        "d": DeliveryStatus.MISSED,
    }.items():
        journal.record_reply(FIRST, receiver, fate)
    journal.record_sent(NEXT, {"b": b"1b"})
    journal.complete(NEXT, {}, [SentMessage(FIRST, "c", b"0c")])
    journal.record_reply(NEXT, "b", DeliveryStatus.ACKNOWLEDGED)
    journal.record_sent(third, {"b": b"2b"})
    journal.save_checkpoint(1, "{}", b"state 1")
    for kept in (journal, reopened(journal, path)):
        assert kept.load_checkpoint() == ("{}", b"state 1")
        assert kept.sent(NEXT) == {"b": b"1b"}
        assert kept.completed(NEXT) == ({}, [SentMessage(FIRST, "c", b"0c")])
        assert set(kept.sent(FIRST)) == {"c", "d", "e"}, "answered and before it"
        assert kept.used_digest(FIRST, "b") == digest(b"of b")
        assert kept.missed(MessageKind.MIX, 0) == [SentMessage(FIRST, "d", b"0d")]
        assert kept.pending("e") == [SentMessage(FIRST, "e", b"0e")]
    journal.save_checkpoint(2, '{"t": 2}', b"state 2")
    assert journal.load_checkpoint() == ('{"t": 2}', b"state 2")
    assert set(journal.sent(FIRST)) == {"d", "e"}
    assert journal.sent(NEXT) == {}
    assert journal.sent(third) == {"b": b"2b"}
    assert journal.is_complete(FIRST)


def test_whether_anything_was_said(journal):
    assert not journal.has_sent()
    assert journal.load_checkpoint() is None
    assert journal.rounds_sent == journal.rounds_used("b") == 0
    journal.record_sent(NEXT, {"b": b"to b"})
    assert journal.has_sent()
    assert journal.has_sent(1)
    assert not journal.has_sent(2)
    journal.complete(NEXT, {"b": b"of b"}, [])
    assert journal.rounds_sent == journal.rounds_used("b") == 2
    assert journal.rounds_used("c") == 0


def test_another_network_is_not_touched(journal, path):
    journal.record_sent(FIRST, {"b": b"to b"})
    with pytest.raises(TacitError, match="belongs to another network"):
        Journal(path, "1" * 64)
    assert journal.sent(FIRST) == {"b": b"to b"}


@pytest.mark.parametrize("contents", [b"garbage" * 1000, None])
def test_a_file_that_is_no_journal(tmp_path, contents):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(contents) if contents else path.mkdir()
    with pytest.raises(TacitError, match=r"cannot use the journal .*journal.sqlite: "):
        Journal(path, NETWORK)


def test_two_threads(journal):
    """The one that computes and the one with the lines."""

    def answers():
        for r in range(100):
            while not journal.record_reply(Operation(r, MessageKind.MIX, 0), "b", DeliveryStatus.ACKNOWLEDGED):
                pass

    other = threading.Thread(target=answers)
    other.start()
    for r in range(100):
        journal.record_sent(Operation(r, MessageKind.MIX, 0), {"b": b"to b"})
        journal.complete(Operation(r, MessageKind.MIX, 0), {"b": b"of b"}, [])
        journal.save_checkpoint(max(0, r - 5), "{}", b"")
    other.join()
    assert journal.pending_receivers == set()
