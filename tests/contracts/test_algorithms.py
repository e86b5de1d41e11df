"""What every registered algorithm must pass. A new one is tested here as soon as it is registered."""

import dataclasses

import numpy as np
import pytest
import torch

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.graphs import Dropout, from_matrices, graphs, require
from tacit.networks import Simulated, on_threads
from tacit.privacy.ledger import Ledger
from tacit.privacy.planning import plan
from tests.helpers import digits_task, quadratic_task, run_rounds

ROUNDS = 12
PARAMETERS = {
    "d2p": {"clip": [1.0] * ROUNDS, "noise_multiplier": [2.0] * ROUNDS},
    "partpsp": {"share": ("0.weight",), "clip": 0.1},
    "sgpdp": {"clip": 0.1},
    "pedfl": {"clip": 0.1},
    "lt-admm": {"rho": 1.0},
    "lt-admm-dp": {"rho": 1.0},
    "prisma": {"average": "gossip"},
    "dp-norm": {"alpha": 0.0, "local_steps": 2, "lr": 3e-4, "smoothness": 20.0},
    "ecl": {"local_steps": 2},
    "dp-sgd": {"local_steps": 1},
    "dp-admm": {"local_steps": 2},
    "single-node": {"local_steps": 2},
}
PARTIAL = ("partpsp",)  # some parameters stay at their node
ALGORITHMS = list(algorithms)
# Irregular and column-stochastic only: without push-sum weights the mean would be far off.
ONE_WAY = np.array([[0.5, 0.0, 0.5, 0.0], [0.25, 0.5, 0.0, 0.0], [0.25, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.5]])
LOPSIDED = from_matrices([ONE_WAY, ONE_WAY[::-1, ::-1]])


def private(name: str, rounds: int = ROUNDS, **params):
    """The algorithm with noise where it can have some."""
    known = algorithms.parameters(name)
    noise = {key: 2.0 for key in ("noise_multiplier", "noise_rate", "sigma", "sigma_first") if key in known}
    return algorithms.build(name, noise | PARAMETERS.get(name, {}) | params).with_rounds(rounds)


def silent(name: str, rounds: int, lr: float):
    """The algorithm with a clip bound nothing reaches, next to no noise, and no synchronisation."""
    bound, noise = 1e9, 1e-18
    if name == "d2p":
        return private(name, rounds, lr=lr, clip=[bound] * rounds, noise_multiplier=[noise] * rounds)
    wanted = dict.fromkeys(("clip", "clip_difference"), bound) | {"sync_every": None}
    # Less than some 1e-12 of what it is added to would drown in the rounding of floats, and is refused.
    wanted |= {"noise_multiplier": noise, "noise_rate": 1e-21 / lr, "sigma": 1e-12, "sigma_first": 1e-12}
    if name == "dp-norm":
        wanted |= {"smoothness": 1e-3}  # there is next to no noise to rest on it
    if name == "dp-admm":
        wanted |= {"rho": 0.25 / lr}  # it weighs neighbours against 1/lr
    known = algorithms.parameters(name)
    return private(name, rounds, lr=lr, **{key: value for key, value in wanted.items() if key in known})


def digits(name: str, **params):
    return digits_task(share=["0.weight"] if name in PARTIAL else None, **params)


def quadratic(name: str, **params):
    return quadratic_task(shared=2 if name in PARTIAL else None, **params)


def graph_for(name: str, nodes: int):
    """A graph that changes from round to round, where the method can use one."""
    changing = graphs.build("one-peer-exponential", {"nodes": nodes})
    return changing if usable(name, changing) else graphs.build("ring", {"nodes": nodes})


def usable(name: str, graph) -> bool:
    try:
        require(graph, *private(name).needs, who=name)
    except TacitError:
        return False
    return True


@pytest.fixture(params=ALGORITHMS)
def name(request):
    return request.param


