"""Networks of sites in processes that are killed, frozen and restarted, observed through their logs and files."""

import json
import os
import random
import runpy
import signal
import sqlite3
import sys
import time
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from tacit.privacy import Sampling
from tacit.runs import build_algorithm
from tacit.sites.message import VALUE_KINDS
from tacit.sites.signals import build_graph_method, is_graph_learning
from tacit.sites.site_config import SiteConfig
from tests.fork_server import FORK_SERVER

from .site_networks import query_copy

_POLL_INTERVAL = 0.02  # seconds
_VALUE_KINDS = {kind.name for kind in VALUE_KINDS}
_RESULTS = ("models.safetensors", "graph.csv", "consensus.csv")
_STARTED, _RESUMED = "started", "resumed"  # events in the log of a site


def _run_tacit(output, args):
    """Run `python -m tacit ARGS` in a new process."""
    with Path(output).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["tacit", *args]
    runpy.run_module("tacit", run_name="__main__")


class ObservedSite:
    """A site in its own process.

    Attributes:
        events: All events in its log.
        sent: The digest of every sent message, by (receiver, round, kind, sequence).
        round: The latest round in which it sent a message.
        starts: Number of starts.
        kills: Number of kills.
        early_kills: Number of kills before the site had started its work.
    """

    def __init__(self, file):
        self.file, self.config = file, SiteConfig.load(file)
        self.name, self.state = self.config.name, self.config.state
        self._log, self._output = file.parent / "log.jsonl", file.parent / "out.txt"
        self.events, self.sent, self.round = [], {}, -1
        self.starts = self.kills = self.early_kills = 0
        self._log_position, self._process, self._resume_round, self._work_starts_before = 0, None, 0, 0

    def start(self):
        if self._log.exists() and not self._log.read_bytes().endswith(b"\n"):
            with self._log.open("ab") as log:  # ends a line that a kill has cut off
                log.write(b"\n")
        args = ["node", str(self.file), "--verbose", "--log", str(self._log)]
        self._process = FORK_SERVER.Process(target=_run_tacit, args=(str(self._output), args), daemon=True)
        self._process.start()
        self.starts, self._work_starts_before = self.starts + 1, self.work_starts

    @property
    def alive(self):
        return self._process is not None and self._process.is_alive()

    @property
    def exit_code(self):
        return self._process.exitcode

    def signal(self, number):
        os.kill(self._process.pid, number)

    def kill(self):
        """Kill the process and check its files; return False if it had finished before."""
        self._process.kill()
        self._process.join()
        if self._process.exitcode == 0:
            return False
        assert self._process.exitcode == -signal.SIGKILL, self.diagnosis
        self.check_ledger()
        self.kills += 1
        self.early_kills += self.work_starts == self._work_starts_before
        self._resume_round = self.checkpoint_round or 0
        return True

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def read_log(self):
        """Read the new lines of the log."""
        if not self._log.exists():
            return
        with self._log.open("rb") as log:
            log.seek(self._log_position)
            *lines, rest = log.read().split(b"\n")
            self._log_position = log.tell() - len(rest)
        for line in lines:
            with suppress(ValueError):
                self._handle(json.loads(line))

    def _handle(self, event):
        self.events.append(event)
        if event["event"] == "send":
            assert event["kind"] in _VALUE_KINDS
            self.round = max(self.round, event["round"])
            key = (event["peer"], event["round"], event["kind"], event["sequence"])
            assert self.sent.setdefault(key, event["digest"]) == event["digest"], f"{self.name} changed message {key}"
        elif event["event"] == _RESUMED:
            assert event["round"] == self._resume_round, f"{self.name} resumed from round {event['round']}"

    @property
    def work_starts(self):
        """How often the site has started or resumed its work."""
        return sum(event["event"] in (_STARTED, _RESUMED) for event in self.events)

    def events_with(self, prefix):
        return [event for event in self.events if event["event"].startswith(prefix)]

    @property
    def diagnosis(self):
        """The end of its log and output, for a failed assertion."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        last = [line for line in lines if '"send"' not in line][-20:]
        return "\n".join([self.name, *last, self._output.read_text()[-3000:]])

    def check_ledger(self):
        """Check that the ledger has the releases of every round in which a message was sent."""
        self.read_log()
        node, sampling = np.zeros(1, np.int64), Sampling("none", np.ones(1), "replace-one")
        rounds = {round_ for _, round_, _, _ in self.sent}
        releases = [release for t in rounds for release in self._privacy_plan.releases(t, node, sampling)]
        missing = {(release.step, release.purpose) for release in releases} - {row[:2] for row in self.ledger_rows}
        assert not missing, f"{self.name} sent messages whose releases are not in its ledger: {sorted(missing)}"

    @cached_property
    def _privacy_plan(self):
        config = self.config.network_config.config()
        if is_graph_learning(config.algorithm):
            return build_graph_method(config.algorithm, config.rounds, config.privacy).privacy
        return build_algorithm(config.algorithm).with_rounds(config.rounds).with_noise(np.ones(1)).privacy

    @property
    def ledger_rows(self):
        return self._query("ledger.sqlite", "release", "SELECT * FROM release ORDER BY step, purpose")

    @property
    def checkpoint_round(self):
        """The round of the last checkpoint, or None."""
        rows = self._query("journal.sqlite", "checkpoint", "SELECT facts FROM checkpoint")
        return json.loads(rows[0][0])["t"] if rows else None

    def _query(self, file, table, query):
        """Return the rows, or none if the site was killed before it created the file or the table."""
        path = self.state / file
        rows = self._query_live if self.alive else query_copy
        if not path.exists() or not rows(path, "SELECT 1 FROM sqlite_master WHERE name = ?", table):
            return []
        return rows(path, query)

    @staticmethod
    def _query_live(path, query, *values):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute(query, values).fetchall()

    @property
    def result_files(self):
        return {name: (self.state / name).read_bytes() for name in _RESULTS if (self.state / name).exists()}


class ProcessNetwork:
    """All sites of a network, each in its own process."""

    def __init__(self, files):
        self.sites = [ObservedSite(file) for file in files]
        self.rounds = self.sites[0].config.network_config.rounds

    @property
    def kills(self):
        return sum(site.kills for site in self.sites)

    def __str__(self):
        early = sum(site.early_kills for site in self.sites)
        resumed = sum(site.work_starts for site in self.sites) - len(self.sites)
        counts = f"{len(self.sites)} sites, {self.rounds} rounds, {self.kills} kills"
        return f"{counts}, {early} of them during the start, {resumed} resumed"

    def wait_until(self, condition, seconds=120.0):
        """Wait, and return whether the condition became true before all sites ended. No site may fail meanwhile."""
        limit = time.monotonic() + seconds
        while True:
            any_alive = any(site.alive for site in self.sites)  # before the logs are read to their ends
            for site in self.sites:
                site.read_log()
                assert site.alive or site.exit_code in (0, None, -signal.SIGKILL), site.diagnosis
            if condition():
                return True
            if not any_alive:
                return False
            if time.monotonic() > limit:  # a hanging site must not hang the tests
                raise TimeoutError("\n\n".join(site.diagnosis for site in self.sites))
            time.sleep(_POLL_INTERVAL)

    def wait_until_finished(self, seconds=120.0):
        """Wait until all sites have ended without an error."""
        self.wait_until(lambda: not any(site.alive for site in self.sites), seconds)
        for site in self.sites:
            site.check_ledger()
            assert site.exit_code == 0, site.diagnosis
            assert not [event for event in site.events if event["level"] == "error"], site.diagnosis
            if not is_graph_learning(site.config.network_config.algorithm):
                assert site.checkpoint_round == self.rounds

    def kill_repeatedly(self, kills, seed):
        """Kill and restart sites at random moments over all rounds: sometimes two at once, sometimes during a start."""
        rng, sites = random.Random(seed), self.sites
        for moment in sorted(rng.uniform(0, self.rounds) for _ in range(kills)):
            if self.kills >= kills:
                return
            if not self.wait_until(lambda moment=moment: max(site.round for site in sites) >= moment - 1):
                return
            time.sleep(rng.expovariate(20))
            killed = [site for site in rng.sample(sites, 1 + (rng.random() < 0.2)) if site.alive and site.kill()]
            time.sleep(rng.expovariate(5))
            for site in sites:
                site.check_ledger()
            for site in killed:
                site.start()
            if killed and rng.random() < 0.2:
                time.sleep(rng.uniform(0, 1))
                if killed[0].kill():
                    killed[0].start()


@contextmanager
def running_network(files):
    """Start all sites, and end them at the end of the block."""
    network = ProcessNetwork(files)
    try:
        for site in network.sites:
            site.start()
        yield network
    finally:
        for site in network.sites:
            site.end()
