"""Sites with gRPC connections on this machine, valid and invalid certificates, and clients that send anything."""

import logging
import shutil
import threading
import time
from datetime import timedelta

import grpc
import pytest

from tacit.sites import certificates
from tacit.sites.certificates import CertificateFiles, create_site_certificate
from tacit.sites.exchange import Exchange
from tacit.sites.grpc_options import METHOD, SERVICE
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.identity import SiteIdentity
from tacit.sites.journal import Journal
from tacit.sites.message import Link, Message, MessageKind, Operation
from tacit.sites.wire import decode, encode

from .manual_sites import MIX, ONE_NUMBER, describe, number

SITES = ("a", "b", "c")
DESCRIPTION = describe(SITES)
OTHER_DESCRIPTION = describe(SITES, algorithm={"name": "sgp", "lr": 0.25})
MAX_BYTES = 1 << 20


class Certificates:
    """Certificates of the sites and of a stranger; for b also one of another authority and one that has expired."""

    def __init__(self, folder):
        self.folder, self.other_authority, self.expired = folder, folder / "other", folder / "expired"
        for name in (*SITES, "stranger"):
            create_site_certificate(folder, name)
        create_site_certificate(self.other_authority, "b")
        self.expired.mkdir()
        for path in folder.glob("authority.*"):
            shutil.copy(path, self.expired)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(certificates, "_SITE_DAYS", -1)
            patch.setattr(certificates, "_CLOCK_SKEW", timedelta(days=3))
            create_site_certificate(self.expired, "b")
        self.authority = folder / "authority.crt"

    def identity(self, name):
        files = CertificateFiles.in_folder(self.folder, name)
        return SiteIdentity.load(files.certificate, files.key, self.authority)


class GrpcSite:
    """A site with a gRPC transport, in a network that does not tolerate dropout."""

    def __init__(self, folder, certs, name, addresses):
        self.name = name
        self.journal = Journal(folder / f"{name}.sqlite", DESCRIPTION.digest)
        self.transport = GrpcTransport(certs.identity(name), "127.0.0.1:0", addresses, MAX_BYTES)
        self.exchange = Exchange(
            self.journal,
            DESCRIPTION,
            name,
            self.transport,
            lambda operation, sender: True,
            tolerates_dropout=False,
            max_bytes=MAX_BYTES,
        )
        self.peers = self.exchange.peers
        self.transport.open(self.exchange.receiver)
        self.address = addresses[name] = f"127.0.0.1:{self.transport.port}"

    def send(self, other, round_):
        self.exchange.begin(round_)
        self.exchange.send(Operation(round_, MIX, 0), {other.name: number(float(round_))})

    def receive(self, other, round_):
        received, _ = self.exchange.receive(Operation(round_, MIX, 0), {other.name: ONE_NUMBER}, 5.0)
        return float(received[other.name]["0"])

    def journal_rows(self):
        tables = ("operation", "outbox", "inbox", "checkpoint")
        with self.journal._disk():
            return {table: self.journal._db.execute(f"SELECT * FROM {table}").fetchall() for table in tables}

    def close(self):
        self.transport.close()
        self.journal.close()


class GrpcPair:
    """Two sites: a, which the tests attack, and b."""

    def __init__(self, folder, certs):
        addresses = {}
        self.certs, self.a, self.b = certs, *(GrpcSite(folder, certs, name, addresses) for name in "ab")
        self._round = 0

    def check_round(self):
        """Run a round between the two sites: nothing that happened before prevents it."""
        for site, other in ((self.a, self.b), (self.b, self.a)):
            site.send(other, self._round)
        assert self.a.receive(self.b, self._round) == self.b.receive(self.a, self._round) == self._round
        assert self.a.exchange.wait_for_acknowledgements(5.0) == self.b.exchange.wait_for_acknowledgements(5.0) == set()
        self._round += 1

    def connected_client(self, name="c"):
        """Return a client that has completed the handshake with a."""
        client = RawClient(self.a.address, self.certs, name).send(hello(name))
        assert [client.read().kind for _ in range(2)] == [MessageKind.HELLO, MessageKind.HELLO_REPLY]
        return client

    def close(self):
        self.a.close()
        self.b.close()


class RawClient:
    """A client with a valid certificate that connects to a and sends any bytes."""

    def __init__(self, address, certs, name):
        files = CertificateFiles.in_folder(certs.folder, name)
        key, certificate = files.key.read_bytes(), files.certificate.read_bytes()
        credentials = grpc.ssl_channel_credentials(certs.authority.read_bytes(), key, certificate)
        options = [("grpc.ssl_target_name_override", "a"), ("grpc.enable_retries", 0)]
        options += [("grpc.max_send_message_length", -1)]
        self.name, self._channel = name, grpc.secure_channel(address, credentials, options)
        self._outgoing, self._changed = [], threading.Condition()
        self._closed = False
        self.call = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")(self._requests(), timeout=20)

    def send(self, *data):
        with self._changed:
            self._outgoing.extend(data)
            self._changed.notify()
        return self

    def read(self):
        """Return the next message."""
        return decode(next(self.call), Link(DESCRIPTION.digest, "a", self.name))

    def read_all(self):
        """Return the messages until the end of the stream, and its status code."""
        received = []
        try:
            for data in self.call:
                received.append(decode(data, Link(DESCRIPTION.digest, "a", self.name)))
        except grpc.RpcError as error:
            return received, error.code()
        return received, self.call.code()

    def close(self):
        with self._changed:
            self._closed = True
            self._changed.notify()
        self.call.cancel()
        self._channel.close()

    def _requests(self):
        while True:
            with self._changed:
                while not self._outgoing and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                data = self._outgoing.pop(0)
            yield data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def message(sender, kind, round_=0, description=DESCRIPTION, to="a", **fields):
    return encode(Message(Link(description.digest, sender, to), kind, round_, **fields))


def hello(sender, description=DESCRIPTION):
    return message(sender, MessageKind.HELLO, description=description, text=description.text)


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def wait_until(condition, seconds=5.0):
    """Return whether the condition became true in time."""
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.01)
    return condition()
