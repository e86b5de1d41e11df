"""Six sites with lines between them: the models of the simulation, whoever stops half-way, and no mass lost."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from tacit.graph_learning import PPGL, GraphLearner
from tacit.runs import Config, Observer, from_config
from tacit.sites import grpc_transport, membership, outbox
from tacit.sites.build import build_site
from tacit.sites.grpc_transport import GrpcTransport
from tacit.sites.journal import DeliveryStatus, Journal
from tacit.sites.message import Link
from tacit.sites.node import Node
from tacit.sites.setup import create_network
from tacit.sites.site_config import SiteConfig
from tacit.sites.wire import decode

SITES = 6
BASE = {
    **{"name": "six", "rounds": 6, "evaluate_every": 6, "seed": 3, "data": "digits", "model": "logistic"},
    **{"batch": {"size": 8}, "graph": {"name": "ring", "nodes": SITES}},
}
TARGET = {"epsilon": 3.0, "delta": 1e-4}
DIRECTED = {"name": "one-peer-exponential", "nodes": SITES}
NORM = {"name": "dp-norm", "smoothness": 1.0, "lr": 0.03, "sigma": 0.01, "bound": "contraction"}
UNIT = {"batch": {"size": 8, "sampling": "permutation"}, "data": {"name": "digits", "normalise": "unit"}}
PART = {"name": "partpsp", "share": ["0.*"], "noise_rate": 0.001, "b": 1.0, "clip": 1.0}
CASES = {
    "sgp": {"algorithm": {"name": "sgp"}, "graph": DIRECTED},
    "dyn-d2p": {"algorithm": {"name": "dyn-d2p", "lr": 0.5}, "privacy": TARGET, "graph": DIRECTED},
    "partpsp": {"algorithm": PART, "model": {"name": "mlp", "hidden": [8]}, "graph": DIRECTED},
    "lt-admm-dp": {"algorithm": {"name": "lt-admm-dp", "lr": 0.1, "clip": 1.0}, "privacy": TARGET},
    "dp-norm": {"algorithm": NORM, **UNIT},
    "dp-norm, asynchronous": {"algorithm": {**NORM, "asynchronous": True}, **UNIT},
    "porter": {"algorithm": {"name": "porter"}, "privacy": TARGET},
}


@pytest.fixture(autouse=True)
def quick():
    """Sites run in threads of one process, so torch needs no more threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def network(folder, noise_seed=3, patience=60.0, **changes):
    config = Config.parse({**BASE, **changes})
    made = create_network(folder / "net", SITES, config, noise_seed=noise_seed)
    for path in made.nodes:
        path.write_text(
            path.read_text().replace(
                "metrics_address =", f"peer_timeout = {patience}\ncheckpoint_every = 2\nmetrics_address =", 1
            )
        )
    return config, made


def started(made, wires=GrpcTransport, observers=None):
    """One node per site; `observers` of single nodes by their number."""
    parts = [build_site(SiteConfig.load(path)) for path in made.nodes]
    return [Node(each, wires, (observers or {}).get(i, ())) for i, each in enumerate(parts)]


def worked(nodes):
    """All at once; what each tells."""
    with ThreadPoolExecutor(len(nodes)) as pool:
        return list(pool.map(Node.go, nodes))


def models(nodes):
    return torch.cat([node.run.models for node in nodes])


@pytest.mark.parametrize("case", CASES)
def test_the_models_of_the_simulation(tmp_path, case):
    config, made = network(tmp_path, **CASES[case])
    nodes = started(made)
    results = worked(nodes)
    simulated = from_config(config).go()
    assert simulated.models.abs().max() > 1e-3
    torch.testing.assert_close(models(nodes), simulated.models, rtol=0, atol=1e-6)
    assert {result["rounds"] for result in results} == {6}
    assert {result["stopped"] for result in results} == {None}
    for node in nodes:
        assert node.status().state == "finished"
        assert node.status().refused == node.status().missed == 0
    spent = [result["privacy"]["guaranteed"] for result in results]
    told = simulated.privacy.guaranteed
    assert spent == [None] * SITES if told is None else max(spent) == pytest.approx(told, rel=1e-9)


