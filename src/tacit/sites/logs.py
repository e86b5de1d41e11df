"""What a site says: one JSON object a line, and never more than a line, whatever strangers put into it."""

from __future__ import annotations

import faulthandler
import json
import logging
import math
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from tacit.errors import TacitError
from tacit.sites.text import printable

log = logging.getLogger(__name__)
_MOST = 400  # characters of a text in a line
_TRACE = 40  # lines of a trace, its last
_LONGEST = 16384  # bytes without an end that are taken for a line
_PACE = 10  # lines of native code in a second

# What gRPC writes of itself, and of connections that came to nothing.
_LINE = re.compile(r"(?P<level>[IWEF])\d{4} [\d:.]+ +\d+ [\w.-]+:\d+\] (?P<text>.*)")
_HANDSHAKE = re.compile(r"Handshake failed with error (?:\S+ .*:OPENSSL_internal:)?(?P<what>[^:]+)(?:: (?P<why>.*))?")
_WANTED = re.compile(r"No match found for server name: (?P<name>.*)")
_EMPTY = "Invalid certificate verification context"  # its words for nothing to add
_LEVELS = {"I": logging.INFO, "W": logging.WARNING}
_OWN = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}  # a record's fields that are not extra


def configure(site: str, file: Path | None = None, human: bool = False) -> logging.Handler:
    """Send what Tacit (from INFO on) and its libraries (from WARNING on) log to stderr, or to the end of `file`.

    A line has time, level, site and event, then the fields that `extra` gave; with `human`, the same as plain text.
    Another call takes the place of the one before.
    """
    try:
        handler = _Stderr() if file is None else _File(file, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise TacitError(f"cannot write the log {file}: {error.strerror}") from None
    handler.setFormatter(_Lines(site, human))
    reset()
    logging.getLogger().addHandler(handler)
    logging.getLogger("tacit").setLevel(logging.INFO)
    logging.captureWarnings(True)
    return handler


def reset() -> None:
    """Undo `configure`."""
    for handler in list(logging.getLogger().handlers):
        if isinstance(handler, _Stderr | _File):
            logging.getLogger().removeHandler(handler)
            handler.close()
    logging.getLogger("tacit").setLevel(logging.NOTSET)
    logging.captureWarnings(False)


class _Stderr(logging.StreamHandler[TextIO]):
    """Whatever stderr is at the time: `capture_native_stderr` changes it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _File(logging.FileHandler):
    pass


class _Lines(logging.Formatter):
    def __init__(self, site: str, human: bool) -> None:
        super().__init__()
        self._site, self._human = site, human

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "site": self._site,
            "event": printable(" ".join(record.getMessage().split()), _MOST),
        }
        extra = {key: _plain(value) for key, value in vars(record).items() if key not in _OWN}
        if record.exc_info and (error := record.exc_info[1]) is not None:
            extra |= {"error": _plain(f"{type(error).__name__}: {error}")}
            extra |= (
                {} if self._human else {"trace": _plain(self.formatException(record.exc_info).splitlines()[-_TRACE:])}
            )
        if not self._human:
            return json.dumps(facts | {k: v for k, v in extra.items() if k not in facts}, ensure_ascii=False)
        more = "  ".join(f"{key}={value}" for key, value in extra.items())
        return f"{facts['time']} {facts['level']:<7} {self._site}: {facts['event']}" + (f"  ({more})" if more else "")


def _plain(value: Any) -> Any:
    """A value that JSON has, and that fits a line."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return printable(" ".join(str(value).split()), _MOST)


@contextmanager
def capture_native_stderr() -> Iterator[None]:
    """Turn what native code writes to file descriptor 2, such as gRPC's refused connections, into records of the log.

    What Python writes to `sys.stderr` goes where it went before. The pipe between never makes a writer wait: native
    code may hold what its reader needs. Lines beyond 10 a second are counted, and told by their number.
    """
    sys.stderr.flush()
    ours, real = sys.stderr, os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    read, write = os.pipe()
    os.set_blocking(write, False)
    os.dup2(write, 2)
    os.close(write)
    if bare := _writes_to_2(ours):
        sys.stderr = real
    if alone := not faulthandler.is_enabled():  # last words of native code would end in the pipe
        faulthandler.enable(real)
    reader = threading.Thread(target=_read, args=(read,), name="native stderr", daemon=True)
    reader.start()
    try:
        yield
    finally:
        os.dup2(real.fileno(), 2)  # the last writer of the pipe is gone, and its reader ends
        reader.join(1.0)  # unless another process has it still
        if alone:
            faulthandler.disable()
        if bare:
            sys.stderr = ours
        real.close()


def _writes_to_2(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 2
    except (OSError, ValueError):
        return False


def _read(pipe: int) -> None:
    limit, rest = _Limit(), b""
    with selectors.DefaultSelector() as ready, os.fdopen(pipe, "rb", buffering=0) as source:
        ready.register(source, selectors.EVENT_READ)
        while True:
            if ready.select(limit.left):
                data = source.read(65536)
                *lines, rest = (rest + data).split(b"\n")
                if rest and (not data or len(rest) > _LONGEST):
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    if line.strip() and limit.admit():
                        _tell(line.decode(errors="backslashreplace"))
                if not data:
                    break
            limit.settle()
    limit.settle(at_once=True)


def _tell(line: str) -> None:
    """A line of native code as a record."""
    found = _LINE.fullmatch(line)
    text = found["text"] if found else line
    if refused := _HANDSHAKE.fullmatch(text):
        why = {} if refused["why"] in (None, _EMPTY) else {"why": refused["why"]}
        log.warning("a connection was refused: %s", refused["what"], extra=why)
    elif wanted := _WANTED.fullmatch(text):
        log.warning("a connection was for another site", extra={"wanted": wanted["name"]})
    else:
        level = _LEVELS.get(found["level"], logging.ERROR) if found else logging.WARNING
        log.log(level, "a library wrote: %s", text)


class _Limit:
    """So many in a second, and then how many more there were."""

    def __init__(self) -> None:
        self._began, self._count = time.monotonic(), 0

    def admit(self) -> bool:
        self.settle()
        self._count += 1
        return self._count <= _PACE

    def settle(self, at_once: bool = False) -> None:
        if not at_once and time.monotonic() < self._began + 1:
            return
        if (more := self._count - _PACE) > 0:
            log.warning("libraries wrote %d lines more in a second", more)
        self._began, self._count = time.monotonic(), 0

    @property
    def left(self) -> float | None:
        """Seconds until there is a number to tell."""
        return max(0.0, self._began + 1 - time.monotonic()) if self._count > _PACE else None
