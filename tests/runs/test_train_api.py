"""`tacit.train` with names and with a user's own objects."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import tacit
from tacit.runs import Config, from_config
from tests.runs.cases import assert_same


def quick(*args, **kwargs):
    given = {"nodes": 4, "rounds": 6, "batch": 8, "algorithm": tacit.algorithms.const_d2p(noise_multiplier=1.0)}
    return tacit.train(*args, **given | kwargs)


def blobs(records=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, records)
    return rng.normal(size=(records, 3)) + 4 * y[:, None], y


def blob_data(**options):
    return tacit.Dataset.from_arrays(*blobs(), labels=[0, 1], **options)


def test_train_by_names():
    run = tacit.train("mlp", "digits", algorithm="sgp", graph="ring", nodes=4, rounds=5, seed=3)
    assert run.models.shape == (4, run.task.d)
    assert [row["round"] for row in run.evaluations] == [0, 1, 2, 3, 4, 5]
    assert run.privacy.guaranteed is None
    assert run.network.graph.name == "ring"


def test_train_with_module_arrays_networkx_graph_and_shards():
    torch.manual_seed(0)  # for the parameters of the module
    shards = [list(range(0, 40)), np.arange(40, 90), np.arange(90, 150)]
    given = {"graph": nx.path_graph(3), "sharding": shards, "nodes": 3, "rounds": 100}
    run = quick(nn.Linear(3, 2), blob_data(), **given)
    assert run.evaluations[-1]["accuracy"] > 0.8
    assert run.task.sizes.tolist() == [40, 50, 60]
    assert len(run.privacy.per_node) == 3
    assert run.privacy.guaranteed > 0
    without_noise = quick(nn.Linear(3, 2), blobs(), **given, algorithm="sgp")
    assert without_noise.evaluations[-1]["accuracy"] > 0.8


def test_train_with_model_dataset_and_graph():
    model = tacit.Model(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    run = quick(model, blob_data(), graph=tacit.graphs.ring(4))
    assert run.models.shape == (4, 3 * 4 + 4 + 4 * 2 + 2)


def test_loss_without_accuracy():
    model = tacit.Model.from_loss(lambda w, x, y: ((w - x) ** 2).sum() / 2, torch.zeros(3))
    run = quick(model, blob_data())
    assert "accuracy" not in run.evaluations[-1]
    assert run.result()["accuracy"] is None
    assert run.result()["task"] == "own loss"
    assert run.result()["metrics"] == {"loss": run.evaluations[-1]["loss"]}
    assert run.evaluations[-1]["loss"] > 0


def test_same_seed_gives_the_same_run():
    assert_same(quick(seed=5), quick(seed=5))
    assert not torch.equal(quick(seed=5).models, quick(seed=6).models)


def test_training_does_not_change_the_users_module_or_generator():
    module = nn.Linear(3, 2)
    before = [p.clone() for p in module.parameters()]
    state = torch.random.get_rng_state()
    quick(module, blob_data())
    quick("mlp")
    assert all(torch.equal(p, q) for p, q in zip(module.parameters(), before, strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_train_into_a_folder_and_resume(tmp_path, monkeypatch):
    data, module = blob_data(), nn.Linear(3, 2)
    given = {"graph": nx.cycle_graph(4), "out": tmp_path / "run"}
    real, rounds = tacit.networks.Simulated.mix, []

    def broken(self, t, *values):
        rounds.append(t)
        if len(rounds) == 4:
            raise KeyboardInterrupt
        return real(self, t, *values)

    monkeypatch.setattr(tacit.networks.Simulated, "mix", broken)
    stopped = quick(module, data, **given)
    assert (stopped.t, stopped.interrupted) == (3, True)
    resumed = quick(module, data, resume=True, **given)
    assert rounds == [0, 1, 2, 3, 3, 4, 5]
    assert_same(resumed, quick(module, data, graph=nx.cycle_graph(4)))
    with pytest.raises(tacit.TacitError, match="is not empty"):
        quick(module, data, **given)
    with pytest.raises(tacit.TacitError, match="seed is 0 in the ledger, got 1"):
        quick(module, data, resume=True, seed=1, **given)


def test_progress_goes_to_standard_error(capsys):
    quick(progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "round 6 of 6" in err
    assert "guaranteed (simulated) ε" in err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rounds": 0}, "rounds = 0 should be greater than or equal to 1"),
        ({"epsilon": -1.0}, "epsilon = -1.0 should be greater than 0"),
        ({"delta": 1.0}, "delta = 1.0 should be less than 1"),
        ({"graph": "rnig"}, 'unknown graph "rnig"; did you mean "ring"?'),
        ({"algorithm": "dynd2p"}, 'unknown algorithm "dynd2p"; did you mean "dyn-d2p"?'),
        ({"sharding": "iud"}, 'unknown sharding "iud"; did you mean "iid"?'),
        ({"sharding": [np.arange(9)] * 3}, "got 3 shards for a graph of 4 nodes"),
        (
            {"sharding": [np.arange(9)] * 3 + [np.arange(10**6)]},
            "shard 3 contains index 1437; valid indices",
        ),
        ({"sampling": "poison"}, "sampling = 'poison' should be"),
        ({"graph": nx.empty_graph(4)}, "4 components"),
        ({"resume": True}, "resume=True needs out"),
        ({"extend": 5}, "extend must be a number of rounds to add and needs resume=True, got 5"),
    ],
)
def test_bad_input(given, words):
    with pytest.raises(tacit.TacitError) as refusal:
        quick(**given)
    assert words in str(refusal.value)


def test_package_exports_all_names():
    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
    assert set(tacit.__all__) <= set(dir(tacit))
    with pytest.raises(AttributeError, match="trian"):
        _ = tacit.trian


def test_node_accuracy_is_measured_on_request():
    algorithm = {"name": "dyn-d2p", "lr": 0.5, "noise_multiplier": 0.5}
    config = {"rounds": 8, "graph": {"name": "ring", "nodes": 5}, "algorithm": algorithm}
    run = from_config(Config.parse({**config, "measure": ["node_accuracy"]})).go()
    each = [run.task.evaluate(model).accuracy for model in run.models]
    assert len(set(each)) > 1
    assert run.evaluations[-1]["node_accuracy"] == pytest.approx(sum(each) / 5, abs=1e-6)
    assert "node_accuracy" not in from_config(Config.parse(config)).go().evaluations[-1]
