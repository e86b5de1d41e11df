"""Paired noise: it cancels exactly, has the stated covariance, and protects as the accountant says."""

import itertools
import math

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import (
    Bounded,
    Gaussian,
    KeyedPairNoise,
    Ledger,
    Noise,
    Paired,
    PairPlan,
    Release,
    ReleaseContext,
    Sampling,
    epsilon,
    solve_pairs,
)
from tacit.privacy.pair_covariance import joint_covariance


def complete(n):
    return np.array(list(itertools.combinations(range(n), 2)))


def bounded(value, nodes=None, *, sensitivity, step=0, seed=0, pairs=None, ledger=None):
    nodes = np.arange(len(value)) if nodes is None else np.asarray(nodes)
    context = ReleaseContext(nodes, Ledger() if ledger is None else ledger, Noise.from_seed(seed), pairs=pairs)
    context.ledger.open(step, "gradient")
    drawn = Sampling("none", np.ones(len(value)), "add-remove")
    return Bounded(value, np.asarray(sensitivity, float), "l2", drawn, step, "gradient", context)


def plan(n=6, *, multiplier=2.0, colluders=1, ratio=3.0, sensitivity=None, edges=None):
    sensitivity = np.full(n, 0.5) if sensitivity is None else sensitivity
    return solve_pairs(np.full(n, multiplier), sensitivity, complete(n) if edges is None else edges, colluders, ratio)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_noise_of_pairs_cancels_exactly_in_the_sum(dtype):
    """With and without pairs, the sum over nodes is the same number, bit for bit: sums on the grid have no error."""
    pairs = plan()
    alone = PairPlan(pairs.own, pairs.pair, pairs.sensitivity, np.zeros((0, 2), int), 0)
    released = [
        Paired(each, np.arange(6)).release(bounded(torch.zeros(6, 1000, dtype=dtype), sensitivity=[0.5] * 6))
        for each in (pairs, alone)
    ]
    assert (released[0].double().sum(0) == released[1].double().sum(0)).all()
    assert (released[0] - released[1]).std() > 2 * released[1].std()  # the pairs do add noise


def test_the_released_noise_has_the_stated_covariance():
    sensitivity = np.array([0.5, 0.5, 1.0, 0.25])
    pairs = plan(4, sensitivity=sensitivity, colluders=1, ratio=2.0)
    value = torch.zeros(4, 400_000, dtype=torch.float64)
    released = Paired(pairs, np.arange(4), noise=2.0, sensitivity=1.5).release(
        bounded(value, sensitivity=1.5 * sensitivity)
    )
    expected = 4 * joint_covariance(pairs.own, pairs.pair, pairs.edges)
    found = np.cov(released.numpy())
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs(found - expected).max() < 0.01 * scale.max()


def test_nodes_in_separate_processes_release_the_same_values():
    pairs, d = plan(), 50
    value = torch.randn(6, d, generator=torch.Generator().manual_seed(1))
    whole = Paired(pairs, np.arange(6)).release(bounded(value.clone(), sensitivity=[0.5] * 6))
    for nodes in ([0, 1, 2], [5], [1, 4]):
        part = bounded(value[nodes].clone(), nodes, sensitivity=[0.5] * len(nodes))
        assert (Paired(pairs, np.array(nodes)).release(part) == whole[nodes]).all()


def test_keys_between_sites_cancel_too():
    """Each pair has a key of its own, and each node a noise key of its own that nobody else has."""
    pairs, d = plan(4), 200
    keys = {edge: bytes([sum(edge), *edge] + [7] * 29) for edge in itertools.combinations(range(4), 2)}
    sums, owns = [], []
    for node in range(4):
        partners = {j: Noise.from_key(keys[min(node, j), max(node, j)]) for j in range(4) if j != node}
        value = bounded(torch.zeros(1, d), [node], sensitivity=[0.5], seed=node, pairs=KeyedPairNoise(node, partners))
        sums.append(Paired(pairs, np.array([node])).release(value))
        alone = PairPlan(pairs.own, pairs.pair, pairs.sensitivity, np.zeros((0, 2), int), 0)
        owns.append(
            Paired(alone, np.array([node])).release(bounded(torch.zeros(1, d), [node], sensitivity=[0.5], seed=node))
        )
    assert (torch.cat(sums).double().sum(0) == torch.cat(owns).double().sum(0)).all()


