"""Real lines on this machine: who may not come in does not, and whatever comes, the site works on with the others."""

import logging
import os
import socket
import ssl
import time
from itertools import cycle, islice

import grpc
import pytest
import torch

from tacit.errors import TacitError
from tacit.sites import grpc_connection, grpc_transport
from tacit.sites.certificates import CertificateFiles
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.message import MessageKind
from tacit.sites.native_stderr import capture_native_stderr

from .cases import MIX, described, value
from .stations import MOST, SITES, Both, Caller, Papers, greeted, hello, message


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    return Papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture
def pair(tmp_path, papers):
    made = Both(tmp_path, papers)
    made.work()
    yield made
    made.close()


# Ways to come in that must not be one. Each tells whether the site has said anything over it that only peers hear.


def plain(data, patience=10.0):
    """TCP without TLS."""

    def tried(pair):
        host, port = pair.a.address.split(":")
        with socket.create_connection((host, int(port)), 10) as line:
            line.settimeout(patience)
            try:
                line.sendall(data)
                return line.recv(100)[:1] not in (b"", b"\x15")  # an alert of TLS is no answer
            except OSError:
                return False

    return tried


def tls(certificate):
    """TLS, with the files that `certificate` finds."""

    def tried(pair):
        context = ssl.create_default_context(cafile=str(pair.papers.authority))
        context.set_alpn_protocols(["h2"])
        files = certificate(pair.papers)
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        host, port = pair.a.address.split(":")
        with socket.create_connection((host, int(port)), 10) as line:
            line.settimeout(10.0)
            try:
                with context.wrap_socket(line, server_hostname="a") as wrapped:
                    wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
                    return wrapped.recv(100) != b""
            except OSError:  # with it the errors of TLS
                return False

    return tried


def called(name, first, folder=lambda papers: papers.folder):
    """A line of gRPC on which `first` is said."""

    def tried(pair):
        with Caller(pair.a.address, pair.papers, name, folder(pair.papers)) as caller:
            caller.say(first)
            heard, _ = caller.rest()
        return any(one.kind != MessageKind.REFUSED for one in heard)

    return tried


OTHER = described(SITES, algorithm={"name": "sgp", "lr": 0.25})
REFUSED = "connection refused: "
WAYS = {
    "nothing": (plain(b"", 0.2), None),
    "plain text": (plain(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), REFUSED),
    "plain HTTP/2": (plain(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)), REFUSED),
    "garbage": (plain(bytes(range(256)) * 8), REFUSED),
    "half a handshake": (plain(bytes.fromhex("1603010200010001fc0303") + bytes(40), 0.2), None),
    "no certificate": (tls(lambda papers: None), REFUSED + "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
    "another authority": (
        tls(lambda papers: CertificateFiles.in_folder(papers.elsewhere, "b")),
        REFUSED + "CERTIFICATE_VERIFY_FAILED",
    ),
    "expired": (
        tls(lambda papers: CertificateFiles.in_folder(papers.late, "b")),
        REFUSED + "CERTIFICATE_VERIFY_FAILED",
    ),
    "a stranger": (
        called("stranger", hello("b")),
        "rejected: its certificate is valid, but it is not a site of this network",
    ),
    "in another's name": (called("c", hello("b")), "refused: c sent a message whose sender is b"),
    "another network": (
        called("c", hello("c", OTHER)),
        "refused: c belongs to another network: algorithm.lr is not set here and 0.25 there",
    ),
    "values first": (called("c", message("c", MIX, tensors=value(1.0))), "refused: c sent MIX before HELLO"),
    "no message": (called("c", b"garbage"), "refused: c sent bytes that are not a message"),
}


