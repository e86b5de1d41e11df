"""A graph that does not fit is refused with a sentence; one that fits is not."""

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
def test_what_fits_is_accepted(graph: Graph) -> None:
    require(graph, "column-stochastic", "row-stochastic", "doubly-stochastic", "self-loops", who="DPPS")
    require(Dropout(graph), "column-stochastic", who="DPPS")


@given(any_graph())
def test_refused_exactly_when_the_answer_is_no(graph: Graph) -> None:
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
            sentence = refusal(graph, need, who="it")
            assert sentence.startswith("it needs ")
            assert f'"{graph.name}"' in sentence
            assert "\n" not in sentence


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
        'SGP needs a column-stochastic graph; "swap" has no self-loop at node 0, which would keep nothing of '
        "its value: add one, or use Lazy"
    )
    assert refusal(swap, "self-loops").startswith("SGP needs self-loops; ")
    require(Lazy(swap), "column-stochastic", who="SGP")
    assert "no self-loop at node" in refusal(Dropout(swap), "self-loops")
    assert "no self-loop at some node" in refusal(Dropout(swap, links=0.999), "self-loops")


def test_connectivity() -> None:
    assert refusal(d_out(6, d=1), "connected") == (
        'SGP needs a connected graph; "1-out" falls into 6 components: node 1 cannot be reached from node 0; '
        "add links until every node reaches every other"
    )
    one_way = [[0.5, 0.0], [0.5, 1.0]]
    assert "falls into 2 components: node 1 cannot reach node 0" in refusal(from_matrices([one_way]), "connected")
    assert "2 components over all 2 rounds" in refusal(from_matrices([one_way, np.eye(2)]), "connected")
    require(from_matrices([one_way, np.transpose(one_way)]), "connected", who="SGP")
    require(Dropout(ring(8), links=0.9), "connected", who="SGP")
    assert '"1-out with drop-out" falls into 6 components: node 1' in refusal(Dropout(d_out(6, d=1)), "connected")


def test_static_undirected_symmetric() -> None:
    assert "repeats every 4 rounds: use a static graph" in refusal(one_peer_exponential(10), "static")
    assert "changes at random" in refusal(Dropout(ring(5)), "static")
    assert refusal(d_out(5), "undirected", who="ECL") == (
        'ECL needs an undirected graph; "2-out" has a link 0 → 1 but none back: '
        "use an undirected graph such as ring, grid or erdos-renyi"
    )
    assert "weigh more one way" in refusal(star(5, weights="uniform-out"), "symmetric")
    with pytest.raises(TacitError, match='unknown need "conected"; did you mean "connected"'):
        require(ring(3), "conected", who="SGP")


@pytest.mark.parametrize("name", [name for name in graphs if name != "edges"])
@pytest.mark.parametrize("nodes", [0, -3])
def test_no_nodes(name: str, nodes: int) -> None:
    with pytest.raises(TacitError, match=f"needs at least 1 node, not {nodes}"):
        graphs.build(name, {"nodes": nodes})


def test_wrong_parameters() -> None:
    with pytest.raises(TacitError, match=r"d-out on 4 nodes needs d from 1 to 4 .*, not 5"):
        d_out(4, d=5)
    with pytest.raises(
        TacitError, match=r"grid: 7 nodes fill no rectangle, since 7 is prime: use 6 \(2 × 3\) or 8 \(2 × 4\)"
    ):
        grid(7)
    with pytest.raises(TacitError, match="torus: 12 nodes do not fill 5 rows: use a divisor of 12"):
        torus(12, rows=5)
    with pytest.raises(TacitError, match='period must be "floor" or "ceil", not "round"'):
        one_peer_exponential(8, period="round")
    with pytest.raises(TacitError, match=r"p is a probability, from 0 to 1, not 1.5"):
        erdos_renyi(8, p=1.5)
    with pytest.raises(
        TacitError,
        match=r"p=0.01 on 50 nodes was not connected in 100 tries: use p well above ln\(N\)/N = 0.078",
    ):
        erdos_renyi(50, p=0.01)
    with pytest.raises(TacitError, match=r"5 nodes cannot all have 3 neighbours .*: use degree 2 or 4"):
        random_regular(5, degree=3)
    with pytest.raises(TacitError, match=r"4 nodes cannot all have 9 neighbours .*: use a degree of at most 3"):
        random_regular(4, degree=9)
    with pytest.raises(TacitError, match="not connected in 100 tries: use degree 3 or more"):
        random_regular(40, degree=1)
    with pytest.raises(TacitError, match="seed must be at least 0, not -1"):
        erdos_renyi(8, seed=-1)
    with pytest.raises(TacitError, match="complete on 20000 nodes has 400,000,000 weights"):
        complete(20_000)
    with pytest.raises(TacitError, match="does not fit in memory: use a smaller p"):
        erdos_renyi(100_000, p=0.5)


def test_the_registry_describes_every_family() -> None:
    described = graphs.describe()
    assert set(described) >= {
        "ring", "d-out", "one-peer-exponential", "exponential", "complete", "star", "grid", "torus",
        "erdos-renyi", "random-regular", "edges",
    }  # fmt: skip
    assert all(line.endswith(".") and len(line) > 20 for line in described.values())
    assert graphs.build("d-out", {"nodes": 10, "d": 4}).name == "4-out"