def test_the_graph_of_the_simulation(tmp_path):
    algorithm = {"name": "ppgl", "beta": 0.2, "rho": 1.0, "lam": 0.05, "clip": 20.0}
    privacy = {"epsilon": 2.0, "delta": 1e-5}
    learns = {"algorithm": algorithm, "privacy": privacy, "rounds": 20, "graph": {"name": "complete", "nodes": SITES}}
    table = {key: value for key, value in BASE.items() if key not in ("data", "model", "batch", "evaluate_every")}
    made = create_network(tmp_path / "net", SITES, Config.parse({**table, **learns}), noise_seed=3)
    nodes = started(made)
    worked(nodes)
    signals = [np.load(path.parent / "records.npz")["signals"] for path in made.nodes]
    method = PPGL(beta=0.2, rho=1.0, lam=0.05, rounds=20)
    learner = GraphLearner(method, epsilon=2.0, clip=20.0, seed=3).fit(signals)
    graphs = torch.cat([node.run.graphs for node in nodes])
    assert learner.run_.graphs.abs().max() > 1e-3
    torch.testing.assert_close(graphs, learner.run_.graphs, rtol=0, atol=1e-6)


class InterruptAfter(Observer):
    """Presses Ctrl-C after a round."""

    def __init__(self, rounds):
        self._rounds = rounds

    def on_round(self, run):
        if run.t == self._rounds:
            raise KeyboardInterrupt


@pytest.mark.parametrize("case", ["sgp", "lt-admm-dp"])
def test_one_that_stops_half_way_goes_on(tmp_path, case):
    """The others wait for it, and the result is that of the run which never stopped."""
    config, made = network(tmp_path, **CASES[case])
    nodes = started(made, observers={2: [InterruptAfter(3)]})
    with ThreadPoolExecutor(SITES) as pool:
        jobs = [pool.submit(node.go) for node in nodes]
        assert jobs[2].result()["stopped"] == "stopped by hand after 3 of 6 rounds"
        nodes[2] = Node(build_site(SiteConfig.load(made.nodes[2])))
        released = len(nodes[2].parts.ledger)
        jobs[2] = pool.submit(nodes[2].go)
        results = [job.result() for job in jobs]
    assert {result["rounds"] for result in results} == {6}
    simulated = from_config(config).go()
    torch.testing.assert_close(models(nodes), simulated.models, rtol=0, atol=1e-6)
    assert all(node.status().missed == 0 for node in nodes)
    assert len(nodes[2].parts.ledger) == 2 * released


def test_secret_noise(tmp_path):
    """Each site has its own, and all start from the same public parameters."""
    _, made = network(tmp_path, noise_seed=None, rounds=2, **CASES["dyn-d2p"])
    built = [build_site(SiteConfig.load(path)) for path in made.nodes]
    assert len({one.task.model.initial().numpy().tobytes() for one in built}) == 1
    assert not any(one.noise.simulated for one in built)
    words = {one.noise.words("test", np.array([0]), 0, 4).numpy().tobytes() for one in built}
    assert len(words) == SITES, "though all draw for the same node"
    nodes = [Node(one) for one in built]
    worked(nodes)
    assert len({float(row[0]) for row in models(nodes)}) == SITES


class Lossy(GrpcTransport):
    """Of what leaves over a line, nearly a third does not."""

    def _put(self, lines, peer, data):
        if self._random.random() >= 0.3:
            super()._put(lines, peer, data)
        else:
            self.lost += 1

    def open(self, handler):
        self._random, self.lost = random.Random(handler._codec.site), 0
        super().open(handler)


def weight(nodes):
    """Σ w over all sites, and over messages that nobody has used."""
    total, names = sum(float(node.run.checkpoint.state.w.sum()) for node in nodes), [node.site.name for node in nodes]
    journals = [Journal(node.site.state / "journal.sqlite", node.parts.description.digest) for node in nodes]
    for i, (node, journal) in enumerate(zip(nodes, journals, strict=True)):
        for sent in journal._select("status IN (?, ?)", (DeliveryStatus.PENDING, DeliveryStatus.MISSED)):
            j = names.index(sent.receiver)
            if journals[j].used_digest(sent.operation, names[i]) is None:
                link = Link(node.parts.description.digest, names[i], names[j])
                w = float(decode(sent.data, link).tensors["1"])
                total += float(node.parts.graph.at(sent.operation.round)[j, i]) * w
    for journal in journals:
        journal.close()
    return total


def test_a_third_of_all_messages_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(outbox, "FIRST_RETRANSMIT", 0.05)
    monkeypatch.setattr(membership, "HELLO_INTERVAL", 0.05)
    monkeypatch.setattr(grpc_transport, "TICK", 0.05)
    _, made = network(tmp_path, patience=0.3, **CASES["sgp"], rounds=12)
    nodes = started(made, Lossy)
    results = worked(nodes)
    assert {result["rounds"] for result in results} == {12}
    assert sum(node.transport.lost for node in nodes) > 20
    assert weight(nodes) == pytest.approx(SITES, abs=1e-6)
