"""gRPC connections between sites: invalid messages, floods, broken connections. The site keeps working with others."""

import logging
import os
import struct

import grpc
import pytest
import torch

from tacit.errors import TacitError
from tacit.sites import grpc_connection, grpc_transport
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.message import MessageKind

from .grpc_sites import MAX_BYTES, OTHER_DESCRIPTION, RawClient, hello, message, wait_until, warnings
from .manual_sites import MIX, number


def invalid_messages():
    """Yield bytes that c may not send to a, with a part of the reason."""
    yield b"", "a message of version 0"
    yield b"\xff" * 100, "bytes that are not a message"
    yield hello("b"), "a message whose sender is b"
    yield hello("c", OTHER_DESCRIPTION), "another network"
    yield message("c", MIX, to="b", tensors=number(1.0)), "a message whose receiver is b"
    valid = message("c", MIX, 0, tensors={"0": torch.ones(1)})
    at = valid.rindex(struct.pack("<f", 1.0))  # the network's digest, which comes earlier, may contain the same bytes
    yield valid[:at] + struct.pack("<f", float("nan")) + valid[at + 4 :], "not finite"


def test_invalid_messages_are_refused_on_an_open_connection(grpc_pair, caplog):
    before = grpc_pair.a.journal_rows()
    with grpc_pair.connected_client() as client:
        for count, (data, reason) in enumerate(invalid_messages(), 1):
            reply = client.send(data).read()
            assert reply.kind == MessageKind.REFUSED
            assert reason in reply.text
            assert warnings(caplog)[-1] == f"refused: {reply.text}"
            assert len(warnings(caplog)) == count
        assert grpc_pair.a.journal_rows() == before
        grpc_pair.check_round()
        assert client.send(hello("c")).read().kind == MessageKind.HELLO_REPLY, "the connection is still open"


def ended_connections(caplog):
    return [(record.peer, record.message) for record in caplog.records if record.message.startswith("connection ended")]


def test_oversized_message_ends_the_connection(grpc_pair, caplog):
    caplog.set_level(logging.INFO)
    before = grpc_pair.a.journal_rows()
    with grpc_pair.connected_client() as client:
        received, code = client.send(os.urandom(MAX_BYTES + 1)).read_all()
        assert received == []
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert wait_until(lambda: not grpc_pair.a.peers["c"].connected)
    assert grpc_pair.a.journal_rows() == before
    grpc_pair.check_round()
    assert ended_connections(caplog) == [("c", "connection ended")]


def test_the_end_of_a_connection_is_logged_without_a_guess_at_the_cause(grpc_pair, caplog):
    caplog.set_level(logging.INFO)
    with grpc_pair.connected_client():
        pass
    assert wait_until(lambda: not grpc_pair.a.peers["c"].connected)
    assert wait_until(lambda: ended_connections(caplog) == [("c", "connection ended")])


def test_client_that_sends_nothing_is_rejected(grpc_pair, caplog, monkeypatch):
    monkeypatch.setattr(grpc_transport, "HELLO_TIMEOUT", 0.1)
    with RawClient(grpc_pair.a.address, grpc_pair.certs, "c") as client:
        assert client.read_all() == ([], grpc.StatusCode.OK)
    assert warnings(caplog) == ["rejected: it connected and sent nothing"]
    grpc_pair.check_round()


def test_new_connection_replaces_an_older_one(grpc_pair):
    """The older one may be dead without being detected."""
    with grpc_pair.connected_client() as older, grpc_pair.connected_client() as newer:
        assert older.read_all() == ([], grpc.StatusCode.OK)
        assert wait_until(lambda: grpc_pair.a.peers["c"].connections == 1)
        assert newer.send(b"garbage").read().kind == MessageKind.REFUSED
        grpc_pair.a.transport.reply("c", b"for c")
        assert next(newer.call) == b"for c"
    grpc_pair.check_round()


def test_flood_of_invalid_messages_ends_only_that_connection(grpc_pair, caplog):
    connections = grpc_pair.a.peers["b"].connections
    with grpc_pair.connected_client() as client:
        received, code = client.send(*[b"garbage"] * 1000).read_all()
    assert code == grpc.StatusCode.OK
    assert len(received) <= grpc_connection.MAX_REFUSED + 1
    assert len(warnings(caplog)) == grpc_connection.MAX_REFUSED + 2
    assert warnings(caplog)[-1].startswith("disconnected: it sent too many refused messages")
    grpc_pair.check_round()
    assert grpc_pair.a.peers["b"].connections == connections
    assert [record.peer for record in caplog.records if "disconnected: " in record.getMessage()] == ["c"]


def test_queue_for_a_peer_that_does_not_read_is_limited(grpc_pair, monkeypatch):
    monkeypatch.setattr(grpc_connection, "MAX_QUEUED", 8)
    with grpc_pair.connected_client():
        for _ in range(100):
            grpc_pair.a.transport.reply("c", bytes(MAX_BYTES // 2))
        grpc_pair.check_round()
        connection = grpc_pair.a.transport._incoming.get("c")
        assert connection is None or connection.queued <= 8


def test_broken_connection_is_reopened_and_pending_messages_are_repeated(grpc_pair):
    a, b, addresses = grpc_pair.a, grpc_pair.b, grpc_pair.a.transport._addresses
    b.send(a, 1)
    b.transport.close()
    assert wait_until(lambda: not a.peers["b"].connected)
    a.send(b, 1)
    b.transport = GrpcTransport(grpc_pair.certs.identity("b"), addresses["b"], addresses, MAX_BYTES)
    for part in (b.exchange, b.exchange.receiver, b.exchange._outbox):
        part._transport = b.transport
    b.transport.open(b.exchange.receiver)
    b.transport.connect(["a"])
    assert a.receive(b, 1) == b.receive(a, 1) == 1.0


def test_address_in_use_is_reported(grpc_pair):
    other = GrpcTransport(grpc_pair.certs.identity("c"), grpc_pair.a.address, {})
    with pytest.raises(TacitError, match=f"cannot listen at {grpc_pair.a.address}: the address is in use"):
        other.open(grpc_pair.a.exchange.receiver)
    other.close()
    grpc_pair.check_round()
