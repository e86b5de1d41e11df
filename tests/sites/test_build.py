"""A site builds its part of the simulated run, with noise calibrated for its own records."""

import shutil

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.graph_learning import PPGL, GraphLearningRun, Signals, synthetic
from tacit.networks import Simulated, run_on_threads
from tacit.privacy import Ledger, Noise, guarantee, plan
from tacit.runs import Config, Run, from_config
from tacit.sites.build import build_site
from tacit.sites.private_state import LEDGER
from tacit.sites.site_config import SiteConfig

from .small_network import BASE, UNEVEN_SIZES, change_toml, create_small_network

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

OWN = """
import numpy as np
from tacit import Dataset

def wrong():
    return 3

def undeclared():
    return Dataset.from_arrays(np.ones((100, 1, 8, 8)), np.arange(100) % 10)

def private_range():
    import pandas as pd
    columns = {"age": {"range": "private", "within": [0, 9]}, "y": {"label": [0, 1]}}
    return Dataset.from_frame(pd.DataFrame({"age": range(9), "y": 0}), columns)
"""


def build_all(files):
    return [build_site(SiteConfig.load(node)) for node in files.nodes]


@pytest.mark.parametrize("method", METHODS)
def test_sites_give_the_models_of_the_simulation(tmp_path, method):
    """With the same noise seed and sites of different sizes, models, noise scales and rates are equal."""
    files = create_small_network(tmp_path / "net", {**BASE, **METHODS[method]}, noise_seed=5)
    parts = build_all(files)
    assert len({part.description.digest for part in parts}) == 1

    def host(network):
        part = parts[int(network.nodes[0])]
        return Run(part.task, part.algorithm, network, delta=part.delta).go()

    separate = run_on_threads(parts[0].graph, host)
    simulated = from_config(Config.load(files.simulation)).go()
    assert torch.cat([run.models for run in separate]).sub(simulated.models).abs().max() <= 1e-6
    for i, part in enumerate(parts):
        for own, whole in zip(part.ledger.releases(), simulated.task.ledger.releases(), strict=True):
            assert own.multipliers == whole.multipliers[[i]]
            assert own.rates == whole.rates[[i]]


def test_sites_draw_the_batches_of_the_simulation(tmp_path):
    files = create_small_network(tmp_path / "net", BASE, noise_seed=5)
    whole = from_config(Config.load(files.simulation)).task
    for part in build_all(files):
        drawn, all_ = part.task.sampler.draw(3), whole.sampler.draw(3)
        mine = drawn.records[0][drawn.weight[0] > 0]
        theirs = all_.records[part.node][all_.weight[part.node] > 0]
        assert torch.equal(mine, theirs)
        assert torch.equal(part.task.data.x[mine], whole.data.x[whole.shards[part.node]][theirs])
        assert torch.equal(part.task.data.test_x, whole.data.test_x)


def test_noise_that_depends_on_erased_keys_is_refused(three_sites, tmp_path):
    shutil.copytree(three_sites, tmp_path / "net")
    network = tmp_path / "net" / "network.toml"
    network.write_text(network.read_text().replace('correlation = "none"', 'correlation = "time"'))
    node = SiteConfig.load(tmp_path / "net" / "site-1" / "node.toml")
    assert node.noise_seed is None
    with pytest.raises(TacitError, match="whose keys a site erases"):
        build_site(node)
    assert not node.state.exists()


def test_noise_is_calibrated_for_each_site(three_sites, tmp_path):
    shutil.copytree(three_sites, tmp_path / "net")
    for name in ("site-1", "site-2", "site-3"):
        part = build_site(SiteConfig.load(tmp_path / "net" / name / "node.toml"))
        assert part.task.sampler.sampling.rate == 16 / UNEVEN_SIZES["sizes"][part.node]
        spent = guarantee(
            plan(part.algorithm.privacy, part.algorithm.rounds, part.task.sampling, part.task.nodes), part.delta
        )
        assert 2.0 * 0.98 <= spent[0] <= 2.0
        assert (part.ledger.budget.epsilon, part.ledger.durable) == (2.0, True)


@pytest.mark.parametrize(("clip", "statistic"), [(20.0, "differences"), (None, "gram")])
def test_sites_give_the_graphs_of_the_simulation(tmp_path, clip, statistic):
    files = create_small_network(tmp_path / "net", GRAPH, noise_seed=2)
    algorithm = {key: value for key, value in GRAPH["algorithm"].items() if key != "clip" or clip is not None}
    change_toml(files.network, algorithm=algorithm)
    parts = build_all(files)
    assert {part.config.algorithm.parameters["statistic"] for part in parts} == {statistic}
    data = synthetic.rbf(clients=3, signals=500, seed=2)
    task = Signals(data.signals, clip=clip, noise=Noise.from_seed(2))
    method = PPGL(beta=0.1, rho=1.0, lam=0.1, rounds=5, statistic=statistic).with_privacy(2.0, 1e-5)
    simulated = GraphLearningRun(task, method, Simulated(parts[0].graph), quiet=True).go()

    def host(network):
        part = parts[int(network.nodes[0])]
        return GraphLearningRun(part.task, part.algorithm, network, delta=part.delta, quiet=True).go()

    separate = run_on_threads(parts[0].graph, host)
    assert torch.cat([learning.graphs for learning in separate]).sub(simulated.graphs).abs().max() <= 1e-9
    assert all(1.99 <= learning.privacy.guaranteed <= 2.0 for learning in separate)
    assert [part.ledger.budget.epsilon for part in parts] == [2.0] * 3


