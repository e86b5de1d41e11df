"""The baselines of the DP-Norm paper against loops over the nodes, and its Table II against the ledger."""

import math

import numpy as np
import pytest

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.runs import Config, from_config
from tests.helpers import noised, quadratic_task, run_rounds

RING, NODES, D = graphs.build("ring", {"nodes": 6}), 6, 3
MU, INNER, BOUND, SIGMA, ROUNDS = 0.05, 4, 0.9, 0.05, 30


def private(task, w, i, step):
    """Node i's noised mean of the clipped gradients of ½‖w − x‖²."""
    records = task.data.x.double().numpy().reshape(NODES, -1, D)[i]
    each = w - records
    shrunk = each * np.minimum(1, BOUND / np.linalg.norm(each, axis=1, keepdims=True))
    return noised(task, "gaussian", shrunk.mean(0), SIGMA, "gradient", i, step)


def compare(name, oracle, **params):
    """Round by round, to 1e-9."""
    given = {"lr": MU, "local_steps": INNER, "clip": BOUND, "sigma": SIGMA, **params}
    task, network = quadratic_task(), Simulated(RING)
    algorithm = algorithms.build(name, given).with_rounds(ROUNDS)
    state = algorithm.start(task, RING)
    for r, expected in enumerate(oracle(task)):
        state = algorithm.round(r, state, task, network)
        assert np.allclose(algorithm.models(state).numpy(), expected, rtol=0, atol=1e-9)


def neighbours(i):
    return [(i - 1) % NODES, (i + 1) % NODES]


def test_dp_sgd_matches_a_loop_over_nodes():
    def oracle(task):
        w = np.zeros((NODES, D))
        for r in range(ROUNDS):
            for i in range(NODES):
                for k in range(INNER):
                    w[i] = w[i] - MU * private(task, w[i], i, r * INNER + k)
            w = np.stack([(w[i] + sum(w[j] for j in neighbours(i))) / 3 for i in range(NODES)])
            yield w

    compare("dp-sgd", oracle)


@pytest.mark.parametrize("average", ["mean", "last"])
@pytest.mark.parametrize("diameter", [None, 2.0])
def test_dp_admm_matches_a_loop_over_nodes(average, diameter):
    rho, degree = 0.7, 2

    def oracle(task):
        w, dual = np.zeros((NODES, D)), np.zeros((NODES, D))
        for r in range(1, ROUNDS + 1):
            new = np.zeros((NODES, D))
            for i in range(NODES):
                u, iterates = w[i], []
                for k in range(1, INNER + 1):
                    eta = 1 / MU
                    if diameter is not None:
                        spread = BOUND**2 / NODES**2 + D * SIGMA**2 / 8
                        eta = math.sqrt(2 * k * r) / diameter * math.sqrt(spread)
                    g = private(task, u, i, (r - 1) * INNER + k - 1)
                    pull = rho * sum(w[i] + w[j] for j in neighbours(i))
                    u = (eta * u - g - dual[i] + pull) / (2 * rho * degree + eta)
                    iterates.append(u)
                new[i] = np.mean(iterates, 0) if average == "mean" else u
            w = new
            dual = np.stack([dual[i] + rho * sum(w[i] - w[j] for j in neighbours(i)) for i in range(NODES)])
            yield w

    compare("dp-admm", oracle, rho=rho, average=average, diameter=diameter)


def test_growing_eta_is_that_of_table_2():
    """η = √(2kr)/D · √(G²/N² + pG² KR ln(1.25/δ)/(d² ε²)), which the algorithm computes from its noise instead of ε."""
    epsilon, delta, rounds, diameter = 0.7, 1e-3, 5, 3.0
    config = {
        "rounds": rounds,
        "graph": {"name": "ring", "nodes": 5},
        "sharding": {"name": "iid", "records": 280},
        "algorithm": {"name": "dp-admm", "clip": 1.3, "local_steps": INNER, "diameter": diameter},
        "batch": {"size": 35, "sampling": "without-replacement"},
        "privacy": {"epsilon": epsilon, "delta": delta, "calibration": "paper"},
    }
    run = from_config(Config.parse(config))
    spent = run.task.d * 1.3**2 * rounds * INNER * math.log(1.25 / delta) / (280 * epsilon) ** 2
    for k, r in ((1, 1), (3, 4)):
        expected = math.sqrt(2 * k * r) / diameter * math.sqrt(1.3**2 / 25 + spent)
        found = run.algorithm._eta(k - 1, r - 1, run.task, run.network.graph)
        assert found.flatten().tolist() == pytest.approx([expected] * 5, rel=1e-6)


def test_single_node_is_sgd_on_all_records():
    task = quadratic_task(records=5)
    algorithm = algorithms.build("single-node", {"lr": MU, "local_steps": INNER}).with_rounds(8)
    models = algorithm.models(run_rounds(algorithm, task, Simulated(RING), 8))
    w = np.zeros(D)
    for _ in range(8 * INNER):
        w = w - MU * (w - task.data.x.double().numpy()).mean(0)
    assert np.allclose(models.numpy(), w, rtol=0, atol=1e-12)


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation"])
@pytest.mark.parametrize("name", ["dp-sgd", "dp-admm"])
def test_paper_noise_is_that_of_table_2_and_claims_its_epsilon(name, sampling):
    epsilon, delta, rounds, size = 2.0, 1e-3, 40, 35
    config = {
        "rounds": rounds,
        "graph": {"name": "ring", "nodes": 5},
        "sharding": {"name": "iid", "records": 280},
        "algorithm": {"name": name, "clip": 0.5, "local_steps": INNER},
        "batch": {"size": size, "sampling": sampling},
        "privacy": {"epsilon": epsilon, "delta": delta, "calibration": "paper"},
    }
    run = from_config(Config.parse(config))
    steps, d = rounds * INNER, 280
    root = {
        "dp-sgd": math.sqrt(steps * math.log(1 / delta)),
        "dp-admm": 2 * math.sqrt(2 * steps * math.log(1.25 / delta)),
    }[name]
    assert run.algorithm.privacy.noise_std(run.task.nodes) == pytest.approx([0.5 * root / (epsilon * d)] * 5)
    planned = run.planned()
    assert planned.claimed == pytest.approx(epsilon)
    assert planned.guaranteed is not None


def test_norms_are_in_the_history():
    config = {"rounds": 3, "graph": {"name": "ring", "nodes": 4}, "algorithm": {"name": "dp-admm", "sigma": 0.1}}
    run = from_config(Config.parse(config)).go()
    last = run.evaluations[-1]
    assert last["primal_norm"] == pytest.approx(float(run.models.norm(dim=1).mean()), rel=1e-5)
    assert last["dual_norm"] == pytest.approx(float(run.checkpoint.state.dual.norm(dim=1).mean()), rel=1e-5)


@pytest.mark.parametrize("name", ["dp-sgd", "dp-admm"])
def test_zero_local_steps_are_refused(name):
    with pytest.raises(TacitError, match="local steps must be at least 1, got 0"):
        algorithms.build(name, {"local_steps": 0})


@pytest.mark.parametrize("name", ["sgpdp", "pedfl"])
def test_weight_decay_is_refused_if_steps_are_bounded_by_the_clip(name):
    config = {
        "model": {"name": "logistic", "weight_decay": 0.1},
        "algorithm": name,
        "graph": {"name": "ring", "nodes": 4},
    }
    with pytest.raises(TacitError, match="weight decay is not clipped"):
        from_config(Config.parse({**config, "privacy": {"epsilon": 5.0}}))
