"""What a site says is one line an event, whatever strangers send; what gRPC writes of them is said so too."""

import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from concurrent import futures
from datetime import timedelta

import grpc
import pytest

from tacit.errors import TacitError
from tacit.sites import certificates, logs
from tacit.sites.certificates import CertificateFiles, create_site_certificate
from tacit.sites.identity import SiteIdentity

log = logging.getLogger("tacit.sites.somewhere")


@pytest.fixture(autouse=True)
def undone():
    yield
    logs.reset()


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_an_event_is_a_line_with_its_fields(capsys):
    logs.configure("site-1")
    log.info("%s is back", "site-2", extra={"peer": "site-2", "round": 7, "of": ("a", 1.5, None), "site": "site-9"})
    log.debug("not told")
    logging.getLogger("asyncio").warning("a library's")
    (one, other) = lines(capsys)
    time = one.pop("time")
    assert len(time) == len("2026-01-31T12:00:00.000Z")
    assert time.endswith("Z")
    event = {"level": "info", "site": "site-1", "event": "site-2 is back"}
    assert one == {**event, "peer": "site-2", "round": 7, "of": ["a", 1.5, None]}
    assert (other["level"], other["event"]) == ("warning", "a library's")


def test_strangers_text_stays_on_its_line(capsys):
    logs.configure("site-1")
    evil = 'x\n{"level": "critical"}\r\u2028\x1b[2J\u202e' + "y" * 9999
    log.warning("refused %s", evil, extra={"peer": evil, "value": float("nan"), "bytes": b"\n\xff", "all": [evil]})
    out = capsys.readouterr().err
    assert out.count("\n") == 1
    assert out.isascii() or out.strip().isprintable()
    assert len(out) < 3000
    said = json.loads(out, parse_constant=pytest.fail)
    assert said["event"].startswith('refused x {"level": "critical"} \\x1b[2J\\u202eyyy')
    assert said["value"] == "nan"


def test_an_error_has_its_trace_on_the_same_line(capsys):
    logs.configure("site-1")
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        log.exception("it broke")
    (said,) = lines(capsys)
    assert said["error"] == "ValueError: first second"
    assert said["trace"][0] == "Traceback (most recent call last):"
    logs.configure("site-1", human=True)
    log.error("it broke", exc_info=ValueError("so"), extra={"round": 3})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" error   site-1: it broke  (round=3  error=ValueError: so)")