def test_every_step_and_purpose_has_new_noise():
    pairs = plan(2, colluders=0)
    first, again, later = (
        Paired(pairs, np.arange(2)).release(bounded(torch.zeros(2, 5000), sensitivity=[0.5, 0.5], step=step))
        for step in (3, 3, 4)
    )
    assert (first == again).all()
    assert abs(np.corrcoef(first[0], later[0])[0, 1]) < 0.06


def test_equal_nodes_get_the_noise_of_the_closed_form():
    for n, t, r in ((20, 0, 1.0), (20, 5, 1.0), (20, 10, 10.0), (8, 2, 3.0)):
        solved = plan(n, multiplier=3.0, colluders=t, ratio=r, sensitivity=np.full(n, 0.2))
        c = (1 + r) / (1 + r * (n - t))
        assert solved.own == pytest.approx(3.0 * 0.2 * math.sqrt(c), rel=1e-5)
        assert solved.pair == pytest.approx(math.sqrt(r) * solved.own[0], rel=1e-5)
        assert (solved.multipliers() >= 3.0).all()
        assert solved.multipliers() == pytest.approx(3.0, rel=1e-5)


def test_unequal_nodes_get_what_each_of_them_needs():
    rng = np.random.default_rng(0)
    for _ in range(100):
        n = int(rng.integers(3, 12))
        edges = complete(n)
        if rng.random() < 0.5:
            edges = edges[(rng.random(len(edges)) < 0.8) | (edges[:, 1] == edges[:, 0] + 1)]
        multipliers, sensitivity = np.exp(rng.normal(0, 0.5, (2, n)))
        colluders = int(rng.integers(0, n))
        solved = solve_pairs(multipliers, sensitivity, edges, colluders, float(np.exp(rng.normal(0, 1))))
        assert (solved.multipliers() >= multipliers).all()
        assert (solved.multipliers() <= multipliers * 1.001).any()  # no more noise than the worst node needs
        assert (solved.own <= 1.001 * multipliers * sensitivity / (multipliers * sensitivity).min() * 10).all()


@pytest.mark.parametrize(
    ("sensitivity", "ratio", "edges"),
    [
        ([1.0, 1e-5, 1e-5, 1e-5], 3.0, None),
        ([1.0, 0.01, 0.01, 0.01], 1e6, None),
        ([1.0, 1e-5, 1e-5, 1e-5], 1e6, None),
        ([1.0, 1e-8, 1e-8, 1e-8], 1e6, [[0, 1], [1, 2], [2, 3], [0, 3]]),
        ([1.0, 1e-8, 1e-3, 1e-8], 1e-6, [[0, 1], [1, 2], [2, 3]]),
    ],
)
def test_very_unequal_nodes_and_ratios_have_all_the_noise_that_is_accounted(sensitivity, ratio, edges):
    """The grid is that of the least noise. Floats have too few bits for noise that is a million times larger."""
    pairs = plan(4, sensitivity=np.array(sensitivity), ratio=ratio, edges=None if edges is None else np.array(edges))
    assert (pairs.multipliers() >= 2.0).all()
    value = bounded(torch.zeros(4, 20_000), sensitivity=sensitivity)
    released = Paired(pairs, np.arange(4)).release(value).double()
    found, stated = np.cov(released.numpy()), pairs.covariance()
    assert found.diagonal() == pytest.approx(stated.diagonal(), rel=0.06)
    whitening = np.linalg.inv(np.linalg.cholesky(stated))
    assert whitening @ found @ whitening.T == pytest.approx(np.eye(4), abs=0.06)


