"""Networks of real site processes, what befalls them, and what they have said and kept, as seen from outside."""

import json
import multiprocessing
import os
import random
import runpy
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import tomllib
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path

import numpy as np
import safetensors.torch
import tomli_w

from tacit.privacy import Sampling
from tacit.runs import Config
from tacit.runs.build import named_algorithm, named_graph
from tacit.sites.build import build_site
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.journal import DeliveryStatus, digest
from tacit.sites.message import VALUE_KINDS, Link, MessageKind
from tacit.sites.node import Node
from tacit.sites.setup import create_network
from tacit.sites.signals import build_graph_method, is_graph_learning
from tacit.sites.site_config import SiteConfig
from tacit.sites.wire import decode

_LOOK = 0.02  # seconds between two looks at the logs
_VALUES = {kind.name for kind in VALUE_KINDS}
_RESULTS = ("models.safetensors", "graph.csv", "consensus.csv")

# Processes are forked from one that has imported everything, which takes seconds: what is killed is a site at work.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    ["tests.sites.chaos", "tacit.cli", "tacit.cli.node", "tacit.reports", "tacit.sites.metrics_server"]
)


def _tacit(out, args):
    """`python -m tacit ARGS`, in a process that is new."""
    with Path(out).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["tacit", *args]
    runpy.run_module("tacit", run_name="__main__")


def made(folder, config, sites, **options):
    """A network of so many sites in `folder`, with these options in every node.toml."""
    files = create_network(folder, sites, Config.parse(config), noise_seed=7).nodes
    for file in files:
        file.write_text(tomli_w.dumps(tomllib.loads(file.read_text()) | options))
    return files


def stored(path, query, *values, live=False):
    """Rows of a database: of one in use, read in its place; of one that a crash has left, from a copy, since whoever
    opens it puts it in order."""
    if live:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(query, values).fetchall()
    with tempfile.TemporaryDirectory() as folder:
        for each in path.parent.glob(f"{path.name}*"):
            shutil.copy(each, folder)
        with closing(sqlite3.connect(Path(folder) / path.name)) as db:
            return db.execute(query, values).fetchall()


