"""A site on this machine: its process, what it says of itself, and the end of its log."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tacit.errors import TacitError
from tacit.privacy.statement import Privacy
from tacit.sites.config import NetworkConfig, SiteConfig
from tacit.sites.status import SiteStatus
from tacit.sites.text import printable

_STARTS = 4  # times that a site which something kills is started at most
_LARGEST = 1 << 20  # bytes of an answer, or of a log in one look

Command = Callable[[Path], Sequence[str]]


def node(file: Path) -> list[str]:
    """What runs the site of a node.toml."""
    return [sys.executable, "-m", "tacit", "node", str(file)]


class SiteProcess:
    """One site: its process, and what it last said of itself at the `watch` address of its node.toml."""

    def __init__(self, folder: Path, agreed: NetworkConfig, command: Command, threads: int) -> None:
        self._file, self._log = folder / "node.toml", Log(folder / "log.jsonl")
        self.site, self._command = SiteConfig.load(self._file), command
        if self.site.metrics_address is None:
            raise TacitError(f'{self._file} has no metrics_address: add one, such as "127.0.0.1:9401"')
        self.name, self._address = self.site.name, self.site.metrics_address
        self.status = _unknown(self.site.name, agreed)
        self._environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
        self.process: subprocess.Popen[bytes] | None = None
        self.privacy: Privacy | None = None  # once it has ended
        self._code: int | None = None
        self._starts = 0

    @property
    def finished(self) -> bool:
        return self._code == 0 or (self._code is None and self.status.state == "finished")

    @property
    def failed(self) -> bool:
        return self._code not in (None, 0)

    @property
    def error(self) -> str:
        """Why it has failed, in its own words if it has any."""
        code = self._code or 0
        return self._log.error or (f"it was {_killed(code)}" if code < 0 else f"it ended with exit code {code}")

    def start(self) -> None:
        self._starts, self._code = self._starts + 1, None
        self.status = replace(self.status, state="starting", waiting_for=())
        with self._log.path.open("ab") as log:
            self.process = subprocess.Popen(
                list(self._command(self._file)),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # so that a terminal's Ctrl-C reaches it through here alone
            )

    def look(self) -> list[str]:
        """Ask it how it is, and start it again if something killed it; the lines of its log that are of note."""
        assert self.process is not None
        self._code = code = self.process.poll()
        news = self._log.news()
        if code is None:
            self.status = _asked(self._address, self.name) or self.status
        elif code < 0 and self._starts < _STARTS:
            news.append(f"{_killed(code)}, and started again")
            self.start()
        else:
            self.status = replace(self.status, state="failed" if code else "finished", waiting_for=())
            self.settle()
        return news

    def settle(self) -> None:
        """Take what it wrote at the end: nobody may have asked it since."""
        try:
            told = json.loads((self.site.state / "result.json").read_bytes())
            privacy = Privacy(**told["privacy"])
            reached = {"round": told["rounds"], "accuracy": told.get("accuracy"), "epsilon": privacy.guaranteed}
            counted = {"sent": told["messages"], "bytes_sent": told["bytes"]} if self.status.sent == 0 else {}
        except (OSError, ValueError, KeyError, TypeError):  # it has not come so far
            return
        if reached["round"] >= self.status.round:
            self.privacy, self.status = privacy, replace(self.status, **reached, **counted)


class Log:
    """The end of a site's log, as it grows: JSON, a line an event, and what Python itself writes."""

    def __init__(self, path: Path) -> None:
        self.path, self._rest = path, b""
        self._read = path.stat().st_size if path.exists() else 0
        self.error: str | None = None

    def news(self) -> list[str]:
        """What is new and of note: warnings and errors."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            data = file.read(_LARGEST)
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = [_event(line.decode(errors="backslashreplace")) for line in lines if line.strip()]
        for level, text in found:
            self.error = text if level in ("error", "critical") else self.error
        return [text for level, text in found if level not in ("debug", "info")]


def _event(line: str) -> tuple[str, str]:
    """Level and text of a line."""
    try:
        told = json.loads(line)
        level, parts = told["level"], [told["event"], *([told["error"]] if "error" in told else [])]
    except (ValueError, TypeError, KeyError, RecursionError):
        sentence = line.removeprefix("error: ")
        return ("warning" if sentence == line else "error"), printable(sentence, 400)
    return str(level), printable(": ".join(map(str, parts)), 400)


def _asked(address: str, name: str) -> SiteStatus | None:
    """What the site says of itself, if it is there and says something."""
    connection = http.client.HTTPConnection(address, timeout=2.0)
    try:
        connection.request("GET", "/healthz")
        status = SiteStatus.from_dict(json.loads(connection.getresponse().read(_LARGEST)))
        return status if status.site == name else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError, TacitError):
        return None
    finally:
        connection.close()


def _unknown(name: str, agreed: NetworkConfig) -> SiteStatus:
    """A site that has not said anything yet."""
    nothing = dict.fromkeys(("sent", "received", "bytes_sent", "bytes_received", "refused", "missed", "returned"), 0)
    return SiteStatus(
        site=name,
        network=agreed.name,
        digest="",
        algorithm=agreed.algorithm.name,
        state="starting",
        waiting_for=(),
        round=0,
        rounds=agreed.rounds,
        epsilon=None,
        delta=agreed.privacy.delta,
        planned=None,
        accuracy=None,
        peers={},
        **nothing,
    )


def _killed(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}"
