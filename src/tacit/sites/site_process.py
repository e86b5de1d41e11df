"""A site that runs on this machine as a child process."""

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
from tacit.privacy import Privacy
from tacit.sites.log_tail import LogTail
from tacit.sites.network_config import NetworkConfig
from tacit.sites.site_config import SiteConfig
from tacit.sites.status import SiteStatus

_MAX_STARTS = 4  # of a site that is killed again and again
_MAX_ANSWER_BYTES = 1 << 20

Command = Callable[[Path], Sequence[str]]


def node_command(file: Path) -> list[str]:
    """Return the command that runs the site of a node.toml."""
    return [sys.executable, "-m", "tacit", "node", str(file)]


class SiteProcess:
    """The process of one site, its last known status, and its log.

    The status is read from the `metrics_address` of node.toml while the process runs, and from its result.json once it
    has ended.

    Attributes:
        status: The last known status.
        privacy: The privacy statement of the finished site; None before.
    """

    def __init__(self, folder: Path, network: NetworkConfig, command: Command, threads: int) -> None:
        self._file, self._log = folder / "node.toml", LogTail(folder / "log.jsonl")
        self.site, self._command = SiteConfig.load(self._file), command
        if self.site.metrics_address is None:
            raise TacitError(f'{self._file} has no metrics_address: add one, such as "127.0.0.1:9401"')
        self.name, self._address = self.site.name, self.site.metrics_address
        self.status = _initial_status(self.name, network)
        self._environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
        self.process: subprocess.Popen[bytes] | None = None
        self.privacy: Privacy | None = None
        self._exit_code: int | None = None
        self._starts = 0

    @property
    def finished(self) -> bool:
        return self._exit_code == 0 or (self._exit_code is None and self.status.state == "finished")

    @property
    def failed(self) -> bool:
        return self._exit_code not in (None, 0)

    @property
    def error(self) -> str:
        """Why the site failed: the last error in its log, or how its process ended."""
        code = self._exit_code or 0
        return self._log.error or (_killed_by(code) if code < 0 else f"exit code {code}")

    def start(self) -> None:
        self._starts, self._exit_code = self._starts + 1, None
        self.status = replace(self.status, state="starting", waiting_for=())
        with self._log.path.open("ab") as log:
            self.process = subprocess.Popen(
                list(self._command(self._file)),
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # a terminal's Ctrl-C must reach it only through the supervisor
            )

    def poll(self) -> list[str]:
        """Update the status, and restart the process if it was killed; return new warnings and errors of its log."""
        assert self.process is not None
        self._exit_code = code = self.process.poll()
        warnings = self._log.new_warnings()
        if code is None:
            self.status = _fetch_status(self._address, self.name) or self.status
        elif code < 0 and self._starts < _MAX_STARTS:
            warnings.append(f"{_killed_by(code)}; restarted")
            self.start()
        else:
            self.status = replace(self.status, state="failed" if code else "finished", waiting_for=())
            self.read_result()
        return warnings

    def read_result(self) -> None:
        """Take the final numbers from result.json, if the site has written it: the last request may be older."""
        try:
            result = json.loads((self.site.state / "result.json").read_bytes())
            privacy = Privacy(**result["privacy"])
            final = {"round": result["rounds"], "accuracy": result.get("accuracy"), "epsilon": privacy.guaranteed}
            counts = {"sent": result["messages"], "bytes_sent": result["bytes"]} if self.status.sent == 0 else {}
        except (OSError, ValueError, KeyError, TypeError):
            return
        if final["round"] >= self.status.round:
            self.privacy, self.status = privacy, replace(self.status, **final, **counts)


def _fetch_status(address: str, name: str) -> SiteStatus | None:
    """Request /healthz; return None if there is no valid answer of this site."""
    connection = http.client.HTTPConnection(address, timeout=2.0)
    try:
        connection.request("GET", "/healthz")
        status = SiteStatus.from_dict(json.loads(connection.getresponse().read(_MAX_ANSWER_BYTES)))
        return status if status.site == name else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError, TacitError):
        return None
    finally:
        connection.close()


def _initial_status(name: str, network: NetworkConfig) -> SiteStatus:
    counts = dict.fromkeys(("sent", "received", "bytes_sent", "bytes_received", "refused", "missed", "returned"), 0)
    return SiteStatus(
        site=name,
        network=network.name,
        digest="",
        algorithm=network.algorithm.name,
        state="starting",
        waiting_for=(),
        round=0,
        rounds=network.rounds,
        epsilon=None,
        delta=network.privacy.delta,
        planned=None,
        accuracy=None,
        peers={},
        **counts,
    )


def _killed_by(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}"
