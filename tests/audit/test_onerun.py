"""Whole runs attacked once, and what so many right guesses prove."""

import json
from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import linprog
from scipy.special import expit

from tacit.algorithms import algorithms
from tacit.audit import Guesses, one_run
from tacit.audit.canaries import Planted, Wiretap, planted
from tacit.audit.onerun import guessed, totals
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.privacy.gdp import mu_to_epsilon
from tacit.runs.build import from_config
from tacit.runs.config import Config
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


def most_likely(coins, guesses, correct, epsilon, delta):
    """max P[so many right guesses, or more] over all mechanisms by which each coin is (ε, δ)-private.

    A linear program: the unknowns are p(guess | coins), and by how much they exceed e^ε p(guess | one coin turned).
    """
    worlds = list(product((-1, 1), repeat=coins))
    says = [
        tuple(dict(zip(places, values, strict=True)).get(i, 0) for i in range(coins))
        for places in combinations(range(coins), guesses)
        for values in product((-1, 1), repeat=guesses)
    ]
    pairs = [(a, b) for a, s in enumerate(worlds) for b, u in enumerate(worlds) if sum(map(int.__ne__, s, u)) == 1]
    p = np.arange(len(worlds) * len(says)).reshape(len(worlds), len(says))
    excess = p.size + np.arange(len(pairs) * len(says)).reshape(len(pairs), len(says))
    total = p.size + excess.size
    above, limits, whole = [], [], []
    for k, (a, b) in enumerate(pairs):
        for t in range(len(says)):
            row = np.zeros(total)
            row[p[a, t]], row[p[b, t]], row[excess[k, t]] = 1.0, -np.exp(epsilon), -1.0
            above.append(row)
            limits.append(0.0)
        row = np.zeros(total)
        row[excess[k]] = 1.0
        above.append(row)
        limits.append(delta)
    for a in range(len(worlds)):
        row = np.zeros(total)
        row[p[a]] = 1.0
        whole.append(row)
    gain = np.zeros(total)
    for (a, s), (t, said) in product(enumerate(worlds), enumerate(says)):
        gain[p[a, t]] = (sum(x * y > 0 for x, y in zip(s, said, strict=True)) >= correct) / len(worlds)
    return -linprog(-gain, above, limits, whole, np.ones(len(worlds))).fun


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(("coins", "guesses"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
def test_the_chance_is_the_best_mechanism_s(coins, guesses, epsilon):
    for correct, delta in product(range(guesses + 1), (0.0, 0.01, 0.1)):
        best = most_likely(coins, guesses, correct, epsilon, delta)
        assert best == pytest.approx(Guesses(coins, guesses, correct).chance(epsilon, delta), abs=1e-7)


def symmetric(coins, guesses, correct, epsilon, delta):
    """The same with as many unknowns as guesses: P[k are right] of a mechanism that treats all coins alike."""
    r, k = guesses, np.arange(guesses + 1)
    up = np.diag(k / r) - np.exp(epsilon) * np.diag((r - k[:-1]) / r, -1)
    down = np.diag((r - k) / r) - np.exp(epsilon) * np.diag(k[1:] / r, 1)
    exceed = np.block([[up, -np.eye(r + 1), np.zeros_like(up)], [down, np.zeros_like(up), -np.eye(r + 1)]])
    total = np.concatenate([np.zeros(r + 1), np.full(2 * r + 2, r / coins)])
    whole = np.concatenate([np.ones(r + 1), np.zeros(2 * r + 2)])
    limits = np.append(np.zeros(2 * r + 2), delta)
    gain = np.concatenate([k >= correct, np.zeros(2 * r + 2)])
    return -linprog(-gain, np.vstack([exceed, total]), limits, whole[None], [1.0]).fun


@pytest.mark.parametrize(("coins", "guesses"), [(3, 2), (20, 20), (200, 30)])
def test_the_chance_of_many_coins(coins, guesses):
    for epsilon, correct in product((0.3, 1.0), range(guesses // 2, guesses + 1, 3)):
        best = symmetric(coins, guesses, correct, epsilon, 1e-4)
        assert best == pytest.approx(Guesses(coins, guesses, correct).chance(epsilon, 1e-4), abs=1e-7)


def published(made, epsilon, delta):
    """Theorem 5.2 of Steinke, Nasr and Jagielski: β + 2mδ max_i P[v − i ≤ W < v]/i."""
    right, short = stats.binom(made.guesses, expit(epsilon)), np.arange(1, made.correct + 1)
    lucky = (right.pmf(made.correct - short).cumsum() / short).max()
    return right.sf(made.correct - 1) + 2 * made.coins * delta * lucky


def test_where_guesses_are_surprising_the_published_bound_is_above():
    assert published(Guesses(1000, 100, 75), 0.673, 1e-4) == pytest.approx(0.05, abs=5e-4)  # their Appendix D
    for epsilon, guesses, share in product((0.1, 1.0, 3.0), (10, 100, 900), (0.6, 0.8, 0.95, 1.0)):
        made = Guesses(1000, guesses, round(share * guesses))
        if 1e-12 < made.chance(epsilon, 0.0) < 0.5:
            assert made.chance(epsilon, 1e-5) <= published(made, epsilon, 1e-5)


def test_where_they_are_not_the_published_one_is_no_bound():
    """All answers alike but the one that is wrong throughout, which is never given: at most 1/1023 apart."""
    delta, never_wrong = 1 / 1023, Guesses(10, 10, 1)
    assert never_wrong.chance(0.0, delta) == pytest.approx(1.0, abs=1e-12)
    assert published(never_wrong, 0.0, delta) < 1 - 9e-4


def test_revealing_all_now_and_then_stays_below():
    """Randomised response that gives all away with probability δ is (ε, δ)-private."""
    for correct, delta in product(range(1, 21), (1e-3, 1e-2)):
        happens = (1 - delta) * stats.binom.sf(correct - 1, 20, expit(1.0)) + delta
        assert happens <= Guesses(20, 20, correct).chance(1.0, delta) + 1e-12


def test_what_guesses_prove():
    found = [Guesses(500, 100, correct).lower(1e-5, 0.95) for correct in range(101)]
    assert found[0] == found[50] == 0.0
    assert all(one <= other for one, other in pairwise(found))
    assert 3.0 < found[-1] < np.log(100 / 0.05)
    usual = Guesses(500, 100, 80)
    assert usual.lower(1e-5, 0.99) < usual.lower(1e-5, 0.95) < usual.lower(0.0, 0.95)
    assert Guesses(500, 0, 0).lower(1e-5, 0.95) == 0.0
    assert usual.chance(usual.lower(1e-5, 0.95), 1e-5) == pytest.approx(0.05)
    assert 6.4 < Guesses(3000, 2000, 2000).lower(1e-5, 0.95) < 6.6  # where most probabilities are 0 to a computer


def test_the_bound_is_one_with_the_confidence_it_states():
    """Randomised response, which has exactly its ε: of 400 audits with 80 % confidence 80 may exceed it."""
    rng, epsilon = np.random.default_rng(0), 1.5
    found = []
    for _ in range(400):
        coins = rng.random(200) < 0.5
        answers = np.where(rng.random(200) < expit(epsilon), coins, ~coins)
        found.append(guessed(answers[:, None].astype(float), coins, 0.8, 1.0).lower(0.0, 0.8))
    exceeded = sum(lower > epsilon for lower in found)
    assert 0.02 * 400 < exceeded <= stats.binom.ppf(0.999, 400, 0.2)
    assert np.mean(found) > 0.5 * epsilon


def test_of_gaussian_noise_it_finds_what_is_there_and_no_more():
    rng, mu = np.random.default_rng(1), 1.5
    found = []
    for _ in range(40):
        coins = rng.random(1000) < 0.5
        numbers = rng.normal(size=(1000, 6)) + mu * coins[:, None] * [0.6, 0, 0, 0.8, 0, 0]
        found.append(guessed(numbers, coins, 0.95, mu).lower(1e-5, 0.95))
    assert max(found) < mu_to_epsilon(mu, 1e-5)
    assert np.mean(found) > 1.7


def test_no_coin_is_guessed_twice():
    rng = np.random.default_rng(4)
    for count in range(100, 124):
        coins = rng.random(count) < 0.5
        made = guessed(rng.normal(6.0 * coins)[:, None], coins, 0.95, 6.0)
        assert 0.5 * made.coins < made.guesses <= made.coins == count - -(-count // 4)


def test_the_coins_to_be_guessed_are_not_looked_at():
    """Were they the opposite ones, the very same guesses would be wrong where they are right."""
    rng = np.random.default_rng(2)
    coins = rng.random(400) < 0.5
    numbers = rng.normal(coins)[:, None] + rng.normal(size=(400, 3))
    turned = np.where(np.arange(400) % 4 == 0, coins, ~coins)
    one, other = guessed(numbers, coins, 0.95, 1.0), guessed(numbers, turned, 0.95, 1.0)
    assert one == Guesses(300, other.guesses, other.guesses - other.correct)
    assert one.correct > other.correct


def test_running_totals_undo_what_methods_do():
    """Whether sums of noised gradients are sent, or they themselves, or changes: their sum is among the totals."""
    g = np.random.default_rng(3).normal(size=(30, 400))
    changes = np.diff(g, axis=0, prepend=0)
    for order, sent in enumerate((g.cumsum(0), g, changes, np.diff(changes, axis=0, prepend=0))):
        numbers = totals(sent[:, None])
        assert numbers.shape == (400, 4)
        np.testing.assert_allclose(numbers[:, order], g.sum(0), atol=1e-9)
    assert totals(g[:2, None]).shape == (400, 2)


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
