"""Unsuitable graphs are refused with a helpful message; suitable ones are accepted."""

import numpy as np
import pytest
from hypothesis import given

from tacit.errors import TacitError
from tacit.graphs import (
    Dropout,
    Graph,
    Lazy,
    complete,
    d_out,
    erdos_renyi,
    exponential,
    from_matrices,
    graphs,
    grid,
    one_peer_exponential,
    random_regular,
    require,
    ring,
    star,
    torus,
)
from tests.graphs.graph_cases import any_graph, family


def refusal(graph: Graph, *needs: str, who: str = "SGP") -> str:
    with pytest.raises(TacitError) as refused:
        require(graph, *needs, who=who)
    return str(refused.value)


@given(family())
def test_suitable_graphs_are_accepted(graph: Graph) -> None:
    require(graph, "column-stochastic", "row-stochastic", "doubly-stochastic", "self-loops", who="DPPS")
    require(Dropout(graph), "column-stochastic", who="DPPS")


@given(any_graph())
def test_refused_exactly_if_the_property_is_missing(graph: Graph) -> None:
    answers = {
        "column-stochastic": graph.column_stochastic and graph.self_loops,
        "row-stochastic": graph.row_stochastic and graph.self_loops,
        "doubly-stochastic": graph.doubly_stochastic and graph.self_loops,
        "symmetric": graph.symmetric,
        "undirected": not graph.directed,
        "connected": graph.window() is not None,
        "static": graph.period == 1,
        "self-loops": graph.self_loops,
    }
    for need, fits in answers.items():
        if fits:
            require(graph, need, who="it")
        else:
            message = refusal(graph, need, who="it")
            assert message.startswith("it needs ")
            assert f'"{graph.name}"' in message
            assert "\n" not in message


def test_column_sums() -> None:
    five = 0.8 * np.eye(5) + 0.2 * np.roll(np.eye(5), 1, axis=0)
    five[4, 4] = 0.63
    assert refusal(from_matrices([five], name="custom edges"), "column-stochastic", who="Dyn-D²P") == (
        'Dyn-D²P needs a column-stochastic graph; "custom edges" has columns that sum to 0.83 (node 4): '
        'use weights="uniform-out"'
    )
    nearly = from_matrices([np.eye(2), [[1, 0], [0, 0.99999]]])
    assert "sum to 0.99999 (node 1 in round 1)" in refusal(nearly, "column-stochastic").replace("0.999990", "0.99999")


def test_row_sums() -> None:
    assert refusal(star(5, weights="uniform-out"), "doubly-stochastic", who="DPPS") == (
        'DPPS needs a doubly-stochastic graph; "star" has rows that sum to 2.20 (node 0): use weights="metropolis"'
    )
    one_way = from_matrices([[[0.5, 0.0], [0.5, 1.0]]])
    assert refusal(one_way, "doubly-stochastic").endswith(
        "has rows that sum to 0.50 (node 0): use a regular graph such as d-out or one-peer-exponential, "
        "or an undirected one"
    )
    assert refusal(Dropout(exponential(9), links=0.5), "doubly-stochastic").endswith(
        ': use an undirected graph with weights="metropolis", or no drop-out'
    )


def test_self_loops() -> None:
    swap = from_matrices([[[0.0, 1.0], [1.0, 0.0]]], name="swap")
    assert refusal(swap, "column-stochastic") == (
        'SGP needs a column-stochastic graph; "swap" has no self-loop at node 0, so the node would '
        "lose its own value: add a self-loop, or use Lazy"
    )
    assert refusal(swap, "self-loops").startswith("SGP needs self-loops; ")
    require(Lazy(swap), "column-stochastic", who="SGP")
    assert "no self-loop at node" in refusal(Dropout(swap), "self-loops")
    assert "no self-loop at some node" in refusal(Dropout(swap, links=0.999), "self-loops")


