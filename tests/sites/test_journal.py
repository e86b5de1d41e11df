"""The journal keeps complete records across a crash, and deletes what is no longer needed."""

import threading

import pytest

from tacit.errors import TacitError
from tacit.sites.journal import DeliveryStatus, Journal, SentMessage, digest
from tacit.sites.message import MessageKind, Operation

NETWORK = "0" * 64
FIRST, SECOND, THIRD = (Operation(round_, MessageKind.MIX, 0) for round_ in range(3))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(path):
    journal = Journal(path, NETWORK)
    yield journal
    journal.close()


def reopen(journal, path):
    journal.close()
    journal.__init__(path, NETWORK)
    return journal


def test_sent_messages_survive(journal, path):
    assert journal.sent(FIRST) is None
    journal.record_sent(FIRST, {"b": b"to b", "c": b"to c"})
    journal.record_sent(SECOND, {})
    for current in (journal, reopen(journal, path)):
        assert current.sent(FIRST) == {"b": b"to b", "c": b"to c"}
        assert current.sent(SECOND) == {}
        assert current.pending("c") == [SentMessage(FIRST, "c", b"to c")]
        assert current.pending_receivers == {"b", "c"}
        assert current.completed(FIRST) is None
        assert not current.is_complete(FIRST)


def test_pending_messages_are_in_order(journal):
    kinds = (MessageKind.MIX, MessageKind.SWAP)
    operations = [Operation(round_, kind, sequence) for round_ in (2, 10) for kind in kinds for sequence in (0, 1)]
    for operation in reversed(operations):
        journal.record_sent(operation, {"b": str(operation).encode()})
    assert [sent.operation for sent in journal.pending("b")] == operations
    assert isinstance(journal.pending("b")[0].operation.kind, MessageKind)


def test_failed_transaction_changes_nothing(journal, path):
    """As when the disk becomes full."""
    with pytest.raises(TacitError, match=r"cannot use the journal .*journal\.sqlite: "):
        journal.record_sent(FIRST, {"b": b"to b", "c": None})
    assert journal.sent(FIRST) is None
    assert journal.pending_receivers == set()
    journal.record_sent(FIRST, {"b": b"to b"})
    with pytest.raises(TacitError):
        journal.record_sent(FIRST, {"b": b"something else"})
    with pytest.raises(TacitError):
        journal.complete(FIRST, {"b": b"of b"}, [SentMessage(FIRST, "b", b"to b"), SentMessage(FIRST, object(), b"")])
    for current in (journal, reopen(journal, path)):
        assert current.sent(FIRST) == {"b": b"to b"}
        assert current.completed(FIRST) is None
        assert current.used_digest(FIRST, "b") is None
        assert current.pending_receivers == {"b"}


def test_used_messages_survive(journal, path):
    journal.record_sent(FIRST, {})
    journal.complete(FIRST, {"b": b"of b"}, [])
    for current in (journal, reopen(journal, path)):
        assert current.completed(FIRST) == ({"b": b"of b"}, [])
        assert current.is_complete(FIRST)
        assert current.used_digest(FIRST, "b") == digest(b"of b") != digest(b"of  b")
        assert current.used_digest(FIRST, "c") is None
    with pytest.raises(TacitError):
        journal.complete(FIRST, {"b": b"of b"}, [])


def test_first_reply_decides(journal):
    journal.record_sent(FIRST, {"b": b"to b", "c": b"to c"})
    assert journal.record_reply(FIRST, "b", DeliveryStatus.MISSED)
    assert not journal.record_reply(FIRST, "b", DeliveryStatus.MISSED)
    assert not journal.record_reply(FIRST, "b", DeliveryStatus.ACKNOWLEDGED)
    assert not journal.record_reply(SECOND, "b", DeliveryStatus.ACKNOWLEDGED), "never sent"
    assert not journal.record_reply(FIRST, "d", DeliveryStatus.ACKNOWLEDGED), "not sent to this site"
    assert journal.missed(MessageKind.MIX, 0) == [SentMessage(FIRST, "b", b"to b")]
    assert journal.missed(MessageKind.MIX, 1) == journal.missed(MessageKind.SWAP, 0) == []
    assert journal.pending_receivers == {"c"}


