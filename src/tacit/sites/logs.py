"""Structured logs: one JSON object per event, always on one line, whatever text other parties send."""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from tacit.errors import TacitError
from tacit.sites.text import printable

_MAX_TEXT = 400  # characters of one text
_MAX_TRACEBACK = 40  # lines, from the end
_STANDARD_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}  # not given by `extra`


def configure_logging(site: str, file: Path | None = None, human: bool = False) -> logging.Handler:
    """Send log records of Tacit (INFO and above) and of libraries (WARNING and above) to stderr or to a file.

    Each line has time, level, site and event, then the fields given by `extra`. A second call replaces the first.

    Args:
        site: The site's name.
        file: Append to this file instead of stderr.
        human: Write plain text instead of JSON.
    """
    try:
        handler = _StderrHandler() if file is None else _LogFile(file, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise TacitError(f"Cannot write the log {file}: {error.strerror}") from None
    handler.setFormatter(_LineFormatter(site, human))
    reset_logging()
    logging.getLogger().addHandler(handler)
    logging.getLogger("tacit").setLevel(logging.INFO)
    logging.captureWarnings(True)
    return handler


def reset_logging() -> None:
    """Undo `configure_logging`."""
    for handler in list(logging.getLogger().handlers):
        if isinstance(handler, _StderrHandler | _LogFile):
            logging.getLogger().removeHandler(handler)
            handler.close()
    logging.getLogger("tacit").setLevel(logging.NOTSET)
    logging.captureWarnings(False)


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`, which `capture_native_stderr` replaces."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _LogFile(logging.FileHandler):
    """A type of its own, so that `reset_logging` removes no handler of others."""


class _LineFormatter(logging.Formatter):
    def __init__(self, site: str, human: bool) -> None:
        super().__init__()
        self._site, self._human = site, human

    def format(self, record: logging.LogRecord) -> str:
        facts = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:-6] + "Z",
            "level": record.levelname.lower(),
            "site": self._site,
            "event": _one_line(record.getMessage()),
        }
        extra = {key: _plain(value) for key, value in vars(record).items() if key not in _STANDARD_FIELDS}
        if record.exc_info and (error := record.exc_info[1]) is not None:
            extra["error"] = _one_line(f"{type(error).__name__}: {error}")
            if not self._human:
                extra["trace"] = _plain(self.formatException(record.exc_info).splitlines()[-_MAX_TRACEBACK:])
        if not self._human:
            return json.dumps(facts | {k: v for k, v in extra.items() if k not in facts}, ensure_ascii=False)
        fields = "  ".join(f"{key}={value}" for key, value in extra.items())
        text = f"{facts['time']} {facts['level']:<7} {self._site}: {facts['event']}"
        return f"{text}  ({fields})" if fields else text


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()), _MAX_TEXT)


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent on one line."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _one_line(str(value))
