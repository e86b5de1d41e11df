"""Reads the end of a site's log while it grows."""

from __future__ import annotations

import json
from pathlib import Path

from tacit.sites.text import printable

_MAX_BYTES_PER_READ = 1 << 20
_MAX_EVENT_LENGTH = 400


class LogTail:
    """The lines that a site appends to its log from now on: JSON events, and text that Python itself writes.

    Attributes:
        error: The text of the last error, if there was one.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._incomplete = path, b""
        self._offset = path.stat().st_size if path.exists() else 0
        self.error: str | None = None

    def new_warnings(self) -> list[str]:
        """Return the warnings and errors since the last call."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read(_MAX_BYTES_PER_READ)
        self._offset += len(data)
        *lines, self._incomplete = (self._incomplete + data).split(b"\n")
        events = [_parse(line.decode(errors="backslashreplace")) for line in lines if line.strip()]
        for level, text in events:
            self.error = text if level in ("error", "critical") else self.error
        return [text for level, text in events if level not in ("debug", "info")]


def _parse(line: str) -> tuple[str, str]:
    """Return level and text of a line of the log."""
    try:
        event = json.loads(line)
        level, parts = event["level"], [event["event"], *([event["error"]] if "error" in event else [])]
    except (ValueError, TypeError, KeyError, RecursionError):
        message = line.removeprefix("error: ")
        return ("warning" if message == line else "error"), printable(message, _MAX_EVENT_LENGTH)
    return str(level), printable(": ".join(map(str, parts)), _MAX_EVENT_LENGTH)
