"""Only the sites of the network can connect; every other attempt is logged in one line and changes nothing."""

import socket
import ssl
from itertools import cycle, islice

import grpc
import pytest

from tacit.sites.certificates import CertificateFiles
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.message import MessageKind
from tacit.sites.native_stderr import capture_native_stderr

from .grpc_sites import MAX_BYTES, OTHER_DESCRIPTION, RawClient, hello, message, wait_until, warnings
from .manual_sites import MIX, number

# Each attempt is a function of the pair of sites. It returns whether site a sent anything that is meant for peers only.


def tcp(data, timeout=10.0):
    """Connect without TLS."""

    def attempt(pair):
        host, port = pair.a.address.split(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.settimeout(timeout)
            try:
                connection.sendall(data)
                return connection.recv(100)[:1] not in (b"", b"\x15")  # a TLS alert does not count
            except OSError:
                return False

    return attempt


def tls(find_files):
    """Connect with TLS and the certificate that `find_files` returns, or without a certificate."""

    def attempt(pair):
        context = ssl.create_default_context(cafile=str(pair.certs.authority))
        context.set_alpn_protocols(["h2"])
        files = find_files(pair.certs)
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        host, port = pair.a.address.split(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.settimeout(10.0)
            try:
                with context.wrap_socket(connection, server_hostname="a") as wrapped:
                    wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
                    return wrapped.recv(100) != b""
            except OSError:  # includes TLS errors
                return False

    return attempt


def call(name, first_message):
    """Connect with gRPC and a valid certificate, and send `first_message`."""

    def attempt(pair):
        with RawClient(pair.a.address, pair.certs, name) as client:
            received, _ = client.send(first_message).read_all()
        return any(one.kind != MessageKind.REFUSED for one in received)

    return attempt


REFUSED = "connection refused: "
ANOTHER_NETWORK = "c belongs to another network: algorithm.lr is not set here and 0.25 there"
ATTEMPTS = {  # attempt, and the start of the line in the log
    "no data": (tcp(b"", 0.2), None),
    "plain text": (tcp(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), REFUSED),
    "plain HTTP/2": (tcp(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)), REFUSED),
    "garbage": (tcp(bytes(range(256)) * 8), REFUSED),
    "incomplete handshake": (tcp(bytes.fromhex("1603010200010001fc0303") + bytes(40), 0.2), None),
    "no certificate": (tls(lambda certs: None), REFUSED + "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
    "another authority": (
        tls(lambda certs: CertificateFiles.in_folder(certs.other_authority, "b")),
        REFUSED + "CERTIFICATE_VERIFY_FAILED",
    ),
    "expired certificate": (
        tls(lambda certs: CertificateFiles.in_folder(certs.expired, "b")),
        REFUSED + "CERTIFICATE_VERIFY_FAILED",
    ),
    "stranger": (
        call("stranger", hello("b")),
        "rejected: its certificate is valid, but it is not a site of this network",
    ),
    "name of another site": (call("c", hello("b")), "refused: c sent a message whose sender is b"),
    "another network": (call("c", hello("c", OTHER_DESCRIPTION)), f"refused: {ANOTHER_NETWORK}"),
    "value before HELLO": (call("c", message("c", MIX, tensors=number(1.0))), "refused: c sent MIX before HELLO"),
    "not a message": (call("c", b"garbage"), "refused: c sent bytes that are not a message"),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_connection_is_refused(grpc_pair, caplog, name):
    attempt, log_line = ATTEMPTS[name]
    before, received = grpc_pair.a.journal_rows(), grpc_pair.a.exchange.counts.received
    with capture_native_stderr():
        assert not attempt(grpc_pair)
        if log_line:
            assert wait_until(lambda: warnings(caplog))
    assert len(warnings(caplog)) == (log_line is not None)
    assert all(line.startswith(log_line) for line in warnings(caplog))
    assert grpc_pair.a.journal_rows() == before
    assert grpc_pair.a.exchange.counts.received == received
    assert not grpc_pair.a.peers["c"].connected
    grpc_pair.check_round()


def test_site_with_a_valid_certificate_can_connect(grpc_pair):
    """The attempts above fail for their stated reason, not for another one."""
    assert tls(lambda certs: CertificateFiles.in_folder(certs.folder, "c"))(grpc_pair)
    with grpc_pair.connected_client():
        assert wait_until(lambda: grpc_pair.a.peers["c"].connected)
    assert wait_until(lambda: not grpc_pair.a.peers["c"].connected)
    grpc_pair.check_round()


def test_refused_site_receives_the_reason(grpc_pair):
    with RawClient(grpc_pair.a.address, grpc_pair.certs, "c") as client:
        received, code = client.send(hello("c", OTHER_DESCRIPTION)).read_all()
    assert code == grpc.StatusCode.OK
    (reply,) = received
    assert reply.text == ANOTHER_NETWORK
    with RawClient(grpc_pair.a.address, grpc_pair.certs, "stranger") as client:
        assert client.read_all() == ([], grpc.StatusCode.PERMISSION_DENIED)


def test_server_with_the_certificate_of_another_site_is_refused(grpc_pair, caplog):
    """An impostor listens at the address of c with a valid certificate, but not with that of c."""
    impostor = GrpcTransport(grpc_pair.certs.identity("stranger"), "127.0.0.1:0", {}, MAX_BYTES)
    impostor.open(grpc_pair.a.exchange.receiver)
    with capture_native_stderr():
        grpc_pair.a.transport._addresses["c"] = f"127.0.0.1:{impostor.port}"
        grpc_pair.a.transport.connect(["c"])
        assert wait_until(lambda: "connection refused: the peer expected another site" in warnings(caplog))
    assert not grpc_pair.a.peers["c"].connected
    impostor.close()
    grpc_pair.check_round()


@pytest.mark.full
def test_a_thousand_refused_connections(grpc_pair):
    accepted, attempts = 0, 0
    with capture_native_stderr():
        for name in islice(cycle(ATTEMPTS), 1000):
            accepted, attempts = accepted + ATTEMPTS[name][0](grpc_pair), attempts + 1
            if attempts % 100 == 0:
                grpc_pair.check_round()
    print(f"{accepted} of {attempts} attempts accepted")
    assert (accepted, attempts) == (0, 1000)
    assert grpc_pair.a.exchange.counts.received == grpc_pair.b.exchange.counts.received == 11