def test_scales_that_floats_cannot_hold_together_are_refused():
    pairs = PairPlan(np.array([1.0, 1e5, 1e5]), 1e5, np.ones(3), complete(3), 1)
    with pytest.raises(TacitError, match="noise of 100000 is too large beside the least noise 1"):
        Paired(pairs, np.arange(3)).release(bounded(torch.zeros(3, 4), sensitivity=[1.0] * 3))


def test_values_that_are_too_large_are_bounded_before_the_noise_is_added():
    """A bound on the noised value would take away own noise, while the noise of pairs is not in it yet."""
    pairs = plan(3)
    exact = torch.tensor([[1e9], [math.inf], [-1e9]]).repeat(1, 5000)
    released = Paired(pairs, np.arange(3)).release(bounded(exact, sensitivity=[0.5] * 3)).double()
    spread = released.sum(0).std()  # the noise of pairs cancels in the sum
    assert spread == pytest.approx(math.sqrt((pairs.own**2).sum()), rel=0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": [[0, 1], [0, 1], [1, 2]]}, "each pair of two different nodes once"),
        ({"edges": [[1, 0], [1, 2]]}, "smaller id first"),
        ({"edges": [[0, 0]]}, "two different nodes"),
        ({"edges": [[0, 3]]}, "from 0 to 2"),
        ({"edges": [[-1, 2]]}, "from 0 to 2"),
        ({"own": [1.0, 0.0, 1.0]}, "positive and finite"),
        ({"own": [1.0, math.nan, 1.0]}, "positive and finite"),
        ({"sensitivity": [1.0, -1.0, 1.0]}, "positive and finite"),
        ({"sensitivity": [1.0, 1.0]}, "3 nodes"),
        ({"pair": math.inf}, "positive and finite"),
        ({"colluders": 3}, "from 0 to 2"),
    ],
)
def test_plans_that_cannot_be_are_refused(change, message):
    """Also those in a ledger that someone has changed: an edge twice looks like a complete key graph."""
    parts = {"own": [1.0] * 3, "pair": 2.0, "sensitivity": [1.0] * 3, "edges": [[0, 1], [1, 2]], "colluders": 1}
    own, pair, sensitivity, edges, colluders = {**parts, **change}.values()
    with pytest.raises(TacitError, match=message):
        PairPlan(np.array(own), pair, np.array(sensitivity), np.array(edges), colluders)


def test_more_colluders_learn_more():
    solved = plan(10, multiplier=2.0, colluders=3)
    against = np.array([solved.multipliers(k)[0] for k in range(10)])
    assert (np.diff(against) < 0).all()
    assert against[3] == pytest.approx(2.0, rel=1e-5)
    assert against[9] == pytest.approx(solved.own[0] / 0.5, rel=1e-7)  # own noise only
    worst = min(solved.multipliers_against(q)[9] for q in itertools.combinations(range(9), 3))
    assert worst == pytest.approx(against[3], rel=1e-7)


def test_one_release_is_accounted_as_a_gaussian_release():
    sampling = Sampling("poisson", np.full(6, 0.2), "add-remove")
    paired = [Release(t, "gradient", Paired(plan(), np.arange(6)), sampling) for t in range(20)]
    gaussian = [Release(t, "gradient", Gaussian(plan().multipliers()), sampling) for t in range(20)]
    assert epsilon(paired, 1e-5) == epsilon(gaussian, 1e-5)


def test_a_more_sensitive_value_than_planned_is_refused():
    ledger = Ledger()
    value = torch.ones(6, 3)
    value = bounded(value, sensitivity=[0.5, 0.5, 0.6, 0.5, 0.5, 0.5], ledger=ledger)
    with pytest.raises(TacitError, match=r"node 2 has sensitivity 0\.6, but its paired noise was planned for 0\.5"):
        Paired(plan(), np.arange(6)).release(value)
    assert len(ledger) == 0


