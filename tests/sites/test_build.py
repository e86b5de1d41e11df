"""What a site builds is its part of the simulation, with noise for its own records and a key that it keeps."""

import os
import shutil
import stat
import tomllib

import numpy as np
import pytest
import tomli_w
import torch

from tacit.errors import TacitError
from tacit.networks import Simulated, on_threads
from tacit.privacy.ledger import Ledger
from tacit.privacy.noise import Noise
from tacit.privacy.planning import guarantee, plan
from tacit.runs import Config, Run, from_config
from tacit.runs.cost import Cost
from tacit.sites.build import build
from tacit.sites.config import Site
from tacit.sites.secret import KEY, LEDGER, kept
from tacit.sites.setup import init
from tacit.tasks import Clip
from tacit.topology import PPGL, Learning, Signals, synthetic

UNEVEN = {"name": "sizes", "sizes": [150, 200, 90]}
BASE = {
    "rounds": 4,
    "seed": 5,
    "graph": "complete",
    "sharding": UNEVEN,
    "batch": {"size": 16},
    "algorithm": {"name": "dyn-d2p", "lr": 0.5},
    "privacy": {"epsilon": 2.0, "delta": 1e-3},
}
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


def made(folder, table, **options):
    return init(folder, 3, Config.parse(table), **options)


def built(made_):
    return [build(Site.load(node)) for node in made_.nodes]


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """Three sites with secret keys, to be copied."""
    folder = tmp_path_factory.mktemp("ready") / "net"
    made(folder, BASE)
    return folder


@pytest.fixture
def node(ready, tmp_path):
    shutil.copytree(ready, tmp_path / "net")
    return tmp_path / "net" / "site-2" / "node.toml"


def change(path, **changes):
    """Keys of a TOML file replaced, or taken out where they are None."""
    table = {**tomllib.loads(path.read_text()), **changes}
    path.write_text(tomli_w.dumps({key: value for key, value in table.items() if value is not None}))


def released(site):
    """What a site releases first: a gradient with noise, which is then in its ledger."""
    part = build(site)
    gradient = part.task.gradient(part.task.initial(), 0, Clip(1.0))
    (planned,) = part.algorithm.releases(0, part.task.nodes)
    return planned.mechanism.release(gradient)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_run_as_the_simulation(tmp_path, method):
    """Same seed for the noise, sites of different sizes: each finds its own noise, and models are the simulation's."""
    files = made(tmp_path / "net", {**BASE, **METHODS[method]}, noise_seed=5)
    parts = built(files)
    assert len({part.description.network for part in parts}) == 1

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
        part = build(Site.load(tmp_path / "net" / name / "node.toml"))
        assert part.task.sampler.sampling.rate == 16 / UNEVEN["sizes"][part.node]
        spent = guarantee(plan(part.algorithm, part.task.sampling, part.task.nodes), part.delta)
        assert 2.0 * 0.98 <= spent[0] <= 2.0
        assert (part.ledger.budget.epsilon, part.ledger.durable) == (2.0, True)


def test_graphs_are_those_of_the_simulation(tmp_path):
    parts = built(made(tmp_path / "net", GRAPH, noise_seed=2))
    data = synthetic.rbf(clients=3, signals=500, seed=2)
    task = Signals(data.signals, clip=20.0, noise=Noise.from_seed(2))
    method = PPGL(beta=0.1, rho=1.0, lam=0.1, rounds=5).private(2.0, 1e-5)
    together = Learning(task, method, Simulated(parts[0].graph), quiet=True).go()

    def host(network):
        part = parts[int(network.nodes[0])]
        return Learning(part.task, part.algorithm, network, delta=part.delta, quiet=True).go()

    apart = on_threads(parts[0].graph, host)
    assert torch.cat([learning.graphs for learning in apart]).sub(together.graphs).abs().max() <= 1e-9
    assert all(1.99 <= learning.privacy.guaranteed <= 2.0 for learning in apart)
    assert [part.ledger.budget.epsilon for part in parts] == [2.0] * 3


def test_the_key_is_made_once_and_for_the_owner_only(node):
    site = Site.load(node)
    first, path = released(site), site.state / KEY
    before = path.read_bytes()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    (site.state / LEDGER).unlink()
    Ledger(site.state / LEDGER, durable=True)  # as after a crash before the release was written down
    assert torch.equal(released(site), first)
    assert path.read_bytes() == before


def test_keys_differ(ready, tmp_path):
    noises = []
    for place in ("a", "b"):
        shutil.copytree(ready, tmp_path / place)
        part = build(Site.load(tmp_path / place / "site-1" / "node.toml"))
        noises.append(part.noise.words("test", np.array([0]), 0, 4))
        assert (part.noise.reproducible, part.noise.simulated) == (True, False)
    assert not torch.equal(*noises)


def test_two_processes_at_once_have_one_key(tmp_path, monkeypatch):
    """Both find no key, and both make one: that of the first is the key of both."""
    Ledger(tmp_path / LEDGER)
    before, first = os.link, []

    def slow(source, target):
        monkeypatch.setattr(os, "link", before)
        first.append(kept(tmp_path, b"run")[1])
        before(source, target)

    monkeypatch.setattr(os, "link", slow)
    _, second = kept(tmp_path, b"run")
    words = [noise.words("test", np.array([0]), 0, 4) for noise in (*first, second)]
    assert torch.equal(*words)
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {LEDGER, KEY}


