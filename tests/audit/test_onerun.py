"""Whole runs attacked once."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.audit import one_run
from tacit.audit.canaries import Planted, Wiretap, planted
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.runs import Config, from_config
from tacit.tasks import Clip, Model
from tests.audit.test_audit import Gossip
from tests.audit.test_audit import config as small
from tests.helpers import digits_task


def config(name, epsilon=8.0, rounds=5, nodes=4, algorithm=None, seed=0, **batch):
    base = small(name, epsilon, **batch).as_dict()
    base["algorithm"].update(algorithm or {})
    return Config.parse({**base, "rounds": rounds, "seed": seed, "graph": {"name": "ring", "nodes": nodes}})


RECORDS = [
    name
    for name in algorithms
    if {"noise_multiplier", "sigma"} & set(algorithms.parameters(name))
    and name not in ("d2p", "consensus")
    and getattr(algorithms[name], "unit", "record") == "record"
]


def small_planted(relation="add-remove", **options):
    task = digits_task(3, batch=None, **options)
    coins = np.array([True, False, True, True, False])
    return task, planted(task, coins, 1, relation), coins


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("options", [{}, {"share": ["*weight"]}, {"share": ["*weight"], "bounds": "all"}])
@pytest.mark.parametrize(
    "clip",
    [None, Clip(0.1), Clip(0.3, "smooth"), Clip(0.2, "l1"), Clip(0.2, per="batch"), Clip(torch.tensor([0.1, 0.2]))],
    ids=str,
)
def test_gradients_are_those_of_the_loss(relation, options, clip):
    """The engine of the real model and a shortcut for canaries, against plain differentiation of the whole."""
    task, own, _ = small_planted(relation, **options)
    model = own.model
    torch.manual_seed(1)
    params = torch.randn(2, model.d)
    records = torch.tensor([[0, 3, 1400, 7], [9, len(own.data.y) - 1, len(own.data.y) - 5, len(own.data.y) - 2]])
    assert (own.data.y[records] >= task.data.classes).sum() == 3
    weight = torch.tensor([[1.0, 0.5, 1.0, 0.0], [1.0, 2.0, 1.0, 1.0]])
    for before in (None, torch.randn(2, model.d)):
        given = params, own.data.x[records], own.data.y[records], weight, clip, None, before
        torch.testing.assert_close(model.gradient_sum(*given), Model.gradient_sum(model, *given), rtol=1e-4, atol=1e-5)


def test_a_canary_is_as_long_as_the_clip_allows_and_one_that_is_absent_is_nothing():
    for relation, absent in (("add-remove", 0.0), ("replace-one", -0.5)):
        _, own, coins = small_planted(relation)
        rows = torch.arange(len(own.data.y) - 5, len(own.data.y))[None]
        params = own.model.initial()[None]
        x, y = own.data.x[rows], own.data.y[rows]
        moved = own.model.gradient_sum(params, x, y, torch.ones(1, 5), Clip(0.5))[0]
        torch.testing.assert_close(moved[own.model.own], torch.where(torch.from_numpy(coins), 0.5, absent))
        assert moved.count_nonzero() == (5 if absent else 3)


def test_sizes_rates_and_the_model_are_those_of_the_config():
    asked = config("const-d2p", size=60)
    plain = from_config(asked)
    few, many = (np.zeros(count, bool) for count in (100, 1000))
    run = from_config(asked, planted(plain.task, few, 2, "add-remove"))
    assert (run.task.sizes == plain.task.sizes).all()
    assert (run.task.sampler.sampling.rate == plain.task.sampler.sampling.rate).all()
    assert (run.algorithm.scale == plain.algorithm.scale).all()
    start = plain.task.model.initial()
    torch.testing.assert_close(run.task.initial()[0, : len(start)], start)
    assert from_config(asked, planted(plain.task, many, 2, "add-remove")).task.sizes[2] == 1000


@pytest.mark.parametrize("name", ["const-d2p", "dyn-d2p", "dp-sgd", "porter", "dp-admm", "lt-admm-dp"])
def test_without_sampling_it_finds_something(name):
    found = one_run(config(name, rounds=8), canaries=1200)
    assert 1.0 < found.lower <= found.guaranteed <= 8.0
    assert (found.holds, found.canaries, found.rounds) == (True, 1200, 8)
    assert 0 < found.correct <= found.guesses <= 900


@pytest.mark.parametrize(
    "batch",
    [{}, {"size": 60}, {"size": 60, "sampling": "without-replacement"}, {"size": 60, "sampling": "permutation"}],
    ids=["all", "poisson", "fixed", "permutation"],
)
@pytest.mark.parametrize("name", RECORDS)
def test_no_guarantee_is_broken(name, batch):
    if name == "dp-norm" and batch.get("sampling", "poisson") == "poisson" and batch:
        batch = {**batch, "size": 300}
    found = one_run(config(name, 3.0, rounds=3, **batch), canaries=200, node=1)
    assert found.holds
    assert found.guaranteed <= 3.0


def test_at_any_node_with_links_on_both_sides():
    """DP-Norm gives the links to lower and to higher nodes opposite signs, which must not cancel."""
    task = {"smoothness": 0.5, "bound": "contraction", "lr": 0.1, "local_steps": 1, "alpha": 0.0}
    found = one_run(config("dp-norm", 30.0, algorithm=task), canaries=1200, node=1)
    assert 0.3 < found.lower <= found.guaranteed


@pytest.mark.parametrize("local", ["private", "exact"])
def test_canaries_are_in_what_is_shared(local):
    asked = config("const-d2p", 8.0, rounds=4)
    base = asked.as_dict()
    base["model"] = {"name": "logistic", "biases": True}
    base["algorithm"] = {"name": "const-d2p", "share": ["*weight"], "local": local}
    found = one_run(Config.parse(base), canaries=400)
    assert found.holds
    assert (found.lower > 0.5) == (local == "private")  # exact local parameters need so much noise that it hides all


@pytest.mark.parametrize(("forgotten", "sound"), [(0.0, True), (0.9, False), (1.0, False)])
def test_noise_that_is_booked_and_not_added_is_found_out(forgotten, sound):
    algorithms.register("gossip-under-test")(lambda: Gossip(forgotten=forgotten))
    try:
        asked = {"algorithm": "gossip-under-test", "rounds": 4, "batch": {}, "graph": {"name": "ring", "nodes": 4}}
        found = one_run(Config.parse(asked), canaries=400)
    finally:
        algorithms._makers.pop("gossip-under-test")
    assert found.holds == sound
    assert ("BROKEN" in found.sentence()) == (not sound)


def test_one_who_listens_hears_what_goes_over_the_links():
    graph = graphs.build("ring", {"nodes": 4})
    network = Wiretap(graph, 1, slice(0, 2))
    x = torch.arange(12.0).view(4, 3)
    (mixed,) = network.mix(0, x)
    network.end_round()
    edges = network.edges(1)
    z = 10.0 * torch.from_numpy(edges.source)[:, None] + torch.from_numpy(edges.target)[:, None] + torch.zeros(1, 3)
    for turn in (edges.source < edges.target, edges.source > edges.target):  # one way first, then the other
        network.swap(1, z, torch.from_numpy(turn))
    network.end_round()
    heard = network.heard()
    assert heard.shape == (2, 4, 2)
    assert heard[0].tolist() == [x[1, :2].tolist(), mixed[1, :2].tolist(), [0.0, 0.0], [0.0, 0.0]]
    assert heard[1, :, 0].tolist() == [10.0, 1.0, 12.0, 21.0]  # sent to 0, from 0, sent to 2, from 2


def test_the_same_coins_and_noise_give_the_same_finding():
    asked = config("const-d2p", rounds=2)
    one, same, other = (one_run(asked, canaries=100, seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert replace(one, lower=other.lower, guesses=other.guesses, correct=other.correct) == other
    assert one != other


def test_what_cannot_be_audited_so_is_told():
    with pytest.raises(TacitError, match="protects whole nodes"):
        one_run(config("sgpdp"))
    with pytest.raises(TacitError, match="at least 100 canaries"):
        one_run(config("const-d2p"), canaries=99)
    with pytest.raises(TacitError, match="nodes 0 to 3"):
        one_run(config("const-d2p"), node=4)


def test_the_command(tacit):
    settings = ("rounds=25", "batch.size=", "graph.nodes=4", "privacy.epsilon=8")
    given = [part for pair in settings for part in ("--set", pair)]
    ended = tacit("audit", "--one-run", "--canaries", "400", "--json", *given)
    assert ended.code == 0
    found = json.loads(ended.out)
    assert (found["canaries"], found["rounds"], found["node"], found["holds"]) == (400, 25, 0, True)
    assert 0 < found["lower"] <= found["guaranteed"] <= 8.0
    assert len(ended.err.splitlines()) == 20  # of 25 rounds
    assert tacit("audit", "--one-run", "--set", "algorithm=sgpdp").code == 2


def test_a_planted_model_is_as_smooth_as_the_real_one():
    task, own, _ = small_planted(options={"biases": False})
    assert isinstance(own.model, Planted)
    assert own.model.smoothness(2.0) == task.model.smoothness(2.0) == 1.0
