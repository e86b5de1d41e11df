"""Every event is one line of JSON, whatever text other parties send."""

import json
import logging
import warnings

import pytest

from tacit.errors import TacitError
from tacit.sites.logs import configure_logging, reset_logging

log = logging.getLogger("tacit.sites.somewhere")


@pytest.fixture(autouse=True)
def reset_after_test():
    yield
    reset_logging()


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_event_is_one_line_with_its_fields(capsys):
    configure_logging("site-1")
    log.info("%s is back", "site-2", extra={"peer": "site-2", "round": 7, "of": ("a", 1.5, None), "site": "site-9"})
    log.debug("below the level")
    logging.getLogger("asyncio").warning("from a library")
    (own, library) = lines(capsys)
    time = own.pop("time")
    assert len(time) == len("2026-01-31T12:00:00.000Z")
    assert time.endswith("Z")
    event = {"level": "info", "site": "site-1", "event": "site-2 is back"}
    assert own == {**event, "peer": "site-2", "round": 7, "of": ["a", 1.5, None]}
    assert (library["level"], library["event"]) == ("warning", "from a library")


def test_foreign_text_stays_on_one_line(capsys):
    configure_logging("site-1")
    evil = 'x\n{"level": "critical"}\r\u2028\x1b[2J\u202e' + "y" * 9999
    log.warning("refused %s", evil, extra={"peer": evil, "value": float("nan"), "bytes": b"\n\xff", "all": [evil]})
    out = capsys.readouterr().err
    assert out.count("\n") == 1
    assert out.isascii() or out.strip().isprintable()
    assert len(out) < 3000
    event = json.loads(out, parse_constant=pytest.fail)
    assert event["event"].startswith('refused x {"level": "critical"} \\x1b[2J\\u202eyyy')
    assert event["value"] == "nan"


def test_exception_has_its_traceback_on_the_same_line(capsys):
    configure_logging("site-1")
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        log.exception("it broke")
    (event,) = lines(capsys)
    assert event["error"] == "ValueError: first second"
    assert event["trace"][0] == "Traceback (most recent call last):"
    configure_logging("site-1", human=True)
    log.error("it broke", exc_info=ValueError("so"), extra={"round": 3})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" error   site-1: it broke  (round=3  error=ValueError: so)")


def test_python_warnings_are_logged(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging("site-1")
        warnings.warn("beware\nof it", stacklevel=1)
        (event,) = lines(capsys)
        reset_logging()
    assert "UserWarning: beware of it" in event["event"]


def test_log_file_is_appended_to(tmp_path, capsys):
    for event in ("one", "two"):
        configure_logging("site-1", tmp_path / "log.jsonl")
        log.info(event)
    assert [json.loads(line)["event"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == ["one", "two"]
    assert capsys.readouterr().err == ""
    with pytest.raises(TacitError, match=r"Cannot write the log .*: Is a directory"):
        configure_logging("site-1", tmp_path)