def test_a_lost_key(node):
    site = Site.load(node)
    released(site)
    (site.state / KEY).unlink()
    with pytest.raises(TacitError, match=r"noise.key is lost, and with it the noise of what .*ledger.sqlite says"):
        build(site)


def test_a_lost_ledger(node):
    site = Site.load(node)
    released(site)
    (site.state / LEDGER).unlink()
    with pytest.raises(TacitError, match="what was released is not known: put it back"):
        build(site)
    assert not (site.state / LEDGER).exists()


def test_a_damaged_key(node):
    site = Site.load(node)
    build(site)
    (site.state / KEY).write_bytes(b"short")
    with pytest.raises(TacitError, match=r"noise\.key is damaged: it must have 64 bytes, and has 5"):
        build(site)


@pytest.mark.parametrize("what", ["network", "records"])
def test_noise_is_not_put_on_other_values(node, what):
    site = Site.load(node)
    released(site)
    if what == "network":
        change(site.network, rounds=5)
    else:
        path = node.parent / "records.npz"
        with np.load(path) as file:
            arrays = dict(file)
        arrays["x"][0] += 1
        np.savez(path, **arrays)
    with pytest.raises(TacitError, match="made for another run: the network or this site's data have changed"):
        build(Site.load(node))


def test_until_something_has_left_all_may_change(node):
    site = Site.load(node)
    build(site)
    before = (site.state / KEY).read_bytes()
    change(site.network, rounds=5)
    build(Site.load(node))
    assert (site.state / KEY).read_bytes() != before


def test_addresses_may_change(node):
    site = Site.load(node)
    released(site)
    sites = [{"name": name, "address": f"10.0.0.9:{7000 + i}"} for i, name in enumerate(site.agreed.names)]
    change(site.network, sites=sites)
    build(Site.load(node))


def test_a_seed_is_not_mixed_with_a_key(node):
    build(Site.load(node))
    change(node, noise_seed=5)
    with pytest.raises(TacitError, match="noise_seed protects nothing: give it a state of its own"):
        build(Site.load(node))


def test_what_is_said_of_the_noise(node):
    """A site repeats its noise from a secret key, and that is no simulation; from a seed it is one."""
    part = build(Site.load(node))
    assert "simulation" not in (Cost(part.task, part.algorithm, part.delta).planned().note or "")
    change(node, noise_seed=5, state="other")
    part = build(Site.load(node))
    assert "this is a simulation" in Cost(part.task, part.algorithm, part.delta).planned().note


@pytest.mark.parametrize("seed", [None, 2])
def test_what_is_said_of_the_noise_on_signals(tmp_path, seed):
    part = built(made(tmp_path / "net", GRAPH, noise_seed=seed))[0]
    note = Learning(part.task, part.algorithm, Simulated(part.graph), quiet=True).privacy.note
    assert ("this is a simulation" in note) == (seed is not None)
    again = part.task.again()
    assert (again.noise is part.noise) == (seed is not None)


def test_a_site_without_a_class_numbers_the_others_as_all_do(node):
    rng = np.random.default_rng(0)
    y = np.repeat([3, 7, 9], 40)
    np.savez(node.parent / "records.npz", x=rng.random((120, 1, 8, 8)), y=y)
    data = build(Site.load(node)).task.data
    assert data.classes == 10
    assert sorted(data.y.unique().tolist()) == sorted(data.test_y.unique().tolist()) == [3, 7, 9]
    assert (len(data.y), len(data.test_y)) == (96, 24)  # its own share to test on


def test_labels_by_name(node):
    change(Site.load(node).network, data={"inputs": [2], "labels": ["ill", "well", "dead"]})
    np.savez(node.parent / "records.npz", x=np.eye(2)[[0, 1] * 20], y=["well", "dead"] * 20)
    part = build(Site.load(node))
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
        build(Site.load(node))
    assert not (node.parent / "state" / LEDGER).exists() or len(Ledger(node.parent / "state" / LEDGER)) == 0


@pytest.mark.parametrize(
    ("algorithm", "agreed", "sentence"),
    [
        ({"clip": None}, {}, "noise protects only what is clipped: set clip"),
        ({"clip": "much"}, {}, "clip = 'much' should be a number"),
        ({"beta": None}, {}, "algorithm ppgl needs a value for: beta"),
        ({"rho": None, "lam": None}, {}, "needs a value for: rho, lam"),
        ({"rounds": 3}, {}, 'unknown parameter of algorithm ppgl "rounds"'),
        ({"betta": 3}, {}, 'unknown parameter of algorithm ppgl "betta"; did you mean "beta"'),
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
        build(Site.load(files.nodes[0]))


def test_signals_are_one_table(tmp_path):
    files = made(tmp_path / "net", GRAPH)
    np.savez(files.nodes[0].parent / "records.npz", a=np.eye(20), b=np.eye(20))
    with pytest.raises(TacitError, match="holds 2 arrays: a site has one"):
        build(Site.load(files.nodes[0]))
    (files.nodes[0].parent / "own.py").write_text("import numpy\ndef mine():\n    return numpy.eye(20)\n")
    change(files.nodes[0], data={"name": "own.py:mine"})
    assert build(Site.load(files.nodes[0])).task.sizes.tolist() == [20]


def test_sites_that_differ_in_labels_or_name_have_different_networks(node):
    digests = {build(Site.load(node)).description.network}
    for changes in ({"name": "another"}, {"data": {"inputs": [1, 8, 8], "labels": [*range(1, 10), 0]}}):
        change(node.parents[1] / "network.toml", **changes)
        digests.add(build(Site.load(node)).description.network)
    assert len(digests) == 3