@pytest.mark.parametrize("seed", [None, 2])
def test_only_seeded_noise_on_signals_is_called_a_simulation(tmp_path, seed):
    part = build_all(create_small_network(tmp_path / "net", GRAPH, noise_seed=seed))[0]
    note = GraphLearningRun(part.task, part.algorithm, Simulated(part.graph), quiet=True).privacy.note
    assert ("SIMULATION" in note) == (seed is not None)
    again = part.task.with_new_ledger()
    assert (again.noise is part.noise) == (seed is not None)


def test_site_without_a_class_numbers_the_others_like_all(node):
    rng = np.random.default_rng(0)
    y = np.repeat([3, 7, 9], 40)
    np.savez(node.parent / "records.npz", x=rng.random((120, 1, 8, 8)), y=y)
    data = build_site(SiteConfig.load(node)).task.data
    assert (data.classes, data.split) == (10, "content")
    assert sorted(data.y.unique().tolist()) == sorted(data.test_y.unique().tolist()) == [3, 7, 9]
    assert len(data.y) + len(data.test_y) == 120
    assert 10 < len(data.test_y) < 40  # about 20 % of its records are test records


@pytest.mark.parametrize("classes", [[0], [0, 5], list(range(10))])
def test_site_starts_whatever_classes_its_records_have(node, classes):
    """Other sites can observe whether it starts."""
    x, y = np.random.default_rng(0).random((120, 1, 8, 8)), np.resize(classes, 120)
    np.savez(node.parent / "records.npz", x=x, y=y)
    part = build_site(SiteConfig.load(node))
    assert (part.task.data.classes, part.task.d) == (10, 650)
    assert part.task.data.test_x.shape[1:] == (1, 8, 8)


def test_split_of_a_site_follows_the_relation_of_the_network(node):
    np.savez(node.parent / "records.npz", x=np.random.default_rng(0).random((120, 1, 8, 8)), y=np.arange(120) % 10)
    change_toml(node.parents[1] / "network.toml", batch={"size": 16, "sampling": "without-replacement"})
    assert build_site(SiteConfig.load(node)).task.data.split == "index"
    change_toml(node, data={"name": "npz", "path": "records.npz", "split": "content"})
    with pytest.raises(TacitError, match='split = "content" does not fit the relation "replace-one"'):
        build_site(SiteConfig.load(node))


def test_test_file_of_a_site(node):
    change_toml(SiteConfig.load(node).network, data={"inputs": [2], "labels": ["ill", "well"]})
    (node.parent / "train.csv").write_text("a,b,state\n" + "0,1,ill\n1,0,well\n" * 20)
    (node.parent / "test.csv").write_text("a,b,state\n0,1,well\n")
    change_toml(node, data={"name": "csv", "path": "train.csv", "test_path": "test.csv", "label": "state"})
    data = build_site(SiteConfig.load(node)).task.data
    assert (len(data.y), data.test_y.tolist(), data.split) == (40, [1], None)


def test_named_labels(node):
    change_toml(SiteConfig.load(node).network, data={"inputs": [2], "labels": ["ill", "well", "dead"]})
    np.savez(node.parent / "records.npz", x=np.random.default_rng(0).random((40, 2)), y=["well", "dead"] * 20)
    part = build_site(SiteConfig.load(node))
    assert sorted(part.task.data.y.unique().tolist()) == [1, 2]
    assert part.description.labels == ("ill", "well", "dead")


