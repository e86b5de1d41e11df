"""Partial sharing for the push-sum family: only shared columns are sent, and local parameters are accounted."""

import dataclasses

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.networks import Simulated
from tacit.privacy import Gaussian
from tacit.runs import Config, from_config
from tacit.tasks import Clip, Metrics

NODES, ROUNDS, BATCH = 4, 8, 16


def run(rounds=ROUNDS, seed=0, **algorithm):
    """A perceptron on the digits: "0.*" are 64·6 + 6 = 390 of 460 parameters."""
    chosen = {"name": "dyn-d2p", "noise_multiplier": 1.0, "lr": 0.5} | algorithm
    config = {
        "rounds": rounds,
        "seed": seed,
        "model": {"name": "mlp", "hidden": [6]},
        "graph": {"name": "one-peer-exponential", "nodes": NODES},
        "algorithm": chosen,
        "batch": {"size": BATCH},
        "privacy": {"delta": 1e-4},
    }
    return from_config(Config.parse(config)).go()


@pytest.fixture(scope="module")
def whole():
    return run()


@pytest.fixture(scope="module")
def private():
    return run(share=["0.*"])


@pytest.fixture(scope="module")
def exact():
    return run(share=["0.*"], local="exact")


def test_only_shared_columns_are_sent(whole, private, exact):
    for found, columns in ((whole, 460), (private, 390), (exact, 390)):
        assert found.task.model.shared == columns
        assert found.network.traffic.messages == ROUNDS * NODES
        assert found.network.traffic.bytes == ROUNDS * NODES * 4 * (columns + 1)  # single precision, and the weight w


def test_nodes_agree_on_shared_parameters_only(private, exact):
    for found in (private, exact):
        _, local = found.task.split(found.models)
        assert min((local[i] - local[j]).abs().max() for i in range(NODES) for j in range(i)) > 1e-3
    # Four nodes and two offsets: each column that travels is averaged exactly in two rounds without gradients.
    network = Simulated(private.network.graph)
    mixed = private.algorithm.start(private.task, network.graph)
    mixed = dataclasses.replace(mixed, x=torch.randn_like(mixed.x), local=torch.randn_like(mixed.local))
    for t in range(2):
        still = dataclasses.replace(private.algorithm, lr=1e-30)
        mixed, before = still.round(t, mixed, private.task.host(range(NODES)), network), mixed
        assert torch.equal(mixed.local, before.local)
    assert torch.allclose(mixed.x, mixed.x.mean(0).expand_as(mixed.x), atol=1e-5)


def test_evaluation_uses_mean_shared_and_own_local_parameters(private, exact):
    for found in (private, exact):
        shared, local = found.task.split(found.models)
        each = [found.task.evaluate(torch.cat([shared.mean(0), own])) for own in local]
        expected = Metrics(*np.mean(each, axis=0))
        assert found.evaluations[-1]["accuracy"] == pytest.approx(expected.accuracy, abs=1e-6)
        assert found.evaluations[-1]["loss"] == pytest.approx(expected.loss, rel=1e-5)


def test_private_local_parameters_cost_as_much_as_full_sharing(whole, private):
    assert private.privacy.guaranteed == whole.privacy.guaranteed
    assert private.privacy.claimed == whole.privacy.claimed
    for one, other in zip(private.task.ledger.releases(), whole.task.ledger.releases(), strict=True):
        assert (one.step, one.purpose, one.mechanism.name) == (other.step, other.purpose, other.mechanism.name)
        assert one.multipliers.tolist() == other.multipliers.tolist()
        assert (one.sampling.kind, one.rates.tolist()) == (other.sampling.kind, other.rates.tolist())
    assert "without noise" not in private.privacy.note


def test_local_parameters_get_the_same_clip_and_noise():
    # After one round: what was not mixed is what full sharing would have sent; the layout is the same for "0.*".
    part = run(1, share=["0.*"], name="const-d2p", lr=1.0)
    shared, local = part.task.split(part.models)
    task = part.task.host(range(NODES))
    g = task.gradient(task.initial(), 0, Clip(1.0))
    assert g.value.shape == (NODES, 460)
    sent = task.initial() - Gaussian(1.0).release(g)
    assert torch.allclose(local, sent[:, 390:], atol=1e-6)
    mixed = torch.from_numpy(part.network.graph.at(0).toarray()).float() @ sent[:, :390]
    assert torch.allclose(shared, mixed, atol=1e-5)


def test_exact_local_parameters_cost_more_and_are_noted(private, exact):
    assert exact.privacy.guaranteed > private.privacy.guaranteed
    assert exact.privacy.covers_models is False
    assert private.privacy.covers_models is True
    assert "covers neither the models" in exact.privacy.note
    for line in exact.task.ledger.releases():
        assert (line.sampling.kind, set(line.rates.tolist())) == ("none", {1.0})


def test_exact_local_parameters_have_no_noise_and_shared_ones_have_more():
    part = run(1, share=["0.*"], local="exact", name="const-d2p", lr=1.0)
    shared, local = part.task.split(part.models)
    task = part.task.host(range(NODES))
    g = task.gradient(task.initial(), 0)
    assert torch.allclose(local, task.split(task.initial())[1] - g.local, atol=1e-6)
    # Every record of the node may have been moved: (2 · size + 1) C / B a node, half of it from each of two nodes.
    deviation = (2 * task.sizes + 1) / BATCH
    spread = (shared - task.split(task.initial())[0]).std(1).numpy()
    expected = [np.sqrt((part.network.graph.at(0)[[i]].toarray() ** 2 @ deviation**2)[0]) for i in range(NODES)]
    assert spread == pytest.approx(expected, rel=5 / np.sqrt(2 * 390))


@pytest.mark.parametrize("local", ["private", "exact"])
@pytest.mark.parametrize("name", ["dyn-c-d2p", "dyn-mu-d2p", "const-d2p"])
def test_noise_is_calibrated_for_private_and_exact_local_parameters(name, local):
    config = {
        "rounds": 5,
        "model": {"name": "mlp", "hidden": [6]},
        "graph": {"name": "ring", "nodes": 4},
        "algorithm": {"name": name, "share": ["2.*"], "local": local},
        "batch": {"size": BATCH},
        "privacy": {"epsilon": 2.0, "delta": 1e-4},
    }
    found = from_config(Config.parse(config)).go()
    assert found.stopped is None
    assert 1.96 <= found.privacy.guaranteed <= 2.0


def test_sgp_supports_partial_sharing():
    config = {"rounds": 3, "algorithm": {"name": "sgp", "share": ["0.weight"]}, "graph": {"name": "ring", "nodes": 3}}
    found = from_config(Config.parse(config)).go()
    assert (found.task.model.shared, found.task.d) == (640, 650)
    assert found.network.traffic.bytes == 3 * 6 * 4 * 641
    assert found.privacy.guaranteed is None


def test_pattern_without_match_lists_the_parameters():
    with pytest.raises(
        TacitError, match=r"matches no parameter; the parameters are: 0.weight, 0.bias, 2.weight, 2.bias"
    ):
        run(share=["1.*"])
