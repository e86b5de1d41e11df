"""Networks of complete sites in the threads of this process, and the total weight that they hold."""

import random
import sqlite3
import tempfile
import threading
import time
import tomllib
from contextlib import closing
from pathlib import Path
from shutil import copy

import safetensors.torch
import tomli_w

from tacit.runs import Config
from tacit.sites.build import build_site
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.journal import DeliveryStatus, digest
from tacit.sites.message import Link, MessageKind
from tacit.sites.node import Node
from tacit.sites.setup import create_network
from tacit.sites.site_config import SiteConfig
from tacit.sites.wire import decode


def create_site_files(folder, config, sites, noise_seed=7, **options):
    """Create a network, and return the node.toml of each site, with `options` added."""
    files = create_network(folder, sites, Config.parse(config), noise_seed=noise_seed).nodes
    for file in files:
        file.write_text(tomli_w.dumps(tomllib.loads(file.read_text()) | options))
    return files


def create_node(file, transport=GrpcTransport, observers=()):
    return Node(build_site(SiteConfig.load(file)), transport, observers)


def run_nodes(nodes, seconds=120.0, expected_errors=()):
    """Run all nodes at the same time, and return their results in order. An expected error is a result."""
    results = {}

    def run(node):
        try:
            results[node.site.name] = node.go()
        except expected_errors as error:
            results[node.site.name] = error

    threads = [threading.Thread(target=run, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    limit = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, limit - time.monotonic()))
    assert len(results) == len(nodes), f"only {sorted(results)} have finished"
    return [results[node.site.name] for node in nodes]


class RecordingTransport(GrpcTransport):
    """Records the receiver and the digest of every sent message."""

    def __init__(self, *args):
        super().__init__(*args)
        self.sent = set()

    def send(self, peer, data):
        self.sent.add((peer, digest(data).hex()))
        super().send(peer, data)


class LossyTransport(GrpcTransport):
    """Loses three of ten messages and replies, except for the handshake and CLOSE."""

    lost = 0

    async def _use(self, connections, peer, read, write, first):
        rng, codec = random.Random(f"7 {self._listen} {peer}"), self._handler._codec

        async def write_or_lose(data):
            is_close = codec.decode(data, codec.link_to(peer)).kind == MessageKind.CLOSE
            if not is_close and rng.random() < 0.3:
                self.lost += 1
            else:
                await write(data)

        await super()._use(connections, peer, read, write_or_lose, first)


def query_copy(path, query, *values):
    """Query a copy of a database. Opening the original would repair what a crash has left."""
    with tempfile.TemporaryDirectory() as folder:
        for file in path.parent.glob(f"{path.name}*"):
            copy(file, folder)
        with closing(sqlite3.connect(Path(folder) / path.name)) as database:
            return database.execute(query, values).fetchall()


def total_weight(files):
    """Return Σ w of push-sum; see `total_mass`."""
    return float(total_mass(files)[1])


def total_mass(files):
    """Return Σ x and Σ w of push-sum, in the states of the sites and in messages that were not used.

    Also checks that the status of every message agrees with what its receiver did.
    """
    parts = {site.name: build_site(site) for site in map(SiteConfig.load, files)}
    journals = {name: one.site.state / "journal.sqlite" for name, one in parts.items()}
    names, total = list(parts), [0.0, 0.0]
    for name, part in parts.items():
        ((state,),) = query_copy(journals[name], "SELECT state FROM checkpoint")
        tensors = safetensors.torch.load(state)
        total = [sum_ + tensors[key].double().sum(0) for sum_, key in zip(total, ("x", "w"), strict=True)]
        columns = "round, kind, sequence, receiver, status, data"
        sent = query_copy(journals[name], f"SELECT {columns} FROM outbox WHERE kind = ?", MessageKind.MIX)
        for round_, kind, sequence, receiver, status, data in sent:
            query = "SELECT digest FROM inbox WHERE round = ? AND kind = ? AND sequence = ? AND sender = ?"
            used = query_copy(journals[receiver], query, round_, kind, sequence, name)
            assert not used or used[0][0] == digest(data)
            assert status == DeliveryStatus.PENDING or bool(used) == (status == DeliveryStatus.ACKNOWLEDGED)
            if not used and status != DeliveryStatus.RETURNED:
                tensors = decode(data, Link(part.description.digest, name, receiver)).tensors
                weight = float(part.graph.at(round_)[names.index(receiver), names.index(name)])
                total = [sum_ + weight * tensors[key].double() for sum_, key in zip(total, "01", strict=True)]
    return total
