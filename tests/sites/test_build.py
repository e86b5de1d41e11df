"""What a site builds is its part of the simulation, with noise for its own records and a key that it keeps."""

import shutil

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.graph_learning import PPGL, GraphLearningRun, Signals, synthetic
from tacit.networks import Simulated, on_threads
from tacit.privacy import guarantee, plan
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.runs import Config, Run, from_config
from tacit.sites.build import build_site
from tacit.sites.private_state import LEDGER
from tacit.sites.site_config import SiteConfig

from .built import BASE, UNEVEN, change, made

METHODS = {
    "dyn-d2p": {},
    "partpsp": {"algorithm": {"name": "partpsp", "clip": 5.0, "share": ["*weight"]}},
    "lt-admm-dp": {"algorithm": {"name": "lt-admm-dp"}, "batch": {"size": 16, "sampling": "without-replacement"}},
    "dp-norm": {
        "algorithm": {"name": "dp-norm", "lr": 0.05, "smoothness": 0.5, "local_steps": 2},
        "data": {"name": "digits", "normalise": "unit"},
        "model": {"name": "logistic", "biases": False},
        "batch": {"size": 16, "sampling": "permutation"},
    },
}
GRAPH = {
    "rounds": 5,
    "seed": 2,
    "graph": {"name": "complete"},
    "algorithm": {"name": "ppgl", "beta": 0.1, "rho": 1.0, "lam": 0.1, "clip": 20.0},
    "privacy": {"epsilon": 2.0, "delta": 1e-5},
}


def built(made_):
    return [build_site(SiteConfig.load(node)) for node in made_.nodes]


@pytest.mark.parametrize("method", METHODS)
def test_the_same_run_as_the_simulation(tmp_path, method):
    """Same seed for the noise, sites of different sizes: each finds its own noise, and models are the simulation's."""
    files = made(tmp_path / "net", {**BASE, **METHODS[method]}, noise_seed=5)
    parts = built(files)
    assert len({part.description.digest for part in parts}) == 1

    def host(network):
        part = parts[int(network.nodes[0])]
        return Run(part.task, part.algorithm, network, delta=part.delta).go()

    apart = on_threads(parts[0].graph, host)
    together = from_config(Config.load(files.simulation)).go()
    assert torch.cat([run.models for run in apart]).sub(together.models).abs().max() <= 1e-6
    for i, part in enumerate(parts):
        for own, whole in zip(part.ledger.releases(), together.task.ledger.releases(), strict=True):
            assert own.multipliers == whole.multipliers[[i]]
            assert own.rates == whole.rates[[i]]


def test_batches_are_those_of_the_node(tmp_path):
    files = made(tmp_path / "net", BASE, noise_seed=5)
    whole = from_config(Config.load(files.simulation)).task
    for part in built(files):
        drawn, all_ = part.task.sampler.draw(3), whole.sampler.draw(3)
        mine = drawn.records[0][drawn.weight[0] > 0]
        theirs = all_.records[part.node][all_.weight[part.node] > 0]
        assert torch.equal(mine, theirs)
        assert torch.equal(part.task.data.x[mine], whole.data.x[whole.shards[part.node]][theirs])
        assert torch.equal(part.task.data.test_x, whole.data.test_x)


def test_epsilon_holds_for_each_site_by_itself(ready, tmp_path):
    shutil.copytree(ready, tmp_path / "net")
    for name in ("site-1", "site-2", "site-3"):
        part = build_site(SiteConfig.load(tmp_path / "net" / name / "node.toml"))
        assert part.task.sampler.sampling.rate == 16 / UNEVEN["sizes"][part.node]
        spent = guarantee(
            plan(part.algorithm.privacy, part.algorithm.rounds, part.task.sampling, part.task.nodes), part.delta
        )
        assert 2.0 * 0.98 <= spent[0] <= 2.0
        assert (part.ledger.budget.epsilon, part.ledger.durable) == (2.0, True)


def test_graphs_are_those_of_the_simulation(tmp_path):
    parts = built(made(tmp_path / "net", GRAPH, noise_seed=2))
    data = synthetic.rbf(clients=3, signals=500, seed=2)
    task = Signals(data.signals, clip=20.0, noise=Noise.from_seed(2))
    method = PPGL(beta=0.1, rho=1.0, lam=0.1, rounds=5).with_privacy(2.0, 1e-5)
    together = GraphLearningRun(task, method, Simulated(parts[0].graph), quiet=True).go()

    def host(network):
        part = parts[int(network.nodes[0])]
        return GraphLearningRun(part.task, part.algorithm, network, delta=part.delta, quiet=True).go()

    apart = on_threads(parts[0].graph, host)
    assert torch.cat([learning.graphs for learning in apart]).sub(together.graphs).abs().max() <= 1e-9
    assert all(1.99 <= learning.privacy.guaranteed <= 2.0 for learning in apart)
    assert [part.ledger.budget.epsilon for part in parts] == [2.0] * 3


@pytest.mark.parametrize("seed", [None, 2])
def test_what_is_said_of_the_noise_on_signals(tmp_path, seed):
    part = built(made(tmp_path / "net", GRAPH, noise_seed=seed))[0]
    note = GraphLearningRun(part.task, part.algorithm, Simulated(part.graph), quiet=True).privacy.note
    assert ("this is a simulation" in note) == (seed is not None)
    again = part.task.with_new_ledger()
    assert (again.noise is part.noise) == (seed is not None)