def test_consensus_is_reached_without_gradients(name):
    network = Simulated(graph_for(name, 6))
    algorithm = silent(name, 200, lr=1e-12)
    task = quadratic(name)
    state = algorithm.start(task, network.graph)
    numerators = {"x", "s"} & vars(state).keys()
    spread = torch.from_numpy(np.random.default_rng(1).normal(size=(6, task.model.shared)))
    state = dataclasses.replace(state, **dict.fromkeys(numerators, spread))
    if "z" in vars(state):  # which starts from x
        weight = getattr(algorithm, "rho", None)  # of x in z; where there is none, A = ±1 is
        edges = network.edges(0)
        sign = torch.from_numpy(np.where(edges.source < edges.target, 1.0, -1.0))[:, None]
        state = dataclasses.replace(state, z=(sign if weight is None else weight) * spread[edges.row])
    for t in range(200):
        state = algorithm.round(t, state, task, network)
    shared, _ = task.split(algorithm.models(state))
    assert torch.allclose(shared, spread.mean(0).expand(6, -1), atol=1e-9)


@pytest.mark.parametrize("graph", ["ring", "one-peer-exponential"])
def test_without_noise_the_mean_reaches_the_optimum_of_a_quadratic(name, graph):
    task = quadratic(name)
    network = Simulated(graphs.build(graph, {"nodes": 6}))
    if not usable(name, network.graph):
        pytest.skip(f"{name} has no use for {graph}")
    algorithm = silent(name, 400, lr=0.1)
    shared, local = task.split(algorithm.models(run_rounds(algorithm, task, network, 400)))
    optimum, _ = task.split(task.data.x.double().mean(0)[None])
    assert torch.allclose(shared.mean(0), optimum, atol=1e-6)
    # What stays at a node goes to the optimum of its own records.
    _, own = task.split(torch.stack([task.data.x[shard].double().mean(0) for shard in task.shards]))
    assert torch.allclose(local, own, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if usable(name, LOPSIDED)])
def test_on_a_directed_graph_the_weights_undo_the_bias(name):
    task = quadratic(name, nodes=4)
    algorithm = silent(name, 3000, lr=0.002)
    state = run_rounds(algorithm, task, Simulated(LOPSIDED), 3000)
    optimum = task.data.x.double().mean(0)
    assert torch.allclose(algorithm.models(state), optimum.expand(4, -1), atol=0.02)


def test_same_seed_same_run_and_another_seed_another(name):
    network = Simulated(graphs.build("ring", {"nodes": 5}))
    results = [run_rounds(private(name), digits(name, seed=seed), network, ROUNDS) for seed in (0, 0, 1)]
    models = [private(name).models(state) for state in results]
    assert torch.equal(models[0], models[1])
    assert not torch.equal(models[0], models[2])


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation"])
def test_one_node_a_thread_gives_the_same_run(name, sampling):
    plain = graph_for(name, 5)
    dropping = Dropout(plain, links=0.2, nodes=0.1, seed=0)
    graph = dropping if usable(name, dropping) else plain
    task = digits(name, sampling=sampling)
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
    task = digits(name)
    graph = graphs.build("ring", {"nodes": 5})
    algorithm = private(name).bind(task, graph)
    run_rounds(algorithm, task, Simulated(graph), ROUNDS)
    planned = plan(algorithm.privacy, ROUNDS, algorithm.privacy.sampling(task), task.nodes)
    made = list(task.ledger.releases())
    assert len(made) == len(planned) > 0
    for one, other in zip(made, planned, strict=True):
        assert (one.step, one.purpose, one.mechanism.name) == (other.step, other.purpose, other.mechanism.name)
        assert one.multipliers.tolist() == other.multipliers.tolist()
        assert (one.sampling.kind, one.sampling.relation) == (other.sampling.kind, other.sampling.relation)
    assert task.ledger.unreleased == []


def test_a_graph_it_cannot_use_is_refused(name):
    cut = from_matrices([np.eye(4)])
    with pytest.raises(TacitError, match="components"):
        require(cut, *algorithms.build(name, PARAMETERS.get(name, {})).needs, who=name)


def test_a_state_is_tensors_with_a_row_a_node_or_an_edge(name):
    task = digits(name)
    algorithm = private(name)
    state = algorithm.start(task, graphs.build("ring", {"nodes": 5}))
    for key, value in vars(state).items():
        assert len(value) == (10 if key == "z" else task.n)
    assert algorithm.models(state).shape == (task.n, task.d)
