"""The tests that every registered algorithm must pass. They find the algorithms through the registry.

Parameters that an algorithm needs for a small run come from its registration: `algorithms.register(name, example=…)`.
"""

import dataclasses

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import Dropout, from_matrices, graphs, require
from tacit.networks import Simulated, run_on_threads
from tacit.privacy import Ledger, plan
from tests.helpers import constant_task, digits_task, example_algorithm, quadratic_task, run_rounds

ROUNDS = 12
ALGORITHMS = list({algorithms[name]: name for name in algorithms}.values())  # without second names
# Irregular and only column-stochastic: without push-sum weights the mean would be far off.
COLUMN_STOCHASTIC = np.array([[0.5, 0.0, 0.5, 0.0], [0.25, 0.5, 0.0, 0.0], [0.25, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.5]])
DIRECTED = from_matrices([COLUMN_STOCHASTIC, COLUMN_STOCHASTIC[::-1, ::-1]])


def private(name: str, rounds: int = ROUNDS, **params):
    """The algorithm's example, with noise if it can add some."""
    noise = dict.fromkeys(algorithms.noise_parameters(name), 2.0)
    return example_algorithm(name, rounds, **(noise | algorithms.example(name) | params))


def almost_noiseless(name: str, rounds: int, lr: float):
    """The algorithm with a clipping bound that no gradient reaches, almost no noise, and no synchronisation."""
    wanted = {"lr": lr, "clip": 1e9, "clip_difference": 1e9, "sync_every": None}
    # Noise below about 1e-12 of the value it is added to would be lost in rounding, and is refused.
    wanted |= {"noise_multiplier": 1e-18, "noise_rate": 1e-21 / lr, "b": 1.0, "sigma": 1e-12, "sigma_first": 1e-12}
    return private(name, rounds, **{key: wanted[key] for key in wanted if key in algorithms.parameters(name)})


def keeps_parameters_local(name: str) -> bool:
    """Whether the example leaves some parameters at their node."""
    return example_algorithm(name, ROUNDS).share is not None


def digits(name: str, **params):
    return digits_task(share=["0.weight"] if keeps_parameters_local(name) else None, normalise="unit", **params)


def needs_a_classifier(name: str) -> bool:
    """Whether the algorithm fits linear classifiers only; tests/algorithms has oracles of such algorithms."""
    return example_algorithm(name, ROUNDS).fits_linear_classifiers_only


def quadratic(name: str, **params):
    if needs_a_classifier(name):
        pytest.skip(f"{name} fits linear classifiers only")
    return quadratic_task(shared=2 if keeps_parameters_local(name) else None, **params)


def graph_for(name: str, nodes: int):
    """A graph that changes from round to round if the algorithm allows one, else a ring."""
    changing = graphs.build("one-peer-exponential", {"nodes": nodes})
    return changing if accepts(name, changing) else graphs.build("ring", {"nodes": nodes})


def accepts(name: str, graph) -> bool:
    try:
        require(graph, *private(name).needs, who=name)
    except TacitError:
        return False
    return True


@pytest.fixture(params=ALGORITHMS)
def name(request):
    return request.param


def test_nodes_reach_the_mean_of_their_starting_points_without_gradients(name):
    if needs_a_classifier(name):
        pytest.skip(f"{name} does not mix models")
    network = Simulated(graph_for(name, 6))
    algorithm = almost_noiseless(name, 200, lr=0.1)
    task = constant_task(shared=2 if keeps_parameters_local(name) else None)
    state = algorithm.start(task, network.graph)
    mixed = {"x", "s"} & vars(state).keys()
    spread = torch.from_numpy(np.random.default_rng(1).normal(size=(6, task.model.shared)))
    state = dataclasses.replace(state, **dict.fromkeys(mixed, spread))
    if "z" in vars(state):  # edge variables start as ρ x, or as ± x if there is no ρ
        edges = network.edges(0)
        sign = torch.from_numpy(np.where(edges.source < edges.target, 1.0, -1.0))[:, None]
        state = dataclasses.replace(state, z=getattr(algorithm, "rho", sign) * spread[edges.row])
    for t in range(200):
        state = algorithm.round(t, state, task, network)
    shared, _ = task.split(algorithm.models(state))
    assert torch.allclose(shared, spread.mean(0).expand(6, -1), atol=1e-9)


