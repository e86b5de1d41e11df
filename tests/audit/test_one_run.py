"""Audits of whole runs in one execution."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.audit import audit_one_run
from tacit.audit.canary_model import CanaryModel, plant_canaries
from tacit.audit.recording import NodeRecordingNetwork
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.runs import Config, from_config
from tacit.tasks import Clip, Model
from tests.audit.test_audit import PRIVATE, Gossip
from tests.audit.test_audit import config as small
from tests.helpers import digits_task, example_algorithm, required_parameters


def config(name, epsilon=8.0, rounds=5, nodes=4, algorithm=None, seed=0, **batch):
    base = small(name, epsilon, **batch).as_dict()
    base["algorithm"].update(algorithm or {})
    return Config.parse({**base, "rounds": rounds, "seed": seed, "graph": {"name": "ring", "nodes": nodes}})


PROTECTS_RECORDS = [
    name
    for name in PRIVATE
    if (algorithm := example_algorithm(name, 1)).privacy.unit == "record"
    and not algorithm.fits_linear_classifiers_only
    and "noise_multiplier" not in required_parameters(name)
]


def small_canary_parts(relation="add-remove", **options):
    task = digits_task(3, batch=None, **options)
    included = np.array([True, False, True, True, False])
    return task, plant_canaries(task, included, 1, relation), included


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("options", [{}, {"share": ["*weight"]}, {"share": ["*weight"], "bounds": "all"}])
@pytest.mark.parametrize(
    "clip",
    [None, Clip(0.1), Clip(0.3, "smooth"), Clip(0.2, "l1"), Clip(0.2, per="batch"), Clip(torch.tensor([0.1, 0.2]))],
    ids=str,
)
def test_gradients_match_differentiation_of_the_loss(relation, options, clip):
    """The real model's engine and the shortcut for canaries, compared with differentiation of the whole loss."""
    task, parts, _ = small_canary_parts(relation, **options)
    model = parts.model
    torch.manual_seed(1)
    params = torch.randn(2, model.d)
    records = torch.tensor([[0, 3, 1400, 7], [9, len(parts.data.y) - 1, len(parts.data.y) - 5, len(parts.data.y) - 2]])
    assert (parts.data.y[records] >= task.data.classes).sum() == 3
    weight = torch.tensor([[1.0, 0.5, 1.0, 0.0], [1.0, 2.0, 1.0, 1.0]])
    for before in (None, torch.randn(2, model.d)):
        arguments = params, parts.data.x[records], parts.data.y[records], weight, clip, None, before
        torch.testing.assert_close(
            model.gradient_sum(*arguments), Model.gradient_sum(model, *arguments), rtol=1e-4, atol=1e-5
        )


def test_a_canary_has_the_length_of_the_clip_bound():
    for relation, absent in (("add-remove", 0.0), ("replace-one", -0.5)):
        _, parts, included = small_canary_parts(relation)
        rows = torch.arange(len(parts.data.y) - 5, len(parts.data.y))[None]
        params = parts.model.initial()[None]
        x, y = parts.data.x[rows], parts.data.y[rows]
        gradient = parts.model.gradient_sum(params, x, y, torch.ones(1, 5), Clip(0.5))[0]
        columns = parts.model.canary_columns
        torch.testing.assert_close(gradient[columns], torch.where(torch.from_numpy(included), 0.5, absent))
        assert gradient.count_nonzero() == (5 if absent else 3)


def test_canaries_do_not_change_sizes_rates_and_the_model():
    settings = config("const-d2p", size=60)
    original = from_config(settings)
    few, many = (np.zeros(count, bool) for count in (100, 1000))
    run = from_config(settings, plant_canaries(original.task, few, 2, "add-remove"))
    assert (run.task.sizes == original.task.sizes).all()
    assert (run.task.sampler.sampling.rate == original.task.sampler.sampling.rate).all()
    assert (run.algorithm.scale == original.algorithm.scale).all()
    start = original.task.model.initial()
    torch.testing.assert_close(run.task.initial()[0, : len(start)], start)
    assert from_config(settings, plant_canaries(original.task, many, 2, "add-remove")).task.sizes[2] == 1000


@pytest.mark.parametrize("name", ["const-d2p", "dyn-d2p", "dp-sgd", "porter", "dp-admm", "lt-admm-dp"])
def test_without_sampling_the_lower_bound_is_substantial(name):
    found = audit_one_run(config(name, rounds=8), canaries=1200)
    assert 1.0 < found.lower <= found.guaranteed <= 8.0
    assert (found.holds, found.canaries, found.rounds) == (True, 1200, 8)
    assert 0 < found.correct <= found.guesses <= 900