def test_a_site_without_a_class_numbers_the_others_as_all_do(node):
    rng = np.random.default_rng(0)
    y = np.repeat([3, 7, 9], 40)
    np.savez(node.parent / "records.npz", x=rng.random((120, 1, 8, 8)), y=y)
    data = build_site(SiteConfig.load(node)).task.data
    assert data.classes == 10
    assert sorted(data.y.unique().tolist()) == sorted(data.test_y.unique().tolist()) == [3, 7, 9]
    assert (len(data.y), len(data.test_y)) == (96, 24)  # its own share to test on


def test_labels_by_name(node):
    change(SiteConfig.load(node).network, data={"inputs": [2], "labels": ["ill", "well", "dead"]})
    np.savez(node.parent / "records.npz", x=np.eye(2)[[0, 1] * 20], y=["well", "dead"] * 20)
    part = build_site(SiteConfig.load(node))
    assert sorted(part.task.data.y.unique().tolist()) == [1, 2]
    assert part.description.labels == ("ill", "well", "dead")


@pytest.mark.parametrize(
    ("agreed", "own", "sentence"),
    [
        ({"algorithm": {"name": "dyn-d2p", "lrr": 1}}, {}, 'unknown parameter of algorithm dyn-d2p "lrr"'),
        ({"algorithm": {"name": "dinpsp"}}, {}, "unknown algorithm"),
        ({"graph": {"name": "rign"}}, {}, 'unknown graph "rign"; did you mean "ring"'),
        ({"graph": {"name": "ring", "directed": True}, "algorithm": {"name": "lt-admm-dp"}}, {}, "needs"),
        ({"model": {"name": "logistics"}}, {}, 'unknown model "logistics"'),
        ({"data": {"inputs": [64], "classes": 10}}, {}, r"the data have records of shape \[1, 8, 8\], and .*\[64\]"),
        ({"data": {"inputs": [1, 8, 8], "classes": 12}}, {"data": "digits"}, "the data have 10 classes, and .* 12"),
        ({"data": {"inputs": [1, 8, 8], "classes": 5}}, {}, "is none of the labels 0, 1, 2, 3, 4"),
        ({}, {"data": {"name": "npz", "path": "records.npz", "labels": [1, 0]}}, "data.labels are not those of"),
        ({}, {"data": {"name": "npz", "path": "none.npz"}}, "there is no file .*site-2/none.npz"),
        ({}, {"data": {"name": "own.py:wrong"}}, "own.py:wrong gives no Dataset"),
        ({"batch": {"size": 500}}, {}, "node 1 has 200 records, fewer than a batch of 500"),
        ({"privacy": {"epsilon": 2.0, "delta": 1e-3, "budget": 1.0}}, {}, "does not cover the 4 rounds"),
        ({"algorithm": {"name": "sgp"}}, {}, "SGP has no noise to calibrate"),
        ({"algorithm": {"name": "dyn-d2p", "noise_multiplier": 1.0}}, {}, "both set the noise"),
    ],
)
def test_refused(node, agreed, own, sentence):
    (node.parent / "own.py").write_text("def wrong():\n    return 3\n")
    change(node.parents[1] / "network.toml", **agreed)
    change(node, **own)
    with pytest.raises(TacitError, match=sentence):
        build_site(SiteConfig.load(node))
    assert not (node.parent / "state" / LEDGER).exists() or len(Ledger(node.parent / "state" / LEDGER)) == 0


@pytest.mark.parametrize(
    ("algorithm", "agreed", "sentence"),
    [
        ({"clip": None}, {}, "noise protects only what is clipped: set clip"),
        ({"clip": "much"}, {}, "clip = 'much' should be a number"),
        ({"beta": None}, {}, "algorithm ppgl needs a value for: beta"),
        ({"rho": None, "lam": None}, {}, "needs a value for: rho, lam"),
        ({"rounds": 3}, {}, 'unknown parameter of graph learning method ppgl "rounds"'),
        ({"betta": 3}, {}, 'unknown parameter of graph learning method ppgl "betta"; did you mean "beta"'),
        ({}, {"data": {"vertices": 7}}, "the data have signals on 20 vertices, and .* on 7"),
        ({}, {"privacy": {"epsilon": 1.0, "calibration": "paper"}}, "guaranteed noise only"),
        ({}, {"privacy": {"budget": 1.0}}, "has no noise, which no privacy.budget allows"),
        ({}, {"privacy": {"epsilon": 2.0, "budget": 1.0}}, "does not cover the 5 rounds"),
    ],
)
def test_refused_graphs(tmp_path, algorithm, agreed, sentence):
    files = made(tmp_path / "net", GRAPH)
    both = {**GRAPH["algorithm"], **algorithm}
    change(files.network, algorithm={key: v for key, v in both.items() if v is not None}, **agreed)
    with pytest.raises(TacitError, match=sentence):
        build_site(SiteConfig.load(files.nodes[0]))


def test_signals_are_one_table(tmp_path):
    files = made(tmp_path / "net", GRAPH)
    np.savez(files.nodes[0].parent / "records.npz", a=np.eye(20), b=np.eye(20))
    with pytest.raises(TacitError, match="holds 2 arrays: a site has one"):
        build_site(SiteConfig.load(files.nodes[0]))
    (files.nodes[0].parent / "own.py").write_text("import numpy\ndef mine():\n    return numpy.eye(20)\n")
    change(files.nodes[0], data={"name": "own.py:mine"})
    assert build_site(SiteConfig.load(files.nodes[0])).task.sizes.tolist() == [20]


def test_sites_that_differ_in_labels_or_name_have_different_networks(node):
    digests = {build_site(SiteConfig.load(node)).description.digest}
    for changes in ({"name": "another"}, {"data": {"inputs": [1, 8, 8], "labels": [*range(1, 10), 0]}}):
        change(node.parents[1] / "network.toml", **changes)
        digests.add(build_site(SiteConfig.load(node)).description.digest)
    assert len(digests) == 3