@pytest.mark.parametrize("graph", ["ring", "one-peer-exponential"])
def test_mean_reaches_the_optimum_of_a_quadratic_without_noise(name, graph):
    task = quadratic(name)
    network = Simulated(graphs.build(graph, {"nodes": 6}))
    if not accepts(name, network.graph):
        pytest.skip(f"{name} does not accept {graph}")
    algorithm = almost_noiseless(name, 400, lr=0.1)
    shared, local = task.split(algorithm.models(run_rounds(algorithm, task, network, 400)))
    optimum, _ = task.split(task.data.x.double().mean(0)[None])
    assert torch.allclose(shared.mean(0), optimum, atol=1e-6)
    # Local parameters reach the optimum of the node's own records.
    _, own = task.split(torch.stack([task.data.x[shard].double().mean(0) for shard in task.shards]))
    assert torch.allclose(local, own, atol=1e-6)


def directed_updates():
    """One name per class of algorithms that accept directed graphs, with and without noise."""
    names = [name for name in ALGORITHMS if accepts(name, DIRECTED) and not needs_a_classifier(name)]
    return {(type(private(name)), bool(algorithms.noise_parameters(name))): name for name in names}.values()


@pytest.mark.parametrize("name", directed_updates())
def test_push_sum_weights_remove_the_bias_of_a_directed_graph(name):
    task = quadratic(name, nodes=4)
    algorithm = almost_noiseless(name, 3000, lr=0.002)
    state = run_rounds(algorithm, task, Simulated(DIRECTED), 3000)
    optimum = task.data.x.double().mean(0)
    assert torch.allclose(algorithm.models(state), optimum.expand(4, -1), atol=0.02)


def test_same_seed_gives_the_same_run_and_another_seed_another(name):
    network = Simulated(graphs.build("ring", {"nodes": 5}))
    results = [run_rounds(private(name), digits(name, seed=seed), network, ROUNDS) for seed in (0, 0, 1)]
    models = [private(name).models(state) for state in results]
    assert torch.equal(models[0], models[1])
    assert not torch.equal(models[0], models[2])


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation"])
def test_one_node_per_thread_gives_the_same_run(name, sampling):
    plain = graph_for(name, 5)
    dropping = Dropout(plain, links=0.2, nodes=0.1, seed=0)
    graph = dropping if accepts(name, dropping) else plain
    task = digits(name, sampling=sampling, dtype=torch.float64)
    algorithm = private(name)
    together = algorithm.models(run_rounds(algorithm, task, Simulated(graph), ROUNDS))

    def host(network):
        hosted = task.host(network.nodes, Ledger())
        state = run_rounds(algorithm, hosted, network, ROUNDS)
        return algorithm.models(state), list(hosted.ledger.releases())

    apart = run_on_threads(graph, host)
    assert torch.allclose(torch.cat([models for models, _ in apart]), together, atol=1e-9)
    # The ledger of each thread is its node's column of the simulation's ledger.
    whole = list(task.ledger.releases())
    for row, (_, releases) in enumerate(apart):
        assert len(releases) == len(whole)
        for one, all_nodes in zip(releases, whole, strict=True):
            assert one.multipliers.tolist() == [all_nodes.multipliers[row]]
            assert one.rates.tolist() == [all_nodes.rates[row]]


def test_ledger_holds_what_was_planned(name):
    task = digits(name)
    graph = graphs.build("ring", {"nodes": 5})
    algorithm = private(name).bind(task, graph)
    run_rounds(algorithm, task, Simulated(graph), ROUNDS)
    planned = plan(algorithm.privacy, ROUNDS, algorithm.privacy.sampling(task), task.nodes)
    released = list(task.ledger.releases())
    assert len(released) == len(planned) > 0
    for one, other in zip(released, planned, strict=True):
        assert (one.step, one.purpose, one.mechanism.name) == (other.step, other.purpose, other.mechanism.name)
        assert one.multipliers.tolist() == other.multipliers.tolist()
        assert (one.sampling.kind, one.sampling.relation) == (other.sampling.kind, other.sampling.relation)
    assert task.ledger.unreleased == []


def test_disconnected_graph_is_refused(name):
    disconnected = from_matrices([np.eye(4)])
    with pytest.raises(TacitError, match="components"):
        require(disconnected, *example_algorithm(name, ROUNDS).needs, who=name)


def test_state_has_one_row_per_node_or_edge(name):
    task = digits(name)
    algorithm = private(name)
    state = algorithm.start(task, graphs.build("ring", {"nodes": 5}))
    for key, value in vars(state).items():
        assert len(value) == (10 if key == "z" else task.n)
    assert algorithm.models(state).shape == (task.n, task.d)
