"""The resolved config: every default is recorded, and the config gives the same run again."""

import inspect
import tomllib

import networkx as nx
import numpy as np
import pytest
import torch

import tacit
from tacit.algorithms import algorithms
from tacit.graphs import graphs
from tacit.runs import Config, from_config, resolved_config
from tests.helpers import adds_noise
from tests.runs import own
from tests.runs.cases import SMALL, assert_same

QUICK = SMALL | {"rounds": 3, "evaluate_every": 1, "data": {"name": "digits", "normalise": "unit"}}


def listed(value):
    return [listed(part) for part in value] if isinstance(value, list | tuple) else value


def config_of(name, target):
    example = {key: listed(value) for key, value in algorithms.example(name).items()}
    privacy = {"delta": 1e-4, "epsilon": 4.0} if target else {"delta": 1e-4}
    if target:
        example = {key: value for key, value in example.items() if key not in algorithms.noise_parameters(name)}
    graph = {"name": "ring", "nodes": 4}
    return Config.parse(QUICK | {"algorithm": {"name": name, **example}, "graph": graph, "privacy": privacy})


@pytest.mark.parametrize("name", list(algorithms))
def test_every_algorithm_runs_the_same_from_its_resolved_config(name, tmp_path):
    target = adds_noise(name) and not isinstance(algorithms.example(name).get("noise_multiplier"), list)
    config = config_of(name, target)
    first = from_config(config, out=tmp_path / "first").go()
    again = Config.load(tmp_path / "first/config.toml")
    assert_same(from_config(again, out=tmp_path / "again").go(), first)
    assert (tmp_path / "first/config.toml").read_bytes() == (tmp_path / "again/config.toml").read_bytes()
    noise = algorithms.noise_parameters(name) if target else ()
    for key, option in algorithms.options(name).items():
        if option.default not in (None, inspect.Parameter.empty) and key not in noise:
            assert key in again.algorithm.parameters, key


@pytest.mark.parametrize("name", [name for name in graphs if name != "edges"])
def test_every_graph_has_its_defaults(name):
    table = resolved_config(Config.parse({"graph": {"name": name, "nodes": 8}})).graph.parameters
    defaults = {key: option.default for key, option in graphs.options(name).items()}
    assert {key: table[key] for key in defaults if defaults[key] not in (None, inspect.Parameter.empty)} == {
        key: value for key, value in defaults.items() if value not in (None, inspect.Parameter.empty)
    }
    assert (table["drop_links"], table["drop_nodes"], table["drop_seed"]) == (0, 0, 0)


def test_values_that_depend_on_other_keys_are_resolved():
    config = resolved_config(Config.parse({"seed": 5, "rounds": 100, "privacy": {"epsilon": 2.0}}))
    assert config.sharding.parameters["seed"] == 5
    assert config.evaluate_every == 5
    assert config.batch.relation == "add-remove"
    assert config.privacy.budget == 2.0
    shuffled = Config.parse({"batch": {"size": 8, "sampling": "permutation"}, "privacy": {"delta": 1e-4}})
    assert resolved_config(shuffled).batch.relation == "replace-one"
    assert resolved_config(shuffled).privacy.budget is None
    own_seed = Config.parse({"seed": 5, "sharding": {"name": "iid", "seed": 0}})
    assert resolved_config(own_seed).sharding.parameters["seed"] == 0


def test_seed_of_the_sharding_is_that_of_the_run(tmp_path):
    changes = SMALL | {"seed": 3, "rounds": 2}
    first = from_config(Config.parse(changes), out=tmp_path / "run").go()
    again = from_config(Config.load(tmp_path / "run/config.toml")).go()
    assert [part.tolist() for part in again.task.shards] == [part.tolist() for part in first.task.shards]
    assert_same(first, again)


def test_noise_that_a_target_sets_is_left_out_and_other_noise_is_kept():
    target = Config.parse({"algorithm": "sgpdp", "privacy": {"epsilon": 2.0}})
    assert not {"noise_rate", "b"} & set(resolved_config(target).algorithm.parameters)
    by_hand = Config.parse({"algorithm": {"name": "sgpdp", "noise_rate": 0.5}})
    assert resolved_config(by_hand).algorithm.parameters["b"] == 1.0


def test_compressor_has_its_defaults():
    config = Config.parse({"algorithm": {"name": "porter", "compressor": "top-k"}, "privacy": {"epsilon": 2.0}})
    assert resolved_config(config).algorithm.parameters["compression"] == {"share": 0.1}


def test_resolving_twice_changes_nothing():
    config = resolved_config(Config.load(None))
    assert resolved_config(config) == config


def test_python_objects_record_what_is_known(tmp_path):
    x = np.random.default_rng(0).normal(size=(80, 3))
    run = tacit.train(
        torch.nn.Linear(3, 2),
        tacit.Dataset.from_arrays(x, (x[:, 0] > 0).astype(int), labels=[0, 1]),
        graph=nx.cycle_graph(4),
        algorithm=own.Mine(lr=0.3),
        rounds=2,
        batch=4,
        delta=1e-2,
        out=tmp_path / "run",
    )
    saved = tomllib.loads((tmp_path / "run/config.toml").read_text())
    assert saved["algorithm"] == {"name": "python: Mine", "lr": 0.3, "noise": 1.0, "local": "private"}
    assert saved["data"] == {"name": "python: Dataset", "records": len(run.task.data.y), "inputs": [3], "classes": 2}
    assert saved["model"] == {"name": "python: Linear", "parameters": 8}
    assert saved["graph"] == {"name": "python: Graph", "nodes": 4}
    assert run.config == saved
    schedules = tacit.train(algorithm=tacit.algorithms.dyn_d2p(noise_multiplier=2.0), rounds=2, nodes=4)
    assert schedules.config["algorithm"]["clip"] == "Geometric(start=1.0, ratio=0.5)"