def test_missed_message_is_returned_once(journal, path):
    journal.record_sent(FIRST, {"b": b"to b"})
    journal.complete(FIRST, {}, [])
    journal.record_reply(FIRST, "b", DeliveryStatus.MISSED)
    missed = journal.missed(MessageKind.MIX, 0)
    journal.record_sent(SECOND, {})
    journal.complete(SECOND, {}, missed)
    for current in (journal, reopen(journal, path)):
        assert current.missed(MessageKind.MIX, 0) == []
        assert current.completed(SECOND) == ({}, missed)
        assert current.completed(FIRST) == ({}, [])
        assert not current.record_reply(FIRST, "b", DeliveryStatus.MISSED)


def test_checkpoint_keeps_what_later_rounds_need(journal, path):
    """After a crash the rounds from the checkpoint on are repeated, so their messages must be complete."""
    journal.record_sent(FIRST, {"b": b"0b", "c": b"0c", "d": b"0d", "e": b"0e"})
    journal.complete(FIRST, {"b": b"of b"}, [])
    journal.record_reply(FIRST, "b", DeliveryStatus.ACKNOWLEDGED)
    journal.record_reply(FIRST, "c", DeliveryStatus.MISSED)
    journal.record_reply(FIRST, "d", DeliveryStatus.MISSED)
    journal.record_sent(SECOND, {"b": b"1b"})
    journal.complete(SECOND, {}, [SentMessage(FIRST, "c", b"0c")])
    journal.record_reply(SECOND, "b", DeliveryStatus.ACKNOWLEDGED)
    journal.record_sent(THIRD, {"b": b"2b"})
    journal.save_checkpoint(1, "{}", b"state 1")
    for current in (journal, reopen(journal, path)):
        assert current.load_checkpoint() == ("{}", b"state 1")
        assert current.sent(SECOND) == {"b": b"1b"}
        assert current.completed(SECOND) == ({}, [SentMessage(FIRST, "c", b"0c")])
        assert set(current.sent(FIRST)) == {"c", "d", "e"}, "without the acknowledged message"
        assert current.used_digest(FIRST, "b") == digest(b"of b")
        assert current.missed(MessageKind.MIX, 0) == [SentMessage(FIRST, "d", b"0d")]
        assert current.pending("e") == [SentMessage(FIRST, "e", b"0e")]
    journal.save_checkpoint(2, '{"t": 2}', b"state 2")
    assert journal.load_checkpoint() == ('{"t": 2}', b"state 2")
    assert set(journal.sent(FIRST)) == {"d", "e"}
    assert journal.sent(SECOND) == {}
    assert journal.sent(THIRD) == {"b": b"2b"}
    assert journal.is_complete(FIRST)


def test_number_of_rounds_sent_and_used(journal):
    assert not journal.has_sent()
    assert journal.load_checkpoint() is None
    assert journal.rounds_sent == journal.rounds_used("b") == 0
    journal.record_sent(SECOND, {"b": b"to b"})
    assert journal.has_sent()
    assert journal.has_sent(1)
    assert not journal.has_sent(2)
    journal.complete(SECOND, {"b": b"of b"}, [])
    assert journal.rounds_sent == journal.rounds_used("b") == 2
    assert journal.rounds_used("c") == 0


def test_journal_of_another_network_is_refused(journal, path):
    journal.record_sent(FIRST, {"b": b"to b"})
    with pytest.raises(TacitError, match="belongs to another network"):
        Journal(path, "1" * 64)
    assert journal.sent(FIRST) == {"b": b"to b"}


@pytest.mark.parametrize("contents", [b"garbage" * 1000, None], ids=["garbage", "folder"])
def test_file_that_is_not_a_journal_is_refused(path, contents):
    path.write_bytes(contents) if contents else path.mkdir()
    with pytest.raises(TacitError, match=r"cannot use the journal .*journal\.sqlite: "):
        Journal(path, NETWORK)


def test_two_threads_can_share_a_journal(journal):
    """The computing thread and the transport's thread."""

    def record_replies():
        for round_ in range(100):
            operation = Operation(round_, MessageKind.MIX, 0)
            while not journal.record_reply(operation, "b", DeliveryStatus.ACKNOWLEDGED):
                pass

    other = threading.Thread(target=record_replies)
    other.start()
    for round_ in range(100):
        operation = Operation(round_, MessageKind.MIX, 0)
        journal.record_sent(operation, {"b": b"to b"})
        journal.complete(operation, {"b": b"of b"}, [])
        journal.save_checkpoint(max(0, round_ - 5), "{}", b"")
    other.join()
    assert journal.pending_receivers == set()
