"""PPGL without noise: it follows the paper's Algorithm 1, its objective decreases, and it reaches the minimum."""

import numpy as np
import pytest
import torch

from tacit.graph_learning import IGL, PPGL, FedAvg, GraphLearningRun, Signals
from tacit.graph_learning.ppgl import prox
from tacit.graphs import complete, ring, star
from tacit.networks import Simulated
from tacit.networks.threaded import run_on_threads
from tacit.privacy import Noise
from tests.graph_learning import oracle
from tests.graph_learning.cases import instance, learn


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("gamma", [None, 0.4])
def test_rounds_follow_the_papers_algorithm(seed, K, gamma):
    """All degrees stay above their floors, so the logarithm is the one in the paper."""
    signals, parameters = instance(seed)
    task = Signals(signals)
    z = task.mean(0).use_locally().numpy()
    high = 1 / np.sqrt(4 * parameters["beta"] * (task.d - 1))
    pull = torch.full((task.n,), parameters["rho"] * (gamma or 1.0), dtype=torch.float64)
    problem = PPGL(**parameters).client_problem(torch.from_numpy(z), pull, torch.zeros(task.p, dtype=torch.float64))
    eta = 0.2 / float(problem.lipschitz.max())
    method = PPGL(**parameters, K=K, step=eta, gamma=gamma, rounds=12, initial=high)
    expected = oracle.ppgl(
        z, alpha=1.0, beta=method.beta, rho=method.rho, lam=method.lam, zeta=method.zeta, eta=eta, xi=0.1, K=K, T=12,
        e_gamma=method.gamma_epsilon, w0=np.full(z.shape[1], high), gamma=gamma,
    )  # fmt: skip
    network = Simulated(complete(task.n))
    task = task.with_new_ledger()
    state = method.start(task, network.graph)
    for t, (w, con, gammas) in enumerate(expected):
        state = method.round(t, state, task, network)
        assert np.abs(state.w.numpy() - w).max() <= 1e-9 * np.abs(w).max()
        assert np.abs(state.con.numpy() - con).max() <= 1e-9 * np.abs(w).max()
        assert np.allclose(state.gamma.numpy(), gammas, rtol=1e-9)


def test_consensus_step_is_the_proximal_operator():
    """(15) minimises (13)."""
    rng = np.random.default_rng(0)
    w, gamma, rho, lam = rng.normal(size=(4, 30)), rng.uniform(0.1, 1, 4), 0.7, 0.3
    average = torch.from_numpy(gamma @ w / gamma.sum())
    con = prox(average, lam / (rho * gamma.sum())).numpy()

    def cost(x):
        near = sum(rho * g / 2 * np.sum((row - x) ** 2) for g, row in zip(gamma, w, strict=True))
        return near + lam * np.abs(x).sum()

    for j in range(30):
        for step in (1e-4, -1e-4):
            other = con.copy()
            other[j] += step
            assert cost(con) < cost(other)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("K", [None, 1, 4])
def test_objective_never_increases(seed, K):
    signals, parameters = instance(seed)
    run = learn(PPGL(**parameters, K=K, momentum=0.0, gamma=0.3, rounds=60), signals)
    values = np.array([row["objective"] for row in run.history])
    assert (np.diff(values) <= 1e-12 * np.abs(values[1:]).max()).all()


@pytest.mark.parametrize("seed", range(4))
def test_exact_solutions_and_local_steps_reach_the_same_minimum(seed):
    signals, parameters = instance(seed, d=5, n=3)
    parameters["beta"] *= 10
    exact = learn(PPGL(**parameters, gamma=0.3), signals, tolerance=1e-8)
    steps = learn(PPGL(**parameters, gamma=0.3, K=10), signals, tolerance=1e-6)
    plain = learn(PPGL(**parameters, gamma=0.3, K=10, momentum=0.0), signals, tolerance=1e-6)
    assert exact.converged
    assert steps.converged
    assert plain.converged
    z = Signals(signals).mean(0).use_locally().numpy()
    best, con = oracle.joint_solution(z, 1.0, *(parameters[key] for key in ("beta", "zeta", "rho", "lam")), 0.3)
    for run in (exact, steps, plain):
        assert np.linalg.norm(run.graphs.numpy() - best) <= 1e-4 * np.linalg.norm(best)
        assert np.linalg.norm(run.consensus.numpy() - con) <= 1e-4 * np.linalg.norm(best)