@pytest.mark.parametrize(
    ("network_changes", "node_changes", "error"),
    [
        ({"algorithm": {"name": "dyn-d2p", "lrr": 1}}, {}, 'unknown parameter of algorithm dyn-d2p "lrr"'),
        ({"algorithm": {"name": "dinpsp"}}, {}, "unknown algorithm"),
        ({"graph": {"name": "rign"}}, {}, 'unknown graph "rign"; did you mean "ring"'),
        ({"graph": {"name": "ring", "directed": True}, "algorithm": {"name": "lt-admm-dp"}}, {}, "needs"),
        ({"model": {"name": "logistics"}}, {}, 'unknown model "logistics"'),
        (
            {"data": {"inputs": [64], "classes": 10}},
            {},
            r"shape \[1, 8, 8\], but .* requires shape \[64\]",
        ),
        (
            {"data": {"inputs": [1, 8, 8], "classes": 12}},
            {"data": "digits"},
            "10 classes, but .* requires 12 classes",
        ),
        ({"data": {"inputs": [1, 8, 8], "classes": 5}}, {}, "is not one of the labels 0, 1, 2, 3, 4"),
        ({}, {"data": {"name": "npz", "path": "records.npz", "labels": [1, 0]}}, "data.labels differs from"),
        ({}, {"data": {"name": "npz", "path": "none.npz"}}, "there is no file .*site-2/none.npz"),
        ({}, {"data": {"name": "own.py:wrong"}}, "own.py:wrong must return a Dataset"),
        ({}, {"data": {"name": "own.py:undeclared"}}, "the classes were learnt from the records"),
        ({"algorithm": {"name": "sgp"}, "privacy": {}}, {"data": {"name": "own.py:undeclared"}}, "classes were learnt"),
        (
            {},
            {"data": {"name": "own.py:private_range"}},
            r"age: range = \"private\" is .* only: declare range = \[low, high\]",
        ),
        ({"batch": {"size": 500}}, {}, "batch.size is 500, but node 1 has only 200 records"),
        ({"privacy": {"epsilon": 2.0, "delta": 1e-3, "budget": 1.0}}, {}, "does not cover all 4 rounds"),
        ({"algorithm": {"name": "sgp"}}, {}, "SGP adds no noise"),
        ({"algorithm": {"name": "dyn-d2p", "noise_multiplier": 1.0}}, {}, "both set the noise"),
    ],
)
def test_invalid_networks_are_refused(node, network_changes, node_changes, error):
    (node.parent / "own.py").write_text(OWN)
    change_toml(node.parents[1] / "network.toml", **network_changes)
    change_toml(node, **node_changes)
    with pytest.raises(TacitError, match=error):
        build_site(SiteConfig.load(node))
    assert not (node.parent / "state" / LEDGER).exists() or len(Ledger(node.parent / "state" / LEDGER)) == 0


@pytest.mark.parametrize(
    ("algorithm", "network_changes", "error"),
    [
        ({"clip": None, "statistic": "differences"}, {}, "Noise on squared differences needs a clip: set clip"),
        ({"statistic": "gram"}, {}, 'clip = 20 has no effect with statistic = "gram"'),
        ({"statistic": "mean"}, {}, "statistic = 'mean' should be 'gram' or 'differences'"),
        ({"clip": "much"}, {}, "clip = 'much' must be a number"),
        ({"beta": None}, {}, "algorithm ppgl requires values for: beta"),
        ({"rho": None, "lam": None}, {}, "requires values for: rho, lam"),
        ({"rounds": 3}, {}, 'unknown parameter of .* ppgl "rounds"'),
        ({"betta": 3}, {}, 'unknown parameter of .* ppgl "betta"; did you mean "beta"'),
        ({}, {"data": {"vertices": 7}}, "the data have signals on 20 vertices, but .* requires 7 vertices"),
        ({}, {"privacy": {"epsilon": 1.0, "calibration": "paper"}}, "supports guaranteed noise only"),
        ({}, {"privacy": {"budget": 1.0}}, "has no noise, so no privacy.budget can hold"),
        ({}, {"privacy": {"epsilon": 2.0, "budget": 1.0}}, "does not cover all 5 rounds"),
    ],
)
def test_invalid_graph_learning_networks_are_refused(tmp_path, algorithm, network_changes, error):
    files = create_small_network(tmp_path / "net", GRAPH)
    both = {**GRAPH["algorithm"], **algorithm}
    change_toml(files.network, algorithm={key: v for key, v in both.items() if v is not None}, **network_changes)
    with pytest.raises(TacitError, match=error):
        build_site(SiteConfig.load(files.nodes[0]))


def test_signals_must_be_one_array(tmp_path):
    files = create_small_network(tmp_path / "net", GRAPH)
    np.savez(files.nodes[0].parent / "records.npz", a=np.eye(20), b=np.eye(20))
    with pytest.raises(TacitError, match="contains 2 arrays: a site needs one array"):
        build_site(SiteConfig.load(files.nodes[0]))
    (files.nodes[0].parent / "own.py").write_text("import numpy\ndef mine():\n    return numpy.eye(20)\n")
    change_toml(files.nodes[0], data={"name": "own.py:mine"})
    assert build_site(SiteConfig.load(files.nodes[0])).task.sizes.tolist() == [20]


def test_labels_and_name_are_part_of_the_digest(node):
    digests = {build_site(SiteConfig.load(node)).description.digest}
    for changes in ({"name": "another"}, {"data": {"inputs": [1, 8, 8], "labels": [*range(1, 10), 0]}}):
        change_toml(node.parents[1] / "network.toml", **changes)
        digests.add(build_site(SiteConfig.load(node)).description.digest)
    assert len(digests) == 3
