"""What every registered algorithm must pass. A new one is tested here as soon as it is registered."""

import dataclasses

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import Dropout, from_matrices, graphs
from tacit.networks import Simulated, on_threads
from tacit.privacy.ledger import Ledger
from tacit.privacy.planning import plan
from tests.helpers import digits_task, quadratic_task, run_rounds

ROUNDS = 12
PARAMETERS = {"d2p": {"clip": [1.0] * ROUNDS, "noise_multiplier": [2.0] * ROUNDS}}
ALGORITHMS = list(algorithms)


def private(name: str, rounds: int = ROUNDS, **params):
    """The algorithm with noise where it can have some."""
    params = PARAMETERS.get(name, {}) | params
    if name not in PARAMETERS and "noise_multiplier" in algorithms.parameters(name):
        params = {"noise_multiplier": 2.0} | params
    return algorithms.build(name, params).over(rounds)


def silent(name: str, rounds: int, lr: float):
    """The algorithm with a clip bound nothing reaches and next to no noise."""
    bound, noise = 1e6, 1e-16
    if name == "d2p":
        return private(name, rounds, lr=lr, clip=[bound] * rounds, noise_multiplier=[noise] * rounds)
    known = algorithms.parameters(name)
    return private(
        name,
        rounds,
        lr=lr,
        **{k: v for k, v in {"clip": bound, "noise_multiplier": noise}.items() if k in known},
    )


@pytest.fixture(params=ALGORITHMS)
def name(request):
    return request.param


def test_consensus_is_reached_without_gradients(name):
    network = Simulated(graphs.build("one-peer-exponential", {"nodes": 6}))
    algorithm = silent(name, 60, lr=1e-300)
    task = quadratic_task()
    state = algorithm.start(task, network.graph)
    spread = torch.from_numpy(np.random.default_rng(1).normal(size=state.x.shape))
    state = dataclasses.replace(state, x=spread)
    for t in range(60):
        state = algorithm.round(t, state, task, network)
    assert torch.allclose(algorithm.models(state), spread.mean(0).expand(6, -1), atol=1e-9)


@pytest.mark.parametrize("graph", ["ring", "one-peer-exponential"])
def test_without_noise_the_mean_reaches_the_optimum_of_a_quadratic(name, graph):
    task = quadratic_task()
    network = Simulated(graphs.build(graph, {"nodes": 6}))
    state = run_rounds(silent(name, 400, lr=0.1), task, network, 400)
    optimum = task.data.x.double().mean(0)
    assert torch.allclose(silent(name, 400, lr=0.1).models(state).mean(0), optimum, atol=1e-6)


def test_on_a_directed_graph_the_weights_undo_the_bias(name):
    # Irregular and column-stochastic only: without the push-sum weights the mean would be far off.
    matrix = np.array([[0.5, 0.0, 0.5, 0.0], [0.25, 0.5, 0.0, 0.0], [0.25, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.5]])
    graph = from_matrices([matrix, matrix[::-1, ::-1]])
    task = quadratic_task(nodes=4)
    algorithm = silent(name, 3000, lr=0.002)
    state = run_rounds(algorithm, task, Simulated(graph), 3000)
    optimum = task.data.x.double().mean(0)
    assert torch.allclose(algorithm.models(state), optimum.expand(4, -1), atol=0.02)


def test_same_seed_same_run_and_another_seed_another(name):
    network = Simulated(graphs.build("ring", {"nodes": 5}))
    results = [run_rounds(private(name), digits_task(seed=seed), network, ROUNDS) for seed in (0, 0, 1)]
    models = [private(name).models(state) for state in results]
    assert torch.equal(models[0], models[1])
    assert not torch.equal(models[0], models[2])


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation"])
def test_one_node_a_thread_gives_the_same_run(name, sampling):
    graph = Dropout(graphs.build("one-peer-exponential", {"nodes": 5}), links=0.2, nodes=0.1, seed=0)
    task = digits_task(sampling=sampling)
    algorithm = private(name)
    together = algorithm.models(run_rounds(algorithm, task, Simulated(graph), ROUNDS))

    def host(network):
        mine = task.host(network.nodes, Ledger())
        state = run_rounds(algorithm, mine, network, ROUNDS)
        return algorithm.models(state), list(mine.ledger.releases())

    apart = on_threads(graph, host)
    assert torch.allclose(torch.cat([models for models, _ in apart]), together, atol=1e-6)
    # Each thread's ledger is its node's column of the simulation's.
    for row, (_, lines) in enumerate(apart):
        whole = list(task.ledger.releases())
        assert len(lines) == len(whole)
        for one, line in zip(lines, whole, strict=True):
            assert one.multipliers.tolist() == [line.multipliers[row]]
            assert one.rates.tolist() == [line.rates[row]]


def test_the_ledger_holds_what_was_planned(name):
    task = digits_task()
    algorithm = private(name)
    run_rounds(algorithm, task, Simulated(graphs.build("ring", {"nodes": 5})), ROUNDS)
    planned = plan(algorithm, task.sampler.sampling, task.nodes)
    made = list(task.ledger.releases())
    assert len(made) == len(planned) > 0
    for one, other in zip(made, planned, strict=True):
        assert one[:3] == other[:3]
        assert one.multipliers.tolist() == other.multipliers.tolist()
        assert (one.sampling, one.relation) == (other.sampling, other.relation)
    assert task.ledger.unreleased == []


def test_a_graph_it_cannot_use_is_refused(name):
    from tacit.graphs import require

    cut = from_matrices([np.eye(4)])
    with pytest.raises(TacitError, match="components"):
        require(cut, *algorithms.build(name, PARAMETERS.get(name, {})).needs, who=name)


def test_a_state_is_tensors_with_a_row_a_node(name):
    task = digits_task()
    algorithm = private(name)
    state = algorithm.start(task, graphs.build("ring", {"nodes": 5}))
    for value in vars(state).values():
        assert len(value) == task.n
    assert algorithm.models(state).shape == (task.n, task.d)