@pytest.mark.parametrize("seed", range(4))
def test_adaptive_weights_reach_the_minimum_of_unsquared_distances(seed):
    """(16) solves (8) with ρ/2 Σ ‖w_i − w_con‖ (57) from any start. The objective decreases in every round."""
    signals, parameters = instance(seed, d=6, n=3)
    parameters = {**parameters, "gamma_epsilon": 1e-7, "rho": parameters["rho"] / 4, "lam": parameters["lam"] / 4}
    run = learn(PPGL(**parameters, rounds=4000), signals, tolerance=1e-8)
    z = Signals(signals).mean(0).use_locally().numpy()
    best, _ = oracle.joint_solution(z, 1.0, *(parameters[key] for key in ("beta", "zeta", "rho", "lam")))
    assert np.linalg.norm(run.graphs.numpy() - best) <= 1e-3 * np.linalg.norm(best)
    values = np.array([row["objective"] for row in run.history])
    assert (np.diff(values) <= 1e-10 * np.abs(values[1:])).all()


@pytest.mark.parametrize(
    "method", [PPGL(rounds=8), PPGL(K=2, rounds=8), FedAvg(K=2, rounds=8), FedAvg(), IGL(), PPGL(rounds=8, noise=3.0)]
)
def test_star_ring_and_complete_graph_give_the_same_graphs(method):
    signals, _ = instance(5, d=6, n=4)
    runs = [learn(method, signals, graph, clip=5.0) for graph in (star(4), ring(4), complete(4))]
    for other in runs[1:]:
        assert torch.equal(runs[0].graphs, other.graphs)


@pytest.mark.parametrize(
    "method", [PPGL(rounds=6), PPGL(K=2, rounds=6, release="rounds", noise=2.0), FedAvg(K=2, rounds=6)]
)
def test_one_client_per_process_gives_the_same_graphs(method):
    signals, _ = instance(6, d=5, n=3)
    task = Signals(signals, clip=5.0, noise=Noise.from_seed(0))
    together = learn(method, task.with_new_ledger())

    def run_client(network):
        return GraphLearningRun(task.host(network.nodes.tolist()), method, network, quiet=True).go()

    parts = run_on_threads(ring(3), run_client)
    assert torch.allclose(torch.cat([part.graphs for part in parts]), together.graphs, rtol=1e-9, atol=1e-12)
    assert [part.t for part in parts] == [together.t] * 3


def test_clients_with_different_numbers_of_signals():
    """FedAvg weights clients by N_i (31). IGL and PPGL use the mean of each client's own signals."""
    signals, parameters = instance(7, d=5, n=3)
    signals = [signals[0][:3], signals[1][:9], signals[2]]
    pooled = oracle.differences(np.concatenate(signals)).mean(0)
    run = learn(FedAvg(beta=parameters["beta"], zeta=0.0), signals)
    best = oracle.client_solution(pooled, 1.0, parameters["beta"], 0.0, 0.0, 0.0)
    assert np.linalg.norm(run.consensus.numpy() - best) <= 1e-4 * np.linalg.norm(best)
    z = Signals(signals).mean(0).use_locally().numpy()
    assert np.allclose(z, [oracle.differences(x).mean(0) for x in signals], rtol=1e-12, atol=1e-12)


def test_fedavg_with_local_steps_comes_close_to_the_minimum():
    signals, parameters = instance(8, d=6, n=3)
    exact = learn(FedAvg(beta=parameters["beta"]), signals)
    steps = learn(FedAvg(beta=parameters["beta"], K=1, momentum=0.0, rounds=20_000), signals, tolerance=1e-9)
    assert steps.history[-1]["objective"] <= exact.history[-1]["objective"] + 0.05 * abs(exact.history[-1]["objective"])


def test_igl_agrees_with_cvxpy():
    signals, parameters = instance(9, d=7, n=2)
    run = learn(IGL(beta=parameters["beta"], zeta=parameters["zeta"]), signals)
    assert run.t == 1
    z = Signals(signals).mean(0).use_locally().numpy()
    for i in range(2):
        best = oracle.client_solution(z[i], 1.0, parameters["beta"], parameters["zeta"], 0.0, 0.0)
        assert np.linalg.norm(run.graphs[i].numpy() - best) <= 1e-4 * np.linalg.norm(best)


def test_warns_if_a_run_has_not_converged():
    signals, parameters = instance(1)
    run = GraphLearningRun(Signals(signals), PPGL(**parameters, rounds=2), Simulated(complete(len(signals))))
    with pytest.warns(UserWarning, match="PPGL has not converged after 2 rounds"):
        run.go()
