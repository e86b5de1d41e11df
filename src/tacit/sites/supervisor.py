"""A whole network on one machine: a process a site, all watched as from outside, and ended together."""

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

from tacit.privacy.statement import Privacy
from tacit.sites.config import NetworkConfig
from tacit.sites.site_process import Command, SiteProcess, node

_OFTEN = 0.5  # seconds between two looks at the sites
_GRACE = 20.0  # seconds that a site has to put its folder in order
_NOTES = 5  # lines of the logs that are remembered


class Supervisor:
    """The sites of a folder: network.toml, and NAME/node.toml for each of them.

    `go` runs them until all have finished, one has failed, or Ctrl-C; then `result` says how it went.
    """

    def __init__(self, folder: Path, command: Command = node) -> None:
        self.folder, self.network_config = folder, NetworkConfig.load(folder / "network.toml")
        self.news: list[str] = []  # lines of note since the last look, and the last of all
        self.notes: deque[str] = deque(maxlen=_NOTES)
        threads = max(1, (os.cpu_count() or 1) // len(self.network_config.sites))
        self.sites = [
            SiteProcess(folder / name, self.network_config, command, threads) for name in self.network_config.names
        ]
        self.finished, self._asked = False, 0

    @property
    def interrupted(self) -> bool:
        return self._asked > 0

    def go(self, watch: Callable[[Supervisor], None] = lambda _: None) -> None:
        """`watch` is called after every look at the sites."""
        with ThreadPoolExecutor(len(self.sites)) as pool, self._heeding():
            try:
                for site in self.sites:
                    site.start()
                while not self._over():
                    time.sleep(_OFTEN)
                    for site, news in zip(self.sites, pool.map(SiteProcess.look, self.sites), strict=True):
                        self.news += [f"{site.name}: {line}" for line in news]
                    self._tell(watch)
                self.finished = all(site.finished for site in self.sites)
                if self.interrupted and not self.finished:
                    self.news += ["stopping; who asks again does not want to wait"]
                    self._tell(watch)
            finally:
                self._end()
        for site in self.sites:
            site.settle()
        self._tell(watch)

    def _tell(self, watch: Callable[[Supervisor], None]) -> None:
        self.notes.extend(self.news)
        watch(self)
        self.news = []

    def _over(self) -> bool:
        ended = any(site.failed for site in self.sites) or all(site.finished for site in self.sites)
        return ended or self.interrupted

    def _end(self) -> None:
        """Sites that have finished end by themselves; others are told to. Who does not is killed."""
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
        """For a while, or until someone who has asked before asks again."""
        until, asked = time.monotonic() + _GRACE, max(self._asked, 1)
        while time.monotonic() < until and self._asked <= asked and any(each.poll() is None for each in processes):
            time.sleep(0.05)

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        """Whatever asks this process to end is like Ctrl-C: no site may be left behind."""

        def ask(*_: object) -> None:
            self._asked += 1

        heard = [signal.SIGINT, signal.SIGTERM]  # even where it is ignored: the sites would ignore it too
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # it is, under nohup
            heard.append(signal.SIGHUP)
        before = {each: signal.signal(each, ask) for each in heard}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    @property
    def privacy(self) -> Privacy | None:
        """What it cost the site that spent most, once all have ended and told."""
        told = [site.privacy for site in self.sites if site.privacy is not None]
        worst = max(told, key=lambda each: math.inf if each.guaranteed is None else each.guaranteed, default=None)
        return worst if len(told) == len(self.sites) else None

    def result(self) -> dict[str, Any]:
        """The run in one object, as `--json` prints it."""
        ends, privacy = [site.status for site in self.sites], self.privacy
        accuracies = [end.accuracy for end in ends if end.accuracy is not None]
        return {
            "network": self.network_config.name,
            "folder": str(self.folder),
            "finished": self.finished,
            "interrupted": self.interrupted,
            "error": next((f"{site.name}: {site.error}" for site in self.sites if site.failed), None),
            "accuracy": sum(accuracies) / len(accuracies) if accuracies else None,
            "privacy": None if privacy is None else privacy.as_dict(),
            "sites": {end.site: end.as_dict() for end in ends},
        }
