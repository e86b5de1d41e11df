"""The command `tacit list`."""

import json

import pytest

from tacit.algorithms import algorithms
from tacit.graph_learning import graph_methods
from tacit.graphs import graphs
from tacit.tasks import datasets, heads, models, shards


def test_every_name_is_listed_with_a_description(tacit):
    printed = tacit("list").out
    listed = json.loads(tacit("list", "--json").out)
    kinds = {
        "algorithms": algorithms,
        "graph learners": graph_methods,
        "graphs": graphs,
        "models": models,
        "tasks": heads,
        "data": datasets,
        "shardings": shards,
    }
    assert list(listed) == [*kinds, "metrics of predictions", "optional metrics", "recipes", "experiments"]
    for kind, registry in kinds.items():
        assert list(listed[kind]) == list(registry)
    assert list(listed["metrics of predictions"])[:3] == ["accuracy", "rmse", "mae"]
    assert "dyn-d2p/table2" in listed["experiments"]
    for names in listed.values():
        for name, line in names.items():
            assert line
            assert any(text.split()[:1] == [name] and text.endswith(line) for text in printed.splitlines())


def test_one_name_is_described_with_its_parameters(tacit):
    printed = tacit("list", "dyn-d2p").out
    assert printed.startswith("Dyn-D²P: the clipping bound")
    assert "\n  rho_c = 2.0\n" in printed
    assert "\n  noise_multiplier: not set" in printed
    assert "name" not in [line.split()[0] for line in printed.splitlines() if line.startswith("  ")]
    found = json.loads(tacit("list", "csv", "--json").out)
    assert found["needed"] == ["path"]
    assert found["defaults"]["label"] == -1
    assert json.loads(tacit("list", "porter", "--json").out)["defaults"]["compression"] == {}


def test_tasks_are_described_with_their_parameters(tacit):
    assert json.loads(tacit("list", "regression", "--json").out)["defaults"] == {"loss": "squared", "delta": 0.2}
    assert "class_weights: not set" in tacit("list", "binary").out


def test_parameters_that_a_run_sets_are_not_listed(tacit):
    assert "target" not in json.loads(tacit("list", "counts", "--json").out)["needed"]
    assert "inputs" not in tacit("list", "mlp").out
    assert "rounds" not in json.loads(tacit("list", "dp-norm", "--json").out)["defaults"]


def test_keys_of_the_section_are_listed(tacit):
    def keys(name):
        return set(json.loads(tacit("list", name, "--json").out)["defaults"])

    assert {"share", "local"} <= keys("dyn-d2p") & keys("sgp")
    assert not {"share", "local", "sensitivity"} & keys("dp-sgd")
    assert "drop_links" in keys("ring")
    assert "weight_decay" in keys("mlp")
    assert "clip" in keys("ppgl")
    assert {"closing_rounds", "mixings", "momentum", "weights", "averaging", "averaging_start"} <= keys("const-d2p")
    assert {"closing_rounds", "averaging"} <= keys("porter")
    assert not {"momentum"} & keys("porter")
    assert not {"closing_rounds", "mixings", "momentum", "weights"} & keys("dp-norm")
    assert "averaging" not in keys("ppgl")


def test_experiment_is_described(tacit):
    assert tacit("list", "dp-norm/figure2").out.startswith("Ring of 6 nodes")


def test_unknown_name_is_refused(tacit):
    ended = tacit("list", "logistik")
    assert ended.code == 2
    assert ended.err == 'error: unknown name "logistik"; did you mean "logistic"?\n'


def test_every_name_can_be_described(tacit):
    for names in json.loads(tacit("list", "--json").out).values():
        for name in names:
            ended = tacit("list", name)
            assert ended.code == 0, ended.err
            assert ended.out.strip()


def test_version_is_printed(tacit):
    assert tacit("--version").out.startswith("tacit 0.")


@pytest.mark.parametrize("name", ["ppgl", "igl", "fedavg"])
def test_train_refuses_graph_learners(tacit, name):
    ended = tacit("train", "--set", f"algorithm={name}")
    assert (ended.code, ended.err) == (2, f"error: {name} learns a graph, not a model: use tacit learn-graph\n")