class Host:
    """A site in a process of its own, and its log: `said` has a digest for each (receiver, round, kind, sequence)."""

    def __init__(self, file):
        self.file, self.site, self.state = file, SiteConfig.load(file), SiteConfig.load(file).state
        self.name, self.log, self.out = self.site.name, file.parent / "log.jsonl", file.parent / "out.txt"
        self.events, self.said, self.round = [], {}, -1
        self.starts = self.kills = self.early = 0  # of the kills, those before it had taken up its work
        self._read, self._process, self._from, self._begun = 0, None, 0, 0

    def start(self):
        if self.log.exists() and not self.log.read_bytes().endswith(b"\n"):
            with self.log.open("ab") as log:  # the half of a line
                log.write(b"\n")
        args = ["node", str(self.file), "--verbose", "--log", str(self.log)]
        self._process = _SERVER.Process(target=_tacit, args=(str(self.out), args), daemon=True)
        self._process.start()
        self.starts, self._begun = self.starts + 1, self.begun

    @property
    def alive(self):
        return self._process is not None and self._process.is_alive()

    @property
    def code(self):
        return self._process.exitcode

    def signal(self, number):
        os.kill(self._process.pid, number)

    def kill(self):
        """Kill −9; whether it was alive then. What it has kept is held against what it has said."""
        self._process.kill()
        self._process.join()
        if self._process.exitcode == 0:
            return False
        assert self._process.exitcode == -signal.SIGKILL, self.words
        self.check()
        self.kills, self.early = self.kills + 1, self.early + (self.begun == self._begun)
        self._from = self.checkpoint[0] if self.checkpoint else 0
        return True

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def look(self):
        """Read on in the log."""
        if not self.log.exists():
            return
        with self.log.open("rb") as log:
            log.seek(self._read)
            *lines, rest = log.read().split(b"\n")
            self._read = log.tell() - len(rest)
        for line in lines:
            with suppress(ValueError):
                self._note(json.loads(line))

    def _note(self, event):
        self.events.append(event)
        if event["event"] == "send":
            assert event["kind"] in _VALUES
            self.round = max(self.round, event["round"])
            what = (event["peer"], event["round"], event["kind"], event["sequence"])
            assert self.said.setdefault(what, event["digest"]) == event["digest"], (
                f"{self.name} says {what} in two ways"
            )
        elif event["event"] == "resumed":
            assert event["round"] == self._from, f"{self.name} goes on from {event['round']}, not from {self._from}"

    @property
    def begun(self):
        """How often it has gone on from where it was, or begun, having said nothing yet."""
        return sum(event["event"] in ("resumed", "started") for event in self.events)

    def told(self, event):
        return [each for each in self.events if each["event"].startswith(event)]

    @property
    def words(self):
        """Its last, for whoever asks why it has failed."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "\n".join(
            [self.name, *[each for each in lines if '"send"' not in each][-20:], self.out.read_text()[-3000:]]
        )

    def check(self):
        """The ledger holds the releases of every round of which anything was said."""
        self.look()
        rounds = {round_ for _, round_, _, _ in self.said}
        needed = {
            (release.step, release.purpose)
            for t in rounds
            for release in self.planned.releases(t, np.zeros(1, np.int64), Sampling("none", np.ones(1), "replace-one"))
        }
        missing = needed - {line[:2] for line in self.ledger}
        assert not missing, f"{self.name} has said what its ledger does not hold: {sorted(missing)}"

    @cached_property
    def planned(self):
        config = self.site.network_config.config()
        if is_graph_learning(config.algorithm):
            return build_graph_method(config.algorithm, config.rounds, config.privacy)
        return named_algorithm(config.algorithm).with_rounds(config.rounds).with_noise(np.ones(1)).privacy

    @property
    def ledger(self):
        return self._table("ledger.sqlite", "release", "SELECT * FROM release ORDER BY step, purpose")

    @property
    def checkpoint(self):
        """The round of the last one, and the state."""
        rows = self._table("journal.sqlite", "checkpoint", "SELECT facts, state FROM checkpoint")
        return (json.loads(rows[0][0])["t"], safetensors.torch.load(rows[0][1])) if rows else None

    def _table(self, file, table, query):
        """What there is, if anything: it may have been killed before it had made the table, or the file."""
        path, live = self.state / file, self.alive
        if not path.exists() or not stored(path, "SELECT 1 FROM sqlite_master WHERE name = ?", table, live=live):
            return []
        return stored(path, query, live=live)

    @property
    def results(self):
        return {name: (self.state / name).read_bytes() for name in _RESULTS if (self.state / name).exists()}


class Network:
    """All sites of a network, in processes."""

    def __init__(self, files):
        self.hosts = [Host(file) for file in files]
        self.rounds = self.hosts[0].site.network_config.rounds

    @property
    def kills(self):
        return sum(host.kills for host in self.hosts)

    def __str__(self):
        early = sum(host.early for host in self.hosts)
        return (
            f"{len(self.hosts)} sites, {self.rounds} rounds, {self.kills} kills, {early} of them while starting, "
            f"{sum(host.begun for host in self.hosts) - len(self.hosts)} resumed"
        )

    def until(self, done, seconds=120.0):
        """Look on, until it is so. Nobody may have failed meanwhile; whether it came to that before all had ended."""
        limit = time.monotonic() + seconds
        while True:
            alive = [host.alive for host in self.hosts]  # before the logs are read to their ends
            for host in self.hosts:
                host.look()
                assert host.alive or host.code in (0, None, -signal.SIGKILL), host.words
            if done():
                return True
            if not any(alive):
                return False
            assert time.monotonic() < limit, "\n\n".join(host.words for host in self.hosts)
            time.sleep(_LOOK)

    def finish(self, seconds=120.0):
        """Until all have ended well."""
        self.until(lambda: not any(host.alive for host in self.hosts), seconds)
        for host in self.hosts:
            host.check()
            assert host.code == 0, host.words
            assert not [event for event in host.events if event["level"] == "error"], host.words
            assert (
                host.checkpoint[0] == self.rounds
                if host.checkpoint
                else is_graph_learning(host.site.network_config.algorithm)
            )

    def harass(self, kills, seed):
        """Kill and start again, at so many random moments spread over all rounds; one or two at once, some while they
        start."""
        chance, hosts = random.Random(seed), self.hosts
        for moment in sorted(chance.uniform(0, self.rounds) for _ in range(kills)):
            if self.kills >= kills:
                return
            if not self.until(lambda moment=moment: max(host.round for host in hosts) >= moment - 1):
                return
            time.sleep(chance.expovariate(20))
            struck = [host for host in chance.sample(hosts, 1 + (chance.random() < 0.2)) if host.alive and host.kill()]
            time.sleep(chance.expovariate(5))
            for host in hosts:
                host.check()
            for host in struck:
                host.start()
            if struck and chance.random() < 0.2:
                time.sleep(chance.uniform(0, 1))
                if struck[0].kill():
                    struck[0].start()


@contextmanager
def running(files):
    """A network whose processes are there, and afterwards are not."""
    network = Network(files)
    try:
        for host in network.hosts:
            host.start()
        yield network
    finally:
        for host in network.hosts:
            host.end()


class Recorded(GrpcTransport):
    """GrpcTransport that remember the digests of all that went out."""

    def __init__(self, *args):
        super().__init__(*args)
        self.sent = set()

    def send(self, peer, data):
        self.sent.add((peer, digest(data).hex()))
        super().send(peer, data)


class Lossy(GrpcTransport):
    """GrpcTransport on which a share of all messages and answers is lost, after the first HELLO and before GOODBYE."""

    share, lost, seed = 0.3, 0, 7

    async def _use(self, connections, peer, read, write, first):
        chance = random.Random(f"{self.seed} {self._listen} {peer}")

        async def perhaps(data):
            last = (
                decode(data, Link(self._handler._codec.network, self._handler._codec.site, peer)).kind
                == MessageKind.CLOSE
            )
            if not last and chance.random() < self.share:
                self.lost += 1
            else:
                await write(data)

        await super()._use(connections, peer, read, perhaps, first)


def in_threads(files, wires=GrpcTransport, seconds=120.0):
    """A network without processes, from its beginning to its end."""
    nodes, results = [Node(build_site(SiteConfig.load(file)), wires) for file in files], {}

    def work(node):
        results[node.site.name] = node.go()

    threads = [threading.Thread(target=work, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, limit - time.monotonic()))
    assert len(results) == len(nodes), f"only {sorted(results)} have come to an end"
    return nodes


def mass(files):
    """Σ w of push-sum: what the sites hold, and what they will take back of messages that were never used."""
    hosts = {host.name: host for host in map(Host, files)}
    names, config = list(hosts), next(iter(hosts.values())).site.network_config.config()
    graph, total = named_graph(config.graph), 0.0
    network = build_site(next(iter(hosts.values())).site).description.digest
    for me, host in hosts.items():
        total += float(host.checkpoint[1]["w"].double().sum())
        query = "SELECT round, kind, sequence, receiver, status, data FROM outbox WHERE kind = ?"
        for round_, kind, sequence, receiver, fate, data in stored(
            host.state / "journal.sqlite", query, MessageKind.MIX
        ):
            query = "SELECT digest FROM inbox WHERE round=? AND kind=? AND sequence=? AND sender=?"
            used = stored(hosts[receiver].state / "journal.sqlite", query, round_, kind, sequence, me)
            assert not used or used[0][0] == digest(data)
            assert fate == DeliveryStatus.PENDING or bool(used) == (fate == DeliveryStatus.ACKNOWLEDGED), (
                "its fate is not what has become of it"
            )
            if not used and fate != DeliveryStatus.RETURNED:
                w = decode(data, Link(network, me, receiver)).tensors["1"]
                total += float(graph.at(round_)[names.index(receiver), names.index(me)]) * float(w)
    return total
