"""Turns what native libraries such as gRPC write to file descriptor 2 into log records."""

from __future__ import annotations

import faulthandler
import logging
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

log = logging.getLogger(__name__)
_MAX_LINE_BYTES = 16384  # a longer text without a line break is split
_MAX_LINES_PER_SECOND = 10

# Lines of gRPC's own log, and its messages about failed TLS handshakes.
_GRPC_LINE = re.compile(r"(?P<level>[IWEF])\d{4} [\d:.]+ +\d+ [\w.-]+:\d+\] (?P<text>.*)")
_HANDSHAKE_FAILED = re.compile(
    r"Handshake failed with error (?:\S+ .*:OPENSSL_internal:)?(?P<error>[^:]+)(?:: (?P<reason>.*))?"
)
_WRONG_SERVER_NAME = re.compile(r"No match found for server name: (?P<name>.*)")
_NO_REASON = "Invalid certificate verification context"  # gRPC's text if there is no reason to report
_LEVELS = {"I": logging.INFO, "W": logging.WARNING}


@contextmanager
def capture_native_stderr() -> Iterator[None]:
    """Log what native code writes to file descriptor 2; what Python writes to `sys.stderr` still goes there.

    The pipe in between never blocks a writer: native code may hold a lock that the reader needs. Lines beyond 10 per
    second are counted and reported as a number.
    """
    sys.stderr.flush()
    python_stderr = sys.stderr
    original = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    os.dup2(write_end, 2)
    os.close(write_end)
    if redirected := _writes_to_fd_2(python_stderr):
        sys.stderr = original
    if enabled_here := not faulthandler.is_enabled():  # else the traceback of a native crash is lost in the pipe
        faulthandler.enable(original)
    reader = threading.Thread(target=_read_lines, args=(read_end,), name="native stderr", daemon=True)
    reader.start()
    try:
        yield
    finally:
        os.dup2(original.fileno(), 2)  # closes the last write end of the pipe, which ends the reader
        reader.join(1.0)  # a child process may still hold a write end
        if enabled_here:
            faulthandler.disable()
        if redirected:
            sys.stderr = python_stderr
        original.close()


def _writes_to_fd_2(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 2
    except (OSError, ValueError):
        return False


def _read_lines(pipe: int) -> None:
    limit, rest = _RateLimit(), b""
    with selectors.DefaultSelector() as ready, os.fdopen(pipe, "rb", buffering=0) as source:
        ready.register(source, selectors.EVENT_READ)
        while True:
            if ready.select(limit.seconds_to_report):
                data = source.read(65536)
                *lines, rest = (rest + data).split(b"\n")
                if rest and (not data or len(rest) > _MAX_LINE_BYTES):
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    if line.strip() and limit.admit():
                        _log_line(line.decode(errors="backslashreplace"))
                if not data:
                    break
            limit.report_excess()
    limit.report_excess(now=True)


def _log_line(line: str) -> None:
    found = _GRPC_LINE.fullmatch(line)
    text = found["text"] if found else line
    if failed := _HANDSHAKE_FAILED.fullmatch(text):
        reason = {} if failed["reason"] in (None, _NO_REASON) else {"reason": failed["reason"]}
        log.warning("connection refused: %s", failed["error"], extra=reason)
    elif wrong := _WRONG_SERVER_NAME.fullmatch(text):
        log.warning("connection refused: the peer expected another site", extra={"expected": wrong["name"]})
    else:
        level = _LEVELS.get(found["level"], logging.ERROR) if found else logging.WARNING
        log.log(level, "library output: %s", text)


class _RateLimit:
    """Admits a number of lines per second, and reports how many more there were."""

    def __init__(self) -> None:
        self._second_began, self._count = time.monotonic(), 0

    def admit(self) -> bool:
        self.report_excess()
        self._count += 1
        return self._count <= _MAX_LINES_PER_SECOND

    def report_excess(self, now: bool = False) -> None:
        """Log the excess of the last second once it is over, or at once with `now`."""
        if not now and time.monotonic() < self._second_began + 1:
            return
        if (excess := self._count - _MAX_LINES_PER_SECOND) > 0:
            log.warning("%d more lines of library output in one second", excess)
        self._second_began, self._count = time.monotonic(), 0

    @property
    def seconds_to_report(self) -> float | None:
        """Seconds until there is an excess to report; None if there is none."""
        return max(0.0, self._second_began + 1 - time.monotonic()) if self._count > _MAX_LINES_PER_SECOND else None
