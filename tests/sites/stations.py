"""Sites with real lines on this machine, papers good and bad, and callers who say what they like."""

import shutil
import threading
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

from .cases import MIX, ONE, described, value

SITES = ("a", "b", "c")
DESCRIPTION = described(SITES)
MOST = 1 << 20


class Papers:
    """Certificates, good and bad: made once."""

    def __init__(self, folder):
        self.folder, self.elsewhere, self.late = folder, folder / "elsewhere", folder / "late"
        for name in (*SITES, "stranger"):
            create_site_certificate(folder, name)
        create_site_certificate(self.elsewhere, "b")
        self.late.mkdir()
        for path in folder.glob("authority.*"):
            shutil.copy(path, self.late)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(certificates, "_SITE_DAYS", -1)
            patch.setattr(certificates, "_CLOCK_SKEW", timedelta(days=3))
            create_site_certificate(self.late, "b")
        self.authority = folder / "authority.crt"

    def identity(self, name):
        pair = CertificateFiles.in_folder(self.folder, name)
        return SiteIdentity.load(pair.certificate, pair.key, self.authority)

    def pem(self, folder, name):
        pair = CertificateFiles.in_folder(folder, name)
        return [path.read_bytes() for path in (pair.key, pair.certificate)]


class Station:
    """A site with real lines, at which everyone is waited for."""

    def __init__(self, folder, papers, name, addresses):
        self.name = name
        self.journal = Journal(folder / f"{name}.sqlite", DESCRIPTION.digest)
        self.lines = GrpcTransport(papers.identity(name), "127.0.0.1:0", addresses, MOST)
        self.post = Exchange(
            self.journal,
            DESCRIPTION,
            name,
            self.lines,
            lambda verb, sender: True,
            tolerates_dropout=False,
            max_bytes=MOST,
        )
        self.lines.open(self.post.receiver)
        self.address = addresses[name] = f"127.0.0.1:{self.lines.port}"

    def say(self, other, round_):
        self.post.begin(round_)
        self.post.send(Operation(round_, MIX, 0), {other.name: value(float(round_))})

    def hear(self, other, round_):
        heard, _ = self.post.receive(Operation(round_, MIX, 0), {other.name: ONE}, 5.0)
        return float(heard[other.name]["0"])

    def known(self):
        """Everything in the journal."""
        tables = ("operation", "outbox", "inbox", "checkpoint")
        with self.journal._disk():
            return {table: self.journal._db.execute(f"SELECT * FROM {table}").fetchall() for table in tables}

    def close(self):
        self.lines.close()
        self.journal.close()


class Both:
    """The site that is attacked, and an honest one."""

    def __init__(self, folder, papers):
        addresses = {}
        self.papers, self.a, self.b = papers, *(Station(folder, papers, name, addresses) for name in "ab")
        self._round = 0

    def work(self):
        """A round between them, whatever has happened."""
        for one, other in ((self.a, self.b), (self.b, self.a)):
            one.say(other, self._round)
        assert self.a.hear(self.b, self._round) == self.b.hear(self.a, self._round) == self._round
        self.a.post.wait_for_acknowledgements(5.0)
        self.b.post.wait_for_acknowledgements(5.0)
        assert self.a.journal.pending_receivers == self.b.journal.pending_receivers == set()
        self._round += 1

    def close(self):
        self.a.close()
        self.b.close()


def message(sender, kind, round_=0, description=DESCRIPTION, to="a", **facts):
    return encode(Message(Link(description.digest, sender, to), kind, round_, **facts))


def hello(sender, description=DESCRIPTION):
    return message(sender, MessageKind.HELLO, description=description, text=description.text)


class Caller:
    """Someone with a certificate that is good who dials a site and says what it likes."""

    def __init__(self, address, papers, name, folder=None, target="a"):
        key, certificate = papers.pem(folder or papers.folder, name)
        credentials = grpc.ssl_channel_credentials(papers.authority.read_bytes(), key, certificate)
        options = [("grpc.ssl_target_name_override", target), ("grpc.enable_retries", 0)]
        options += [("grpc.max_send_message_length", -1)]
        self.name, self._channel = name, grpc.secure_channel(address, credentials, options)
        self._said, self._more = [], threading.Condition()
        self._ended = False
        self.call = self._channel.stream_stream(f"/{SERVICE}/{METHOD}")(self._saying(), timeout=20)

    def say(self, *data):
        with self._more:
            self._said.extend(data)
            self._more.notify()
        return self

    def read(self):
        """The next that is said to it."""
        return decode(next(self.call), Link(DESCRIPTION.digest, "a", self.name))

    def rest(self):
        """All that is said until the other hangs up, and how it does."""
        heard = []
        try:
            for data in self.call:
                heard.append(decode(data, Link(DESCRIPTION.digest, "a", self.name)))
        except grpc.RpcError as error:
            return heard, error.code()
        return heard, self.call.code()

    def close(self):
        with self._more:
            self._ended = True
            self._more.notify()
        self.call.cancel()
        self._channel.close()

    def _saying(self):
        while True:
            with self._more:
                while not self._said and not self._ended:
                    self._more.wait()
                if self._ended:
                    return
                data = self._said.pop(0)
            yield data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def greeted(pair, sender="c"):
    """A caller that has been let in."""
    caller = Caller(pair.a.address, pair.papers, sender).say(hello(sender))
    assert [caller.read().kind for _ in range(2)] == [MessageKind.HELLO, MessageKind.HELLO_REPLY]
    return caller