def test_connectivity() -> None:
    assert refusal(d_out(6, d=1), "connected") == (
        'SGP needs a connected graph; "1-out" has 6 components: node 1 cannot be reached from node 0. '
        "Add links until every node can reach every other"
    )
    one_way = [[0.5, 0.0], [0.5, 1.0]]
    assert "has 2 components: node 1 cannot reach node 0" in refusal(from_matrices([one_way]), "connected")
    assert "2 components over all 2 rounds" in refusal(from_matrices([one_way, np.eye(2)]), "connected")
    require(from_matrices([one_way, np.transpose(one_way)]), "connected", who="SGP")
    require(Dropout(ring(8), links=0.9), "connected", who="SGP")
    assert '"1-out with drop-out" has 6 components: node 1' in refusal(Dropout(d_out(6, d=1)), "connected")


def test_static_undirected_symmetric() -> None:
    assert "repeats every 4 rounds: use a static graph" in refusal(one_peer_exponential(10), "static")
    assert "changes at random" in refusal(Dropout(ring(5)), "static")
    assert refusal(d_out(5), "undirected", who="ECL") == (
        'ECL needs an undirected graph; "2-out" has a link 0 → 1 but no link back: '
        "use an undirected graph such as ring, grid or erdos-renyi"
    )
    assert "different weights in the two directions" in refusal(star(5, weights="uniform-out"), "symmetric")
    with pytest.raises(TacitError, match='unknown need "conected"; did you mean "connected"'):
        require(ring(3), "conected", who="SGP")


@pytest.mark.parametrize("name", [name for name in graphs if name != "edges"])
@pytest.mark.parametrize("nodes", [0, -3])
def test_zero_nodes_are_refused(name: str, nodes: int) -> None:
    with pytest.raises(TacitError, match=f"nodes must be at least 1, got {nodes}"):
        graphs.build(name, {"nodes": nodes})


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(TacitError, match=r"d-out: d must be in 1 to 4 .*, got 5"):
        d_out(4, d=5)
    with pytest.raises(
        TacitError, match=r"grid: 7 is prime, so 7 nodes form no rectangle: use 6 \(2 × 3\) or 8 \(2 × 4\)"
    ):
        grid(7)
    with pytest.raises(TacitError, match="torus: rows must divide the 12 nodes, got 5"):
        torus(12, rows=5)
    with pytest.raises(TacitError, match='period must be "floor" or "ceil", got "round"'):
        one_peer_exponential(8, period="round")
    with pytest.raises(TacitError, match=r"p must be a probability in \[0, 1\], got 1.5"):
        erdos_renyi(8, p=1.5)
    with pytest.raises(
        TacitError,
        match=r"p=0.01 on 50 nodes was not connected in 100 attempts: use p well above ln\(N\)/N = 0.078",
    ):
        erdos_renyi(50, p=0.01)
    with pytest.raises(TacitError, match=r"got degree 3 for 5 nodes: use degree 2 or 4"):
        random_regular(5, degree=3)
    with pytest.raises(TacitError, match=r"got degree 9 for 4 nodes: use a degree of at most 3"):
        random_regular(4, degree=9)
    with pytest.raises(TacitError, match="not connected in 100 attempts: use degree 3 or more"):
        random_regular(40, degree=1)
    with pytest.raises(TacitError, match="seed must be at least 0, got -1"):
        erdos_renyi(8, seed=-1)
    with pytest.raises(TacitError, match="complete on 20000 nodes has 400,000,000 weights"):
        complete(20_000)
    with pytest.raises(TacitError, match="does not fit in memory: use a smaller p"):
        erdos_renyi(100_000, p=0.5)


def test_registry_describes_every_graph() -> None:
    described = graphs.describe()
    assert set(described) >= {
        "ring", "d-out", "one-peer-exponential", "exponential", "complete", "star", "grid", "torus",
        "erdos-renyi", "random-regular", "edges",
    }  # fmt: skip
    assert all(line.endswith(".") and len(line) > 20 for line in described.values())
    assert graphs.build("d-out", {"nodes": 10, "d": 4}).name == "4-out"
