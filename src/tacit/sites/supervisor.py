"""Runs all sites of a network on one machine: starts, monitors and stops one process per site."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit.privacy import Privacy
from tacit.sites.network_config import NetworkConfig
from tacit.sites.site_process import Command, SiteProcess, node_command

_POLL_INTERVAL = 0.5  # seconds
_STOP_TIMEOUT = 20.0  # seconds for a site to stop before it is killed
_RECENT_WARNINGS = 5


class Supervisor:
    """The sites of a folder that contains network.toml, and NAME/node.toml for every site.

    `go` runs them until all have finished, one has failed, or Ctrl-C; then `result` summarises the run.

    Attributes:
        warnings: Warnings and errors of all sites since the last update.
        recent_warnings: The last of all warnings and errors.
        finished: Whether all sites have finished.
    """

    def __init__(self, folder: Path, command: Command = node_command) -> None:
        self.folder, self.network_config = folder, NetworkConfig.load(folder / "network.toml")
        self.warnings: list[str] = []
        self.recent_warnings: deque[str] = deque(maxlen=_RECENT_WARNINGS)
        names = self.network_config.names
        threads = max(1, (os.cpu_count() or 1) // len(names))
        self.sites = [SiteProcess(folder / name, self.network_config, command, threads) for name in names]
        self.finished, self._stop_requests = False, 0

    @property
    def interrupted(self) -> bool:
        """Whether the run was stopped by a signal."""
        return self._stop_requests > 0

    def go(self, on_update: Callable[[Supervisor], None] = lambda _: None) -> None:
        """Run all sites. `on_update` is called after every poll, twice per second."""
        with ThreadPoolExecutor(len(self.sites)) as pool, self._signals_handled():
            try:
                for site in self.sites:
                    site.start()
                while not self._should_stop():
                    time.sleep(_POLL_INTERVAL)
                    for site, warnings in zip(self.sites, pool.map(SiteProcess.poll, self.sites), strict=True):
                        self.warnings += [f"{site.name}: {text}" for text in warnings]
                    self._update(on_update)
                self.finished = all(site.finished for site in self.sites)
                if self.interrupted and not self.finished:
                    self.warnings += ["Stopping all sites; press Ctrl-C again to kill them"]
                    self._update(on_update)
            finally:
                self._stop_all()
        for site in self.sites:
            site.read_result()
        self._update(on_update)

    def _update(self, on_update: Callable[[Supervisor], None]) -> None:
        self.recent_warnings.extend(self.warnings)
        on_update(self)
        self.warnings = []

    def _should_stop(self) -> bool:
        ended = any(site.failed for site in self.sites) or all(site.finished for site in self.sites)
        return ended or self.interrupted

    def _stop_all(self) -> None:
        """Wait for finished sites to exit, interrupt the others, and kill those that do not stop."""
        processes = [site.process for site in self.sites if site.process is not None]
        if self.finished:
            self._wait(processes)
        for process in processes:
            process.send_signal(signal.SIGINT)
        self._wait(processes)
        for process in processes:
            process.kill()
            process.wait()

    def _wait(self, processes: Iterable[subprocess.Popen[bytes]]) -> None:
        """Wait until all have exited, the timeout is over, or a further stop is requested."""
        deadline, requests = time.monotonic() + _STOP_TIMEOUT, max(self._stop_requests, 1)
        while (
            time.monotonic() < deadline
            and self._stop_requests <= requests
            and any(process.poll() is None for process in processes)
        ):
            time.sleep(0.05)

    @contextmanager
    def _signals_handled(self) -> Iterator[None]:
        """Treat every termination signal as Ctrl-C, so that no site is left running."""

        def request_stop(*_: object) -> None:
            self._stop_requests += 1

        signals = [signal.SIGINT, signal.SIGTERM]  # even if ignored: the sites would inherit that and not stop
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it on purpose
            signals.append(signal.SIGHUP)
        previous = {each: signal.signal(each, request_stop) for each in signals}
        try:
            yield
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)

    @property
    def privacy(self) -> Privacy | None:
        """The statement of the site with the largest ε; None until all sites have finished."""
        statements = [site.privacy for site in self.sites if site.privacy is not None]
        worst = max(statements, key=lambda each: math.inf if each.guaranteed is None else each.guaranteed, default=None)
        return worst if len(statements) == len(self.sites) else None

    def result(self) -> dict[str, Any]:
        """Return the run as one JSON object, as `--json` prints it."""
        statuses, privacy = [site.status for site in self.sites], self.privacy
        accuracies = [status.accuracy for status in statuses if status.accuracy is not None]
        return {
            "network": self.network_config.name,
            "folder": str(self.folder),
            "finished": self.finished,
            "interrupted": self.interrupted,
            "error": next((f"{site.name}: {site.error}" for site in self.sites if site.failed), None),
            "accuracy": sum(accuracies) / len(accuracies) if accuracies else None,
            "privacy": None if privacy is None else privacy.as_dict(),
            "sites": {status.site: status.as_dict() for status in statuses},
        }