def test_warnings_are_events_too(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logs.configure("site-1")
        warnings.warn("beware\nof it", stacklevel=1)
        (said,) = lines(capsys)
        logs.reset()
    assert "UserWarning: beware of it" in said["event"]


def test_a_file_can_take_it(tmp_path, capsys):
    for event in ("one", "two"):
        logs.configure("site-1", tmp_path / "log.jsonl")
        log.info(event)
    assert [json.loads(line)["event"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == ["one", "two"]
    assert capsys.readouterr().err == ""
    with pytest.raises(TacitError, match=r"cannot write the log .*: Is a directory"):
        logs.configure("site-1", tmp_path)


def told(caplog, count):
    """Records of native code, once there are so many."""
    until, found = time.monotonic() + 5, []
    while len(found) < count and time.monotonic() < until:
        time.sleep(0.01)
        found = [record for record in caplog.records if record.name == "tacit.sites.logs"]
    return [
        (record.levelname, record.message, getattr(record, "why", getattr(record, "wanted", ""))) for record in found
    ]


@pytest.fixture
def server(tmp_path):
    """site-b, to which anybody may come."""
    create_site_certificate(tmp_path, "site-b")
    pair = CertificateFiles.named(tmp_path, "site-b")
    server = grpc.server(futures.ThreadPoolExecutor(2))
    credentials = SiteIdentity.load(pair.certificate, pair.key, tmp_path / "authority.crt").server_credentials()
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_refused_connections_are_told(server, tmp_path, monkeypatch, caplog):
    def call(*own, name="site-b"):
        credentials = grpc.ssl_channel_credentials((tmp_path / "authority.crt").read_bytes(), *own)
        options = [("grpc.ssl_target_name_override", name), ("grpc.enable_retries", 0)]
        with grpc.secure_channel(server, credentials, options) as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary("/test/Name")(b"", timeout=5)

    def files(folder, name):
        return [
            path.read_bytes()
            for path in (CertificateFiles.named(folder, name).key, CertificateFiles.named(folder, name).certificate)
        ]

    create_site_certificate(tmp_path, "site-a")
    create_site_certificate(tmp_path / "elsewhere", "site-a")
    late = tmp_path / "late"
    late.mkdir()
    for path in tmp_path.glob("authority.*"):
        shutil.copy(path, late)
    monkeypatch.setattr(certificates, "_SITE_DAYS", -1)
    monkeypatch.setattr(certificates, "_SKEW", timedelta(days=3))
    create_site_certificate(late, "site-late")
    refused = "a connection was refused: "
    with logs.capture_native_stderr():
        for own in ([], files(tmp_path / "elsewhere", "site-a"), files(late, "site-late")):
            call(*own)
        call(*files(tmp_path, "site-a"), name="site-c")
        records = told(caplog, 4)
    assert records == [
        ("WARNING", refused + "PEER_DID_NOT_RETURN_A_CERTIFICATE", ""),
        ("WARNING", refused + "CERTIFICATE_VERIFY_FAILED", "unable to get local issuer certificate"),
        ("WARNING", refused + "CERTIFICATE_VERIFY_FAILED", "certificate has expired"),
        ("WARNING", "a connection was for another site", "site-c"),
    ]


def test_lines_of_native_code(caplog):
    with caplog.at_level(logging.INFO), logs.capture_native_stderr():
        os.write(2, b"I1116 10:41:52.167283     965 fork_posix.cc:71] skipping\n")
        os.write(2, b"E1116 10:41:52.167283     965 x.cc:1] bad\nhalf ")
        os.write(2, b"a line \x1b\xff\n\n")
        os.write(2, b"I1 Handshake failed with error SSL_ERROR_SYSCALL")
    assert told(caplog, 4) == [
        ("INFO", "a library wrote: skipping", ""),
        ("ERROR", "a library wrote: bad", ""),
        ("WARNING", "a library wrote: half a line \x1b\\xff", ""),
        ("WARNING", "a library wrote: I1 Handshake failed with error SSL_ERROR_SYSCALL", ""),
    ]


def test_a_flood_is_counted(caplog):
    with logs.capture_native_stderr():
        for i in range(500):
            os.write(2, b"flood %d\n" % i)
        told(caplog, 11)
    records = [record.getMessage() for record in caplog.records]
    left_out = [int(text.split()[2]) for text in records if "lines more" in text]
    assert left_out
    assert len(records) - len(left_out) + sum(left_out) == 500
    assert len(records) <= 11 * (len(left_out) + 1)


def test_nobody_waits_for_the_reader(monkeypatch):
    """Native code that holds the interpreter's lock and writes would wait for ever."""
    done = threading.Event()
    monkeypatch.setattr(logs, "_read", lambda pipe: (done.wait(5), os.close(pipe)))
    with logs.capture_native_stderr():
        while True:
            try:
                os.write(2, b"x" * 1000)
            except BlockingIOError:
                break
        done.set()


def test_python_keeps_its_stderr():
    program = """
import os, sys, logging
from tacit.sites import logs
logs.configure("site-1")
with logs.capture_native_stderr():
    logging.getLogger("tacit").info("logged")
    print("printed", file=sys.stderr)
    os.write(2, b"native\\n")
print("after", file=sys.stderr)
os.write(2, b"native after\\n")
with logs.capture_native_stderr():
    os.abort()
"""
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, timeout=60)
    first, printed, native, *rest = done.stderr.splitlines()
    assert json.loads(first)["event"] == "logged"
    assert printed == "printed"
    assert json.loads(native)["event"] == "a library wrote: native"
    assert rest[:3] == ["after", "native after", "Fatal Python error: Aborted"]
