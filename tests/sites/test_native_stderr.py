"""What native code writes to stderr is logged, without blocking it and without touching Python's stderr."""

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent import futures
from datetime import timedelta

import grpc
import pytest

from tacit.sites import certificates, native_stderr
from tacit.sites.certificates import CertificateFiles, create_site_certificate
from tacit.sites.identity import SiteIdentity
from tacit.sites.native_stderr import capture_native_stderr


def records(caplog, count):
    """Level, message and reason of the captured records, once there are `count` of them."""
    deadline, found = time.monotonic() + 5, []
    while len(found) < count and time.monotonic() < deadline:
        time.sleep(0.01)
        found = [record for record in caplog.records if record.name == "tacit.sites.native_stderr"]
    return [(each.levelname, each.message, getattr(each, "reason", getattr(each, "expected", ""))) for each in found]


@pytest.fixture
def server(tmp_path):
    """The address of site-b, which requires client certificates."""
    files = create_site_certificate(tmp_path, "site-b")
    server = grpc.server(futures.ThreadPoolExecutor(2))
    credentials = SiteIdentity.load(files.certificate, files.key, tmp_path / "authority.crt").server_credentials()
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def expired_certificate(folder, monkeypatch):
    """The folder of a site whose certificate, from the authority in `folder`, has expired."""
    late = folder / "late"
    late.mkdir()
    for path in folder.glob("authority.*"):
        shutil.copy(path, late)
    monkeypatch.setattr(certificates, "_SITE_DAYS", -1)
    monkeypatch.setattr(certificates, "_CLOCK_SKEW", timedelta(days=3))
    create_site_certificate(late, "site-late")
    return late


def test_refused_connections_are_logged(server, tmp_path, monkeypatch, caplog):
    def call(*own, name="site-b"):
        credentials = grpc.ssl_channel_credentials((tmp_path / "authority.crt").read_bytes(), *own)
        options = [("grpc.ssl_target_name_override", name), ("grpc.enable_retries", 0)]
        with grpc.secure_channel(server, credentials, options) as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary("/test/Name")(b"", timeout=5)

    def key_and_certificate(folder, name):
        files = CertificateFiles.in_folder(folder, name)
        return [files.key.read_bytes(), files.certificate.read_bytes()]

    create_site_certificate(tmp_path, "site-a")
    create_site_certificate(tmp_path / "elsewhere", "site-a")
    late = expired_certificate(tmp_path, monkeypatch)
    with capture_native_stderr():
        call()
        call(*key_and_certificate(tmp_path / "elsewhere", "site-a"))
        call(*key_and_certificate(late, "site-late"))
        call(*key_and_certificate(tmp_path, "site-a"), name="site-c")
        logged = records(caplog, 4)
    assert logged == [
        ("WARNING", "connection refused: PEER_DID_NOT_RETURN_A_CERTIFICATE", ""),
        ("WARNING", "connection refused: CERTIFICATE_VERIFY_FAILED", "unable to get local issuer certificate"),
        ("WARNING", "connection refused: CERTIFICATE_VERIFY_FAILED", "certificate has expired"),
        ("WARNING", "connection refused: the peer expected another site", "site-c"),
    ]


def test_other_lines_are_logged_with_their_level(caplog):
    with caplog.at_level(logging.INFO), capture_native_stderr():
        os.write(2, b"I1116 10:41:52.167283     965 fork_posix.cc:71] skipping\n")
        os.write(2, b"E1116 10:41:52.167283     965 x.cc:1] bad\nhalf ")
        os.write(2, b"a line \x1b\xff\n\n")
        os.write(2, b"I1 Handshake failed with error SSL_ERROR_SYSCALL")
    assert records(caplog, 4) == [
        ("INFO", "library output: skipping", ""),
        ("ERROR", "library output: bad", ""),
        ("WARNING", "library output: half a line \x1b\\xff", ""),
        ("WARNING", "library output: I1 Handshake failed with error SSL_ERROR_SYSCALL", ""),
    ]


def test_excess_lines_are_counted(caplog):
    with capture_native_stderr():
        for i in range(500):
            os.write(2, b"flood %d\n" % i)
        records(caplog, 11)
    messages = [record.getMessage() for record in caplog.records]
    excess = [int(text.split()[0]) for text in messages if "more lines" in text]
    assert excess
    assert len(messages) - len(excess) + sum(excess) == 500
    assert len(messages) <= 11 * (len(excess) + 1)


def test_writers_are_not_blocked(monkeypatch):
    """Native code that holds the interpreter's lock while it writes would wait for ever."""
    done = threading.Event()
    monkeypatch.setattr(native_stderr, "_read_lines", lambda pipe: (done.wait(5), os.close(pipe)))
    with capture_native_stderr():
        while True:
            try:
                os.write(2, b"x" * 1000)
            except BlockingIOError:
                break
        done.set()


def test_python_stderr_is_unchanged():
    program = """
import os, sys, logging
from tacit.sites import capture_native_stderr, configure_logging
configure_logging("site-1")
with capture_native_stderr():
    logging.getLogger("tacit").info("logged")
    print("printed", file=sys.stderr)
    os.write(2, b"native\\n")
print("after", file=sys.stderr)
os.write(2, b"native after\\n")
with capture_native_stderr():
    os.abort()
"""
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=60)
    first, printed, native, *rest = done.stderr.splitlines()
    assert json.loads(first)["event"] == "logged"
    assert printed == "printed"
    assert json.loads(native)["event"] == "library output: native"
    assert rest[:3] == ["after", "native after", "Fatal Python error: Aborted"]
