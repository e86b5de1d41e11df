"""Sensitivities, noise, releases in the ledger, and the resulting guarantee."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import BudgetExceeded, TacitError
from tacit.graph_learning import (
    IGL,
    PPGL,
    FedAvg,
    GraphLearner,
    GraphLearningRun,
    Signals,
    default_parameters,
    f1_against,
    grid_search,
    paper_grid_search,
    synthetic,
)
from tacit.graph_learning.sensitivity import classical_noise_multiplier, iterate_sensitivity
from tacit.graph_learning.signals import mean_differences
from tacit.graphs import complete
from tacit.networks import Simulated
from tacit.privacy import Budget, Ledger, Noise, guarantee, mu_to_epsilon, plan
from tests.graph_learning import oracle
from tests.graph_learning.cases import instance, learn


@settings(max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 6),
    d=st.integers(2, 9),
    clip=st.floats(0.01, 100),
    spread=st.floats(0, 3),
)
def test_one_signal_moves_the_mean_by_at_most_root_two_c_over_n(seed, n, d, clip, spread):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * 10 ** rng.uniform(-spread, spread, size=(n, 1))
    other = x.copy()
    other[0] = rng.standard_cauchy(d) * rng.integers(0, 2, d)
    tasks = [Signals([signals], clip=clip) for signals in (x, other)]
    a, b = (task.mean(0).use_locally()[0].numpy() for task in tasks)
    assert tasks[0].sensitivity[0] == pytest.approx(math.sqrt(2) * clip / n)
    assert np.linalg.norm(a - b) <= tasks[0].sensitivity[0] * (1 + 1e-9)
    assert np.allclose(a, oracle.clipped_mean(x, clip), rtol=1e-9, atol=1e-9 * clip)


def test_sensitivity_bound_is_almost_tight():
    """Signals with one peak each, at different vertices, reach √(1 − 1/(d − 1)) of the bound."""
    d = 40
    x = np.zeros((2, d))
    x[:, 0] = x[1, 3] = 1e3
    other = x.copy()
    other[0] = 0
    other[0, 1] = 1e3
    a, b = (Signals([signals], clip=7.0).mean(0).use_locally() for signals in (x, other))
    assert float((a - b).norm()) == pytest.approx(math.sqrt(2) * 7 / 2 * math.sqrt(1 - 1 / (d - 1)), rel=1e-9)


@settings(max_examples=80)
@given(
    seed=st.integers(0, 10**6),
    K=st.sampled_from([None, 1, 2, 5]),
    momentum=st.sampled_from([0.0, 0.1, 0.7]),
    step=st.sampled_from([None, 1e-3, 0.1]),
    adaptive=st.booleans(),
)
def test_one_signal_moves_a_round_by_at_most_the_accounted_sensitivity(seed, K, momentum, step, adaptive):
    """Compare the result of a round before noise, with the same released past and one signal replaced."""
    rng = np.random.default_rng(seed)
    d, n, clip = int(rng.integers(3, 7)), int(rng.integers(2, 5)), 10 ** rng.uniform(-1, 1)
    x = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 1, size=(n, 1))
    other = x.copy()
    other[0] = rng.normal(size=d) * 10 ** rng.uniform(-2, 2)
    method = PPGL(
        K=K,
        momentum=momentum,
        step=step,
        release="rounds",
        noise=1.0,
        rounds=5,
        beta=10 ** rng.uniform(-2, 1),
        zeta=10 ** rng.uniform(-4, 0),
    )
    tasks = [Signals([signals, x + 1], clip=clip) for signals in (x, other)]
    states = [method.start(task, complete(2)) for task in tasks]
    past = torch.from_numpy(rng.exponential(size=(3, 2, tasks[0].p)))
    gamma = torch.from_numpy(rng.uniform(0.1, 5, 2)) if adaptive else states[0].gamma
    computed = []
    for task, state in zip(tasks, states, strict=True):
        at = type(state)(past[0], past[1], past[2, 0], gamma, state.z, state.u, state.residual)
        problem = method._problem(at.z, gamma, at.con, task)
        computed.append(method._local_update(problem, at, task)[0])
    assert torch.equal(states[0].w, states[1].w)  # the initial weights do not depend on the signals
    bound = method._graph_sensitivity(problem, tasks[0], (past[0], past[1]))
    apart = (computed[0] - computed[1]).norm(dim=1).numpy()
    assert apart[0] <= bound[0]
    assert apart[1] == 0


def test_iterate_sensitivity_is_corollary_1_for_one_step():
    method, (signals, _) = PPGL(K=1, step=0.01), instance(0)
    task = Signals(signals, clip=3.0)
    z = task.mean(0).use_locally()
    problem = method._problem(z, torch.ones(task.n), torch.zeros(task.p), task)
    bound = iterate_sensitivity(problem, (z, z), 1, 0.01, 0.1, *task.bounds)
    assert np.allclose(bound, 0.01 * math.sqrt(2) * 3.0 / task.sizes, rtol=1e-9)


def test_fifty_rounds_compose_as_exact_gdp():
    """50 rounds at (1, 1e-5) each by the classical theorem cost (6.82, 1e-5) together, not (50, 5e-4)."""
    signals, _ = instance(3, d=5, n=3)
    method = PPGL(K=1, rounds=50, release="rounds", noise=classical_noise_multiplier(1e-5))
    run = learn(method, signals, clip=5.0)
    assert run.t == 50
    assert run.converged is None
    assert len(run.task.ledger) == 50
    assert run.privacy.guaranteed == pytest.approx(6.82, rel=0.005)
    assert run.privacy.guaranteed == pytest.approx(
        mu_to_epsilon(math.sqrt(50) / classical_noise_multiplier(1e-5), 1e-5), rel=1e-6
    )
    assert run.privacy.relation == "replace-one"
    sentence = run.privacy.sentence()
    assert "per record" in sentence
    assert "one record of one node is replaced by another" in sentence
    assert "an observer of every message and every learned graph" in sentence


def test_paper_noise_has_the_papers_claim():
    """Corollary 1 with (1, 1e-5) per round claims (50, 5e-4) in total."""
    method = PPGL(K=1, rounds=50, release="rounds").with_paper_noise(1.0, 1e-5)
    nodes = np.arange(3)
    signals, _ = instance(3, d=5, n=3)
    sampling = Signals(signals).sampling
    assert method.privacy.claim(sampling, nodes, 50e-5, 50) == pytest.approx(50)
    lines = plan(method.privacy, method.rounds, sampling, nodes)
    assert guarantee(lines, 1e-5).max() == pytest.approx(
        mu_to_epsilon(math.sqrt(50 / 2) / classical_noise_multiplier(1e-5), 1e-5), rel=1e-6
    )


@pytest.mark.parametrize("method", [PPGL(), IGL(), FedAvg(), FedAvg(K=2, rounds=5), PPGL(K=2, rounds=5)])
def test_release_once_makes_one_release(method):
    signals, _ = instance(2, d=5, n=3)
    run = learn(method.with_privacy(1.0, 1e-5), signals, clip=5.0)
    lines = list(run.task.ledger.releases())
    assert [(line.step, line.mechanism.name) for line in lines] == [(0, "gaussian")]
    assert 0.999 < run.privacy.guaranteed <= 1.0
    assert run.privacy.claimed is None
    assert run.task.ledger.unreleased == []


@pytest.mark.parametrize(
    "method",
    [PPGL(release="rounds", rounds=7), PPGL(release="rounds", rounds=7, K=3), FedAvg(release="rounds", K=2, rounds=7)],
)
def test_release_rounds_makes_one_release_per_round_at_the_target_epsilon(method):
    signals, _ = instance(2, d=5, n=3)
    run = learn(method.with_privacy(2.0, 1e-5), signals, clip=5.0)
    assert [(line.step, line.purpose) for line in run.task.ledger.releases()] == [(t, "graph") for t in range(7)]
    assert 1.999 < run.privacy.guaranteed <= 2.0
    assert {(row["objective"], row["residual"]) for row in run.history} == {(None, None)}  # they are secret


def test_statement_says_that_nothing_is_private_without_noise():
    signals, _ = instance(2, d=5, n=3)
    for method in (PPGL(rounds=5), FedAvg(), FedAvg(K=1, rounds=3)):
        privacy = learn(method, signals).privacy
        assert privacy.guaranteed is None
        assert "without noise" in privacy.reason
    independent = learn(IGL(), signals)
    assert len(independent.task.ledger) == 0
    assert independent.privacy.guaranteed is None
    assert "its graph is computed from its signals without noise" in independent.privacy.sentence()


def test_noise_has_the_stated_scale():
    x = np.random.default_rng(0).normal(size=(4, 120))
    task = Signals([x, x[:2]], clip=3.0, noise=Noise.from_system())
    exact = task.mean(0).use_locally()
    z = PPGL(noise=2.5).privacy.mechanism(task.nodes).release(task.with_new_ledger().mean(0))
    expected = 2.5 * math.sqrt(2) * 3 / np.array([4, 2])
    assert np.allclose((z - exact).std(1).numpy(), expected, rtol=0.05)
    # Initial weights far from 0, so that the projection does not cut off noise.
    method = PPGL(K=1, release="rounds", noise=2.5, rounds=1, initial=40.0)
    network, task = Simulated(complete(2)), task.with_new_ledger()
    state = method.start(task, network.graph)
    problem = method._problem(state.z, state.gamma, state.con, task)
    clean = method._local_update(problem, state, task)[0]
    sent = method.round(0, state, task, network).w
    sensitivity = iterate_sensitivity(problem, (state.w, state.before), 1, None, 0.1, *task.bounds)
    assert (sent > 0).all()
    assert np.allclose((sent - clean).std(1).numpy(), 2.5 * sensitivity, rtol=0.05)


def test_signal_far_from_zero_is_clipped():
    """Subtracting the mean once leaves a rounding error, which must not make the norm too small."""
    far = np.full(20, 1e16)
    far[:19] += 6 * np.spacing(1e16)
    other = np.full(20, 1e16)
    other[1:] += 6 * np.spacing(1e16)
    peak = np.eye(20)[3] * 5e5
    for bound in (1.0, 20.0):
        near = [Signals([np.stack([each, peak])], clip=bound) for each in (far, other)]
        moved = near[0].mean(0).use_locally() - near[1].mean(0).use_locally()
        assert float(moved.norm()) <= near[0].sensitivity[0]
        assert np.linalg.norm(mean_differences(far[None], bound)) <= bound


def test_second_run_draws_new_noise():
    x = np.random.default_rng(0).normal(size=(4, 6))
    task = Signals([x], clip=3.0, noise=Noise.from_system())
    first, second = (
        IGL(noise=scale).privacy.mechanism(task.nodes).release(task.with_new_ledger().mean(0)) for scale in (1.0, 2.0)
    )
    assert not torch.allclose(2 * first - second, task.mean(0).use_locally(), atol=0.1)  # the grid is finer than this


def test_noise_is_secret_unless_a_seed_is_given():
    x = np.random.default_rng(0).normal(size=(4, 6))
    method = IGL(noise=1.0)
    secret, other = (Signals([x], clip=3.0) for _ in range(2))
    assert not secret.noise.simulated
    assert not torch.equal(method.prepare_z(secret), method.prepare_z(other))
    run = GraphLearningRun(Signals([x], clip=3.0), method, Simulated(complete(1))).go()
    assert "SIMULATION" not in run.privacy.sentence()
    assert "SIMULATION: the noise is derived from seed 7" in learn(method, [x], clip=3.0, seed=7).privacy.sentence()
    assert not GraphLearner("igl", epsilon=1.0, clip=3.0).fit([x]).run_.task.noise.simulated


def test_hosted_clients_draw_new_noise():
    """Two runs with the same noise and different scales would reveal the exact value."""
    x = np.random.default_rng(0).normal(size=(4, 6))
    task = Signals([x, x], clip=3.0, noise=Noise.from_system())
    first, second = (
        IGL(noise=scale).privacy.mechanism(np.arange(1)).release(task.host([0]).mean(0)) for scale in (1.0, 2.0)
    )
    assert not torch.allclose(2 * first - second, task.mean(0).use_locally()[:1], atol=0.1)


def test_graphs_from_values_of_another_ledger_have_no_guarantee():
    x = np.random.default_rng(0).normal(size=(4, 6))
    task, method = Signals([x], clip=3.0), IGL(noise=1.0)
    z = method.prepare_z(task)
    run = GraphLearningRun(task.with_new_ledger(), method, Simulated(complete(1)), z=z).go()
    assert run.privacy.guaranteed is None
    assert "not in this ledger" in run.privacy.reason
    assert GraphLearningRun(task, method, Simulated(complete(1)), z=z).go().privacy.guaranteed > 0


def test_search_uses_released_values_only():
    data = synthetic.rbf(clients=3, signals=20, seed=0)
    grid = {"betas": [0.003, 0.03, 0.3], "rhos": [0.1], "lams": [0.1]}
    task = Signals(data.signals, clip=5.0, noise=Noise.from_system())
    found = paper_grid_search(task, PPGL(noise=2.0, rounds=20), data.graphs, **grid)
    assert len(task.ledger) == 1
    assert not torch.allclose(found.z, task.mean(1).use_locally())
    rounds = PPGL(K=1, noise=2.0, rounds=3, release="rounds")
    with pytest.raises(TacitError, match="search for β uses IGL"):
        paper_grid_search(task, rounds, data.graphs, **grid)
    with pytest.raises(TacitError, match="each point of a grid search costs"):
        grid_search(task, rounds, f1_against(data.graphs), beta=[0.1])


@pytest.mark.parametrize(
    ("options", "match"), [({}, "PPGL needs at least 2 clients"), ({"neighbours": 99.0}, "neighbours must")]
)
def test_bad_settings_are_refused_before_any_release(options, match):
    x, ledger = np.random.default_rng(0).normal(size=(5, 4)), Ledger()
    with pytest.raises(TacitError, match=match):
        GraphLearner(epsilon=1.0, clip=5.0, **options).fit([x] * (2 if options else 1), ledger=ledger)
    assert len(ledger) == 0


def test_default_parameters_refuse_z_that_is_all_noise():
    with pytest.raises(TacitError, match="noise hides the signals"):
        default_parameters(torch.zeros(2, 6, dtype=torch.float64))


def test_negative_entries_of_released_z_are_set_to_zero():
    """z̄ has no negative entries, so this always reduces the error."""
    signals, _ = instance(4, d=8, n=3)
    task = Signals(signals, clip=5.0, noise=Noise.from_seed(0))
    exact, method = task.mean(0).use_locally(), PPGL(noise=5.0)
    raw = method.privacy.mechanism(task.nodes).release(task.with_new_ledger().mean(0))
    z = method.prepare_z(task.with_new_ledger())
    assert (raw < 0).any()
    assert torch.equal(z, raw.clamp(min=0))
    assert ((z - exact).norm(dim=1) < (raw - exact).norm(dim=1)).all()


def test_graphs_are_finite_under_very_large_noise():
    signals, _ = instance(4, d=8, n=3)
    run = learn(PPGL(noise=500.0, rounds=30), signals, clip=5.0)
    assert torch.isfinite(run.graphs).all()
    assert (run.graphs >= 0).all()


def test_budget_stops_the_rounds():
    signals, _ = instance(3, d=5, n=3)
    task = Signals(signals, clip=5.0, noise=Noise.from_seed(0))
    task.ledger.budget = Budget(2.0, 1e-5)
    run = GraphLearningRun(task, PPGL(release="rounds", noise=5.0, rounds=50), Simulated(complete(3))).go()
    assert run.t < 50
    assert "The privacy budget ε = 2" in run.stopped
    assert run.privacy.guaranteed <= 2.0
    poor = task.with_new_ledger()
    poor.ledger.budget = Budget(1.0, 1e-5)
    with pytest.raises(BudgetExceeded):
        PPGL(noise=0.1).prepare_z(poor)


def test_noise_requires_a_clip():
    signals, _ = instance(3, d=5, n=3)
    with pytest.raises(TacitError, match="Noise on squared differences needs a clip"):
        learn(PPGL(noise=1.0), signals)
