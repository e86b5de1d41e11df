"""LT-ADMM and LT-ADMM-DP against a per-node re-implementation, closed forms and the paper's numbers."""

import math
import warnings

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.algorithms.ltadmm import lt_admm_dp_claim
from tacit.errors import TacitError
from tacit.graphs import from_networkx, graphs, require
from tacit.networks import Simulated
from tacit.runs import Config, from_config
from tests.helpers import digits_task, noised, quadratic_task, run_rounds

RING = {"nodes": 6}


def naive(task, edges, rounds, *, lr, beta, rho, tau, gradient):
    """Algorithm 1, node by node and edge by edge; `gradient(i, phi, step)` is ĝ of node i."""
    nodes = range(task.n)
    neighbours = {i: [j for a, j in edges if a == i] for i in nodes}
    x = dict(enumerate(task.initial().double().numpy()))
    z = {(i, j): rho * x[i] for i, j in edges}
    for k in range(rounds):
        for i in nodes:
            correction = beta * (rho * len(neighbours[i]) * x[i] - sum(z[i, j] for j in neighbours[i]))
            phi = x[i]
            for step in range(k * tau, (k + 1) * tau):
                phi = phi - (lr * gradient(i, phi, step) + correction)
            x[i] = phi
        message = {(i, j): z[i, j] - 2 * rho * x[i] for i, j in edges}
        z = {(i, j): z[i, j] / 2 - message[j, i] / 2 for i, j in edges}
        yield np.stack([x[i] for i in nodes])


def links(graph):
    return list(zip(*(ends.tolist() for ends in graph.edges(0)), strict=True))


def test_lt_admm_reaches_the_optimum_of_a_quadratic_on_a_ring():
    task = quadratic_task()
    algorithm = algorithms.build("lt-admm", {"lr": 0.1}).with_rounds(400)
    state = run_rounds(algorithm, task, Simulated(graphs.build("ring", RING)), 400)
    optimum = task.data.x.double().mean(0)
    assert torch.allclose(algorithm.models(state), optimum.expand(6, -1), atol=1e-10)


@pytest.mark.parametrize(
    "graph", [graphs.build("ring", RING), graphs.build("star", RING), graphs.build("complete", RING)]
)
def test_sum_of_edge_variables_is_rho_times_degree_times_x(graph):
    task, network = quadratic_task(), Simulated(graph)
    algorithm = algorithms.build("lt-admm-dp", {"sigma": 0.3, "rho": 0.05, "beta": 0.05}).with_rounds(30)
    state = algorithm.start(task, graph)
    degree = torch.from_numpy(graph.out_degrees(0)).double()[:, None]
    for t in range(30):
        state = algorithm.round(t, state, task, network)
        assert torch.allclose(state.z.sum(0), 0.05 * (degree * state.x).sum(0), atol=1e-12)


@pytest.mark.parametrize("per", ["record", "batch"])
def test_noised_rounds_match_a_loop_over_nodes(per):
    graph = graphs.build("ring", RING)
    params = {"lr": 0.2, "beta": 0.07, "rho": 0.4, "tau": 3, "sigma": 0.1, "clip": 0.8, "clip_per": per}
    algorithm = algorithms.build("lt-admm-dp", params).with_rounds(20)
    task = quadratic_task()
    records = task.data.x.double().numpy().reshape(6, -1, 3)

    def gradient(i, phi, step):
        each = phi - records[i]
        if per == "record":
            each = each * (0.8 / (0.8 + np.linalg.norm(each, axis=1, keepdims=True)))
        mean = each.mean(0)
        if per == "batch":
            mean = mean * 0.8 / (0.8 + np.linalg.norm(mean))
        return noised(task, "gaussian", mean, 0.1, "gradient", i, step)

    expected = naive(task, links(graph), 20, lr=0.2, beta=0.07, rho=0.4, tau=3, gradient=gradient)
    network, state = Simulated(graph), algorithm.start(task, graph)
    for t, x in enumerate(expected):
        state = algorithm.round(t, state, task, network)
        assert np.allclose(state.x.numpy(), x, atol=1e-9)
    assert len(task.ledger) == 60


def test_published_claim_uses_a_decimal_logarithm():
    """Eq. 9 with the natural logarithm is 25.56; the printed 19.6 comes from the decimal one."""
    assert lt_admm_dp_claim(8 / 1000, 0.5, 16_000, 1e-4) == pytest.approx(25.56, abs=0.005)
    decimal_log = lt_admm_dp_claim(8 / 1000, 0.5, 16_000, math.exp(-math.log10(1e4)))
    assert decimal_log == pytest.approx(19.64, abs=0.005)


def published(per, **more):
    return Config.parse(
        {
            "rounds": 4000,
            "data": {"name": "synthetic-logistic", "records": 10_000, "dimension": 5},
            "model": {"name": "nonconvex-logistic"},
            "graph": {"name": "ring", "nodes": 10},
            "algorithm": {"name": "lt-admm-dp", "sigma": 0.5, "clip_per": per, **more},
            "batch": {"size": 8, "sampling": "without-replacement"},
            "privacy": {"delta": 1e-4},
        }
    )


@pytest.mark.parametrize(("per", "low", "high"), [("batch", 100, 10_000), ("record", 1, 4)])
def test_guarantee_of_the_published_noise(per, low, high):
    privacy = from_config(published(per)).planned()
    assert low < privacy.guaranteed < high
    assert (privacy.relation, privacy.delta, privacy.unit) == ("replace-one", 1e-4, "record")
    assert privacy.claimed == pytest.approx(25.56, abs=0.005)


def test_calibration_reaches_its_target():
    config = published("record")
    config = config.model_copy(update={"rounds": 300, "algorithm": type(config.algorithm)(name="lt-admm-dp")})
    target = config.privacy.model_copy(update={"epsilon": 2.0})
    run = from_config(config.model_copy(update={"privacy": target}))
    assert 1.9 < run.planned().guaranteed <= 2.0


def test_beta_above_the_papers_bound_warns_with_the_numbers():
    graph = graphs.build("ring", {"nodes": 10})  # λ_u = 4
    algorithm = algorithms.build("lt-admm", {"beta": 2.0, "rho": 0.1, "tau": 4})
    with pytest.warns(UserWarning, match=r"beta = 2 is not below 2/\(τ λ_u ρ\) = 1.25 \(λ_u = 4 for this graph\)"):
        algorithm.start(quadratic_task(nodes=10), graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        algorithms.build("lt-admm", {"beta": 1.2}).start(quadratic_task(nodes=10), graph)


def test_unsuitable_graphs_are_refused():
    import networkx as nx

    needs = algorithms.build("lt-admm", {}).needs
    with pytest.raises(TacitError, match="undirected"):
        require(graphs.build("one-peer-exponential", {"nodes": 6}), *needs, who="LT-ADMM")
    lonely = nx.path_graph(4)
    lonely.add_node(4)
    with pytest.raises(TacitError, match="node 4 cannot be reached"):
        require(from_networkx(lonely), *needs, who="LT-ADMM")


@pytest.mark.parametrize("wrong", [{"tau": 0}, {"clip": None, "sigma": 0.1}, {"sigma": -1.0}, {"clip_per": "node"}])
def test_invalid_parameters_are_refused(wrong):
    with pytest.raises(TacitError):
        algorithms.build("lt-admm-dp", wrong).start(digits_task(), graphs.build("ring", {"nodes": 5}))
