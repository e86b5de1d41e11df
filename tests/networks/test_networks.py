"""The contract of every runtime: the four verbs, against dense matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graphs import Dropout, graphs
from tacit.networks import Costs, Simulated, run_on_threads
from tacit.privacy import Ledger
from tacit.runs import Config, from_config
from tests.helpers import run_rounds

GRAPHS = {
    "ring": graphs.build("ring", {"nodes": 6}),
    "one-peer-exponential": graphs.build("one-peer-exponential", {"nodes": 6}),
    "star": graphs.build("star", {"nodes": 5}),
    "erdos-renyi": graphs.build("erdos-renyi", {"nodes": 7, "p": 0.5, "seed": 1}),
    "dropout": Dropout(graphs.build("d-out", {"nodes": 6, "d": 3}), links=0.3, nodes=0.1, seed=2),
}


def values(n, *shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, *shape))).to(dtype)


@pytest.fixture(params=GRAPHS, scope="module")
def graph(request):
    return GRAPHS[request.param]


def in_threads(graph, verb, *stacked):
    """The result of a verb with one node per thread, stacked."""
    return run_on_threads(graph, lambda network: verb(network, *(x[network.nodes[0]][None] for x in stacked)))


@pytest.mark.parametrize("t", [0, 1, 5])
def test_mix_is_the_product_with_the_weights_of_the_round(graph, t):
    x, w = values(graph.nodes, 3), values(graph.nodes, seed=1)
    dense = torch.from_numpy(graph.at(t).toarray())
    simulated = Simulated(graph).mix(t, x, w)
    threaded = in_threads(graph, lambda network, *v: network.mix(t, *v), x, w)
    for k, value in enumerate((x, w)):
        assert torch.allclose(simulated[k], dense @ value, atol=1e-12)
        assert torch.allclose(torch.cat([answer[k] for answer in threaded]), dense @ value, atol=1e-12)


def test_all_nodes_receive_max_and_mean(graph):
    x, s = values(graph.nodes, 4), values(graph.nodes)
    assert float(Simulated(graph).max(s)) == float(s.max())
    assert torch.allclose(Simulated(graph).mean(x), x.mean(0))
    assert in_threads(graph, lambda network, v: float(network.max(v)), s) == [float(s.max())] * graph.nodes
    for mean in in_threads(graph, lambda network, v: network.mean(v), x):
        assert torch.allclose(mean, x.mean(0))


@pytest.mark.parametrize("name", ["ring", "star", "erdos-renyi"])
def test_swap_returns_the_value_of_the_opposite_edge(name):
    graph = GRAPHS[name]
    source, target = graph.edges(0)
    z = torch.stack([torch.from_numpy(source), torch.from_numpy(target)], 1).double()
    assert torch.equal(Simulated(graph).swap(0, z), z.flip(1))

    def one(network):
        edges = network.edges(0)
        mine = torch.stack([torch.from_numpy(edges.source), torch.from_numpy(edges.target)], 1).double()
        assert torch.equal(edges.row, torch.zeros(len(mine), dtype=torch.long))
        return torch.equal(network.swap(0, mine), mine.flip(1))

    assert all(run_on_threads(graph, one))


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["ring", "d-out", "one-peer-exponential", "erdos-renyi", "star", "complete"]),
    nodes=st.integers(3, 24),
    t=st.integers(0, 50),
    links=st.floats(0, 0.9),
)
def test_mass_is_conserved(name, nodes, t, links):
    params = {"nodes": nodes} | ({"d": 2} if name == "d-out" else {"p": 0.6} if name == "erdos-renyi" else {})
    graph = Dropout(graphs.build(name, params), links=links, nodes=0.2, seed=nodes)
    x = values(nodes, 2)
    assert torch.allclose(Simulated(graph).mix(t, x)[0].sum(0), x.sum(0), atol=1e-10)


def test_traffic_is_counted_in_every_runtime():
    graph = GRAPHS["one-peer-exponential"]
    x, w = values(6, 10, dtype=torch.float32), values(6, dtype=torch.float32)
    simulated = Simulated(graph)
    simulated.mix(0, x, w)
    simulated.max(w)
    assert simulated.traffic.messages == 6 * 1 + 6 * 5
    assert simulated.traffic.bytes == 6 * 44 + 30 * 4
    assert simulated.traffic.rounds == 2

    def one(network):
        row = network.nodes[0]
        network.mix(0, x[row][None], w[row][None])
        network.max(w[row][None])
        return network.traffic.messages, network.traffic.bytes

    assert np.sum(run_on_threads(graph, one), axis=0).tolist() == [36, 6 * 44 + 30 * 4]


def test_cost_model():
    graph = graphs.build("star", {"nodes": 5})
    network = Simulated(graph, Costs(gradient_time=0.1, link_time=1.0, bandwidth=100.0))
    network.mix(0, torch.ones(5, 25))
    # Four gradients, one round, and the hub's 4 messages of 100 bytes.
    assert network.seconds(draws=4) == pytest.approx(0.4 + 1.0 + 4.0)
    with network.unmetered():
        network.mean(torch.ones(5, 25))
    assert network.traffic.rounds == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_not_sent(bad):
    graph = GRAPHS["ring"]
    x = torch.ones(6, 3)
    x[4, 1] = bad
    network = Simulated(graph)
    with pytest.raises(TacitError, match="node 4 has values that are not finite in round 7; nothing was sent"):
        network.mix(7, x)
    assert network.traffic.messages == 0
    with pytest.raises(TacitError, match="node 4"):
        run_on_threads(graph, lambda network: network.mix(7, x[network.nodes[0]][None]))


def test_large_finite_values_are_sent():
    x = torch.full((6, 2), 2e38)
    assert torch.equal(Simulated(GRAPHS["one-peer-exponential"]).mix(0, x)[0], x)


def test_mixing_of_ten_thousand_nodes():
    network = Simulated(graphs.build("one-peer-exponential", {"nodes": 10_000}))
    x = values(10_000, 8)
    total = x.sum(0)
    for t in range(14):
        (x,) = network.mix(t, x)
    assert torch.allclose(x.sum(0), total, atol=1e-8)
    # After one period every value has reached every node, so the spread is small.
    assert float((x - x.mean(0)).abs().max()) < 0.05


def test_threads_do_not_share_a_module():
    """Gradient engines add hooks to the module; a shared module would mix up the gradients of the threads."""
    from tacit.tasks import Clip
    from tests.helpers import digits_task

    task = digits_task(nodes=6, model="cnn", batch=4, engine="ghost")
    params = task.initial()
    together = [task.gradient(params, step, Clip(0.5)).value for step in range(4)]

    def host(network):
        mine = task.host(network.nodes)
        return [mine.gradient(params[:1], step, Clip(0.5)).value for step in range(4)]

    for node, apart in enumerate(run_on_threads(GRAPHS["ring"], host)):
        for one, whole in zip(apart, together, strict=True):
            assert torch.allclose(one[0], whole[node], atol=1e-6)


@pytest.mark.parametrize("algorithm", ["dyn-d2p", "dp-sgd"])
def test_threads_add_the_same_paired_noise_as_the_simulation(algorithm):
    """Each thread hosts one node, and draws the noise of its pairs by itself."""
    config = {
        "rounds": 8,
        "algorithm": {"name": algorithm, "lr": 0.3},
        "graph": {"name": "ring", "nodes": 6},
        "sharding": {"name": "sizes", "ratio": 3.0},
        "privacy": {"epsilon": 4.0, "noise": "paired", "colluders": 2},
    }
    run, whole = (from_config(Config.parse(config)) for _ in range(2))
    assert run.algorithm.pairs is not None

    def host(network):
        task = run.task.host(network.nodes.tolist(), Ledger())
        return run.algorithm.models(run_rounds(run.algorithm, task, network, 8))

    together = torch.cat(run_on_threads(run.network.graph, host))
    assert torch.allclose(together, whole.go().models, atol=1e-6)  # products of one node and of six round differently