@pytest.mark.parametrize(
    "batch",
    [{}, {"size": 60}, {"size": 60, "sampling": "without-replacement"}, {"size": 60, "sampling": "permutation"}],
    ids=["all", "poisson", "fixed", "permutation"],
)
@pytest.mark.parametrize("name", PROTECTS_RECORDS)
def test_no_guarantee_is_broken(name, batch):
    if name == "dp-norm" and batch.get("sampling", "poisson") == "poisson" and batch:
        batch = {**batch, "size": 300}
    found = audit_one_run(config(name, 3.0, rounds=3, **batch), canaries=200, node=1)
    assert found.holds
    assert found.guaranteed <= 3.0


def test_links_to_lower_and_higher_nodes_do_not_cancel():
    """DP-Norm gives them opposite signs."""
    parameters = {"smoothness": 0.5, "bound": "contraction", "lr": 0.1, "local_steps": 1, "alpha": 0.0}
    found = audit_one_run(config("dp-norm", 30.0, algorithm=parameters), canaries=1200, node=1)
    assert 0.3 < found.lower <= found.guaranteed


@pytest.mark.parametrize("local", ["private", "exact"])
def test_canaries_are_shared_parameters(local):
    settings = config("const-d2p", 8.0, rounds=4)
    base = settings.as_dict()
    base["model"] = {"name": "logistic", "biases": True}
    base["algorithm"] = {"name": "const-d2p", "share": ["*weight"], "local": local}
    found = audit_one_run(Config.parse(base), canaries=400)
    assert found.holds
    assert (found.lower > 0.5) == (
        local == "private"
    )  # exact local parameters need so much noise that nothing is found


@pytest.mark.parametrize(("forgotten", "correct"), [(0.0, True), (0.9, False), (1.0, False)])
def test_noise_that_is_recorded_but_missing_is_found(forgotten, correct):
    algorithms.register("gossip-under-test")(lambda: Gossip(forgotten=forgotten))
    try:
        sizes = {"rounds": 4, "batch": {"size": "all"}, "graph": {"name": "ring", "nodes": 4}}
        settings = {"algorithm": "gossip-under-test", **sizes}
        found = audit_one_run(Config.parse(settings), canaries=400)
    finally:
        algorithms._makers.pop("gossip-under-test")
    assert found.holds == correct
    assert ("BROKEN" in found.summary()) == (not correct)


def test_the_network_records_what_the_node_sends_and_receives():
    graph = graphs.build("ring", {"nodes": 4})
    network = NodeRecordingNetwork(graph, 1, slice(0, 2))
    x = torch.arange(12.0).view(4, 3)
    (mixed,) = network.mix(0, x)
    network.end_round()
    edges = network.edges(1)
    z = 10.0 * torch.from_numpy(edges.source)[:, None] + torch.from_numpy(edges.target)[:, None] + torch.zeros(1, 3)
    for active in (edges.source < edges.target, edges.source > edges.target):  # one direction after the other
        network.swap(1, z, torch.from_numpy(active))
    network.end_round()
    recorded = network.recorded()
    assert recorded.shape == (2, 4, 2)
    assert recorded[0].tolist() == [x[1, :2].tolist(), mixed[1, :2].tolist(), [0.0, 0.0], [0.0, 0.0]]
    assert recorded[1, :, 0].tolist() == [10.0, 1.0, 12.0, 21.0]  # sent to 0, from 0, sent to 2, from 2


def test_the_same_seeds_give_the_same_result():
    settings = config("const-d2p", rounds=2)
    one, same, other = (audit_one_run(settings, canaries=100, seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert replace(one, lower=other.lower, guesses=other.guesses, correct=other.correct) == other
    assert one != other


def test_invalid_settings_are_refused():
    with pytest.raises(TacitError, match="protects whole nodes"):
        audit_one_run(config("sgpdp"))
    with pytest.raises(TacitError, match="computes no gradients, which are the canaries"):
        audit_one_run(config("one-shot-ridge"))
    with pytest.raises(TacitError, match="at least 100 canaries"):
        audit_one_run(config("const-d2p"), canaries=99)
    with pytest.raises(TacitError, match="nodes of this network are 0 to 3"):
        audit_one_run(config("const-d2p"), node=4)


def test_the_command(tacit):
    values = ("rounds=25", "batch.size=all", "graph.nodes=4", "privacy.epsilon=8")
    options = [part for pair in values for part in ("--set", pair)]
    ended = tacit("audit", "--one-run", "--canaries", "400", "--json", *options)
    assert ended.code == 0
    found = json.loads(ended.out)
    assert (found["canaries"], found["rounds"], found["node"], found["holds"]) == (400, 25, 0, True)
    assert 0 < found["lower"] <= found["guaranteed"] <= 8.0
    assert len(ended.err.splitlines()) == 20  # of 25 rounds
    assert tacit("audit", "--one-run", "--set", "algorithm=sgpdp").code == 2


def test_a_canary_model_is_as_smooth_as_the_real_one():
    task, parts, _ = small_canary_parts(options={"biases": False})
    assert isinstance(parts.model, CanaryModel)
    assert parts.model.longest_input(2.0) == task.model.longest_input(2.0) == 2.0