def watched(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def soon(condition, seconds=5.0):
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("way", WAYS)
def test_nobody_comes_in(pair, caplog, way):
    tried, told = WAYS[way]
    before, lost = pair.a.known(), pair.a.post.counts.received
    with capture_native_stderr():
        assert not tried(pair)
        if told:
            assert soon(lambda: watched(caplog))
    assert len(watched(caplog)) == (told is not None), "one line"
    assert all(line.startswith(told) for line in watched(caplog))
    assert pair.a.known() == before
    assert pair.a.post.counts.received == lost
    assert not pair.a.post.peers["c"].connected
    pair.work()


def test_the_right_way_in(pair):
    """What the others lack: so that it is not something else that keeps them out."""
    assert tls(lambda papers: CertificateFiles.in_folder(papers.folder, "c"))(pair)
    with greeted(pair):
        assert soon(lambda: pair.a.post.peers["c"].connected)
    assert soon(lambda: not pair.a.post.peers["c"].connected)
    pair.work()


def test_a_site_is_told_why_it_is_refused(pair):
    with Caller(pair.a.address, pair.papers, "c") as caller:
        heard, code = caller.say(hello("c", OTHER)).rest()
    assert code == grpc.StatusCode.OK
    (answer,) = heard
    assert answer.text == "c belongs to another network: algorithm.lr is not set here and 0.25 there"
    with Caller(pair.a.address, pair.papers, "stranger") as caller:
        assert caller.rest() == ([], grpc.StatusCode.PERMISSION_DENIED)


def test_it_calls_only_the_site_it_means(pair, papers, tmp_path, caplog):
    """An impostor with a good certificate, but another site's, at the address of c."""
    impostor = GrpcTransport(papers.identity("stranger"), "127.0.0.1:0", {}, MOST)
    impostor.open(pair.a.post.receiver)
    with capture_native_stderr():
        pair.a.lines._addresses["c"] = f"127.0.0.1:{impostor.port}"
        pair.a.lines.connect(["c"])
        assert soon(lambda: "connection refused: the peer expected another site" in watched(caplog))
    assert not pair.a.post.peers["c"].connected
    impostor.close()
    pair.work()


def lies():
    yield b"", "a message of version 0"
    yield b"\xff" * 100, "bytes that are not a message"
    yield hello("b"), "a message whose sender is b"
    yield hello("c", OTHER), "another network"
    yield message("c", MIX, to="b", tensors=value(1.0)), "a message whose receiver is b"
    yield message("c", MIX, 0, tensors={"0": torch.full((1,), 1.0)}).replace(b"\x80?", b"\xc0\x7f"), "not finite"


def test_lies_on_a_good_line(pair, caplog):
    before = pair.a.known()
    with greeted(pair) as caller:
        for number, (data, words) in enumerate(lies(), 1):
            answer = caller.say(data).read()
            assert answer.kind == MessageKind.REFUSED
            assert words in answer.text
            assert watched(caplog)[-1] == f"refused: {answer.text}"
            assert len(watched(caplog)) == number
        assert pair.a.known() == before
        pair.work()
        assert caller.say(hello("c")).read().kind == MessageKind.HELLO_REPLY, "the line is there still"


def test_a_message_that_is_too_large(pair, caplog):
    caplog.set_level(logging.INFO)
    before = pair.a.known()
    with greeted(pair) as caller:
        heard, code = caller.say(os.urandom(MOST + 1)).rest()
        assert heard == []
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert soon(lambda: not pair.a.post.peers["c"].connected)
    assert pair.a.known() == before
    pair.work()
    ended = [
        record.peer
        for record in caplog.records
        if f"connection ended (a message over {MOST} bytes would end it)" in record.message
    ]
    assert ended == ["c"]


def test_one_who_dials_and_says_nothing(pair, caplog, monkeypatch):
    monkeypatch.setattr(grpc_transport, "HELLO_TIMEOUT", 0.1)
    with Caller(pair.a.address, pair.papers, "c") as caller:
        assert caller.rest() == ([], grpc.StatusCode.OK)
    assert watched(caplog) == ["rejected: it connected and sent nothing"]
    pair.work()


def test_a_newer_line_takes_the_place_of_one_that_is_dead(pair):
    with greeted(pair) as half, greeted(pair) as whole:
        assert half.rest() == ([], grpc.StatusCode.OK)
        assert soon(lambda: pair.a.post.peers["c"].connections == 1)
        assert whole.say(b"garbage").read().kind == MessageKind.REFUSED
        pair.a.lines.reply("c", b"for c")
        assert next(whole.call) == b"for c"
    pair.work()


def test_a_flood_of_lies(pair, caplog):
    """The line is hung up, and the lines of others are not."""
    b_lines = pair.a.post.peers["b"].connections
    with greeted(pair) as caller:
        heard, code = caller.say(*[b"garbage"] * 1000).rest()
    assert code == grpc.StatusCode.OK
    assert len(heard) <= grpc_connection.MAX_REFUSED + 1
    assert len(watched(caplog)) == grpc_connection.MAX_REFUSED + 2
    assert watched(caplog)[-1].startswith("disconnected: it sent too many refused messages")
    assert [record.peer for record in caplog.records if "disconnected: " in record.getMessage()] == ["c"]
    pair.work()
    assert pair.a.post.peers["b"].connections == b_lines
    assert [record.peer for record in caplog.records if "disconnected: " in record.getMessage()] == ["c"]


def test_one_who_never_listens(pair, caplog, monkeypatch):
    """What waits for it is bounded."""
    monkeypatch.setattr(grpc_connection, "MAX_QUEUED", 8)
    with greeted(pair):
        for _ in range(100):
            pair.a.lines.reply("c", bytes(MOST // 2))
        pair.work()
        connection = pair.a.lines._incoming.get("c")
        assert connection is None or connection.queued <= 8


def test_a_line_that_breaks_is_dialled_again(pair, papers, tmp_path):
    """What was not answered is said again over the new one."""
    addresses = pair.a.lines._addresses
    pair.b.say(pair.a, 1)
    pair.b.lines.close()
    assert soon(lambda: not pair.a.post.peers["b"].connected)
    pair.a.say(pair.b, 1)
    again = GrpcTransport(papers.identity("b"), addresses["b"], addresses, MOST)
    pair.b.lines = again
    for part in (pair.b.post, pair.b.post.receiver, pair.b.post._outbox):
        part._transport = again
    again.open(pair.b.post.receiver)
    again.connect(["a"])
    assert pair.a.hear(pair.b, 1) == pair.b.hear(pair.a, 1) == 1.0


def test_an_address_that_is_taken(pair, papers, tmp_path):
    other = GrpcTransport(papers.identity("c"), pair.a.address, {})
    with pytest.raises(TacitError, match=f"cannot listen at {pair.a.address}: the address is in use"):
        other.open(pair.a.post.receiver)
    other.close()
    pair.work()


@pytest.mark.full
def test_a_thousand_ways_in(pair, caplog):
    accepted, tries = 0, 0
    with capture_native_stderr():
        for way in islice(cycle(WAYS), 1000):
            accepted, tries = accepted + WAYS[way][0](pair), tries + 1
            if tries % 100 == 0:
                pair.work()
    print(f"{accepted} accepted of {tries} tried")
    assert (accepted, tries) == (0, 1000)
    assert pair.a.post.counts.received == pair.b.post.counts.received == 11