@pytest.mark.parametrize(
    ("colluders", "ratio", "message"),
    [
        (6, 1.0, "privacy.colluders must be from 0 to 5"),
        (-1, 1.0, "colluders"),
        (1, 0.0, "privacy.ratio"),
        (1, 1e9, "ratio"),
    ],
)
def test_settings_out_of_range_are_refused(colluders, ratio, message):
    with pytest.raises(TacitError, match=message):
        plan(6, colluders=colluders, ratio=ratio)


def sampled_delta(at, multiplier, rate):
    """δ(ε) of one Poisson-sampled Gaussian release, removing a record: a closed form of its own."""
    normal = torch.distributions.Normal(0.0, multiplier)
    threshold = multiplier**2 * math.log((math.exp(at) - 1 + rate) / rate) + 0.5
    above = [1 - float(normal.cdf(torch.tensor(threshold - shift))) for shift in (0.0, 1.0)]
    return (1 - rate) * above[0] + rate * above[1] - math.exp(at) * above[0]


def test_the_joint_likelihood_ratio_of_all_messages_has_the_accounted_delta():
    """Monte Carlo over all eight nodes' releases, with a record of node 3 drawn with probability 0.3.

    The multiplier is that of the published numbers: δ(0.1) = 0.0478 and δ(0.6) = 0.0032.
    """
    n, rate, node, trials, multiplier = 8, 0.3, 3, 400_000, 1.5088
    pairs = plan(n, multiplier=multiplier, colluders=0, ratio=1.0, sensitivity=np.ones(n))
    moved = torch.zeros(n, trials, dtype=torch.float64)
    drawn = torch.rand(trials, generator=torch.Generator().manual_seed(0)) < rate
    moved[node, drawn] = 1.0
    seen = Paired(pairs, np.arange(n)).release(bounded(moved, sensitivity=[1.0] * n)).numpy()
    precision = np.linalg.inv(joint_covariance(pairs.own, pairs.pair, pairs.edges))
    ratio = 1 - rate + rate * np.exp(precision[node] @ seen - precision[node, node] / 2)
    for at, published in ((0.1, 0.0478), (0.6, 0.0032)):
        found = np.maximum(0, 1 - math.exp(at) / ratio)
        error = 4 * found.std() / math.sqrt(trials)
        assert found.mean() == pytest.approx(published, abs=error + 5e-5)
        assert sampled_delta(at, pairs.multipliers()[node], rate) == pytest.approx(published, abs=5e-5)
        assert found.mean() - error < sampled_delta(at, pairs.multipliers()[node], rate)


def test_an_adaptive_worst_case_attains_the_bound_and_does_not_exceed_it():
    """The next node's value follows the sign of the release before: adaptivity does not help the adversary."""
    n, trials, steps = 4, 200_000, 3
    pairs = plan(n, multiplier=2.0, colluders=0, ratio=1.0, sensitivity=np.ones(n))
    precision = np.linalg.inv(joint_covariance(pairs.own, pairs.pair, pairs.edges))
    losses = np.zeros((2, trials))
    for world in (0, 1):
        public = torch.zeros(n, trials, dtype=torch.float64)
        for step in range(steps):
            value = public + 0.0
            value[0] += world  # the record of node 0
            made = bounded(value, sensitivity=[1.0] * n, step=step, seed=10 + world)
            seen = Paired(pairs, np.arange(n)).release(made)
            losses[world] += precision[0] @ (seen - public).numpy() - precision[0, 0] / 2
            public = torch.zeros_like(public)
            public[1:] = torch.sign(seen[:-1]) * 5.0  # everybody reacts to what was seen
    thresholds = np.quantile(losses[0], np.linspace(0.01, 0.99, 99))
    advantage = max(float((losses[1] > x).mean() - (losses[0] > x).mean()) for x in thresholds)
    mu = math.sqrt(steps) / pairs.multipliers()[0]
    bound = math.erf(mu / math.sqrt(8))
    assert advantage == pytest.approx(bound, abs=4 / math.sqrt(trials))
