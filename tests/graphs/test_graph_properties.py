"""Properties of every graph, compared with naive or independent computations."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graphs import Graph, Lazy, from_matrices, from_networkx, graphs, metropolis, uniform_out
from tests.graphs.graph_cases import FAMILIES, any_graph, any_networkx, any_sequence, family

SCALES = [name for name in FAMILIES if name != "complete"]  # that one has N² links


@given(family(), st.integers(0, 50))
def test_registered_graphs_conserve_mass_and_agreement(graph: Graph, t: int) -> None:
    weights = graph.at(t).toarray()
    assert weights.shape == (graph.nodes, graph.nodes)
    assert weights.min() >= 0
    assert np.allclose(weights.sum(axis=0), 1, rtol=0, atol=1e-12)
    assert np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-12)  # every registered family is regular or metropolis
    assert np.all(np.diag(weights) > 0)
    assert graph.doubly_stochastic
    assert graph.self_loops


@given(any_graph(), st.integers(0, 20))
def test_properties_agree_with_the_matrices(graph: Graph, t: int) -> None:
    dense = [graph.at(s).toarray() for s in range(graph.period)]
    assert np.array_equal(graph.at(t).toarray(), dense[t % graph.period])
    assert graph.at(t).has_canonical_format
    assert graph.at(t).dtype == np.float64
    assert graph.directed == any(np.any((w > 0) != (w > 0).T) for w in dense)
    assert graph.symmetric == all(np.allclose(w, w.T, rtol=0, atol=1e-9) for w in dense)
    assert graph.column_stochastic == all(np.allclose(w.sum(axis=0), 1, rtol=0, atol=1e-9) for w in dense)
    assert graph.row_stochastic == all(np.allclose(w.sum(axis=1), 1, rtol=0, atol=1e-9) for w in dense)
    assert graph.doubly_stochastic == (graph.column_stochastic and graph.row_stochastic)
    assert str(graph.nodes) in graph.description
    assert graph.name in repr(graph)


@given(any_graph())
def test_links(graph: Graph) -> None:
    weights = graph.at(0).toarray()
    expected = sorted((j, i) for i, j in zip(*np.nonzero(weights), strict=True) if i != j)
    sources, targets = graph.edges(0)
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == expected
    off = weights - np.diag(np.diag(weights))
    assert np.array_equal(graph.out_degrees(0), np.count_nonzero(off, axis=0))
    assert np.array_equal(graph.in_degrees(0), np.count_nonzero(off, axis=1))


@given(any_graph(), st.integers(1, 6))
def test_strong_connectivity_agrees_with_networkx(graph: Graph, window: int) -> None:
    def connected(start: int, length: int) -> bool:
        union = nx.compose_all([graph.to_networkx(t) for t in range(start, start + length)])
        return nx.is_strongly_connected(union)

    def every(length: int) -> bool:
        return all(connected(start, length) for start in range(graph.period))

    assert graph.strongly_connected(window) == every(window)
    smallest = graph.window()
    if smallest is None:
        assert not every(graph.period)
    else:
        assert every(smallest)
        assert smallest == 1 or not every(smallest - 1)


@given(any_graph(), st.integers(0, 5), st.integers(0, 5))
def test_dobrushin_agrees_with_the_definition(graph: Graph, start: int, length: int) -> None:
    product = np.eye(graph.nodes)
    for t in range(start, start + length):
        product = graph.at(t).toarray() @ product
    assert np.allclose(graph.product(start, start + length).toarray(), product)
    naive = 0.5 * max(sum(abs(a - b)) for a in product for b in product)
    assert graph.dobrushin(start, start + length) == pytest.approx(naive, abs=1e-12)


@given(any_sequence(), st.integers(0, 99))
def test_dobrushin_bounds_the_remaining_disagreement(graph: Graph, seed: int) -> None:
    def spread(x: np.ndarray) -> float:
        return float(max(abs(a - b).sum() for a in x for b in x))

    averaging = from_matrices([w.toarray().T for w in graph.cycle()])
    x = np.random.default_rng(seed).normal(size=(graph.nodes, 3))
    assert spread(averaging.product(0, 4) @ x) <= averaging.dobrushin(0, 4) * spread(x) + 1e-9


@given(any_graph())
def test_spectral_gap_agrees_with_all_eigenvalues(graph: Graph) -> None:
    product = graph.product(0, graph.period).toarray()
    moduli = np.sort(np.abs(np.linalg.eigvals(product)))
    second = moduli[-2] if graph.nodes > 1 else 0.0
    # A defective eigenvalue is only found to a root of the rounding error.
    assert graph.spectral_gap() == pytest.approx(1 - second, abs=2e-2 if second < 2e-2 else 1e-5)


@given(any_networkx())
def test_metropolis_and_uniform_out(g: nx.Graph) -> None:
    adjacency = from_networkx(g, weights="uniform-out").at(0)
    shares = uniform_out(adjacency).toarray()
    assert np.allclose(shares.sum(axis=0), 1)
    assert all(len(set(column[column > 0])) == 1 for column in shares.T)
    if g.is_directed():
        return
    weights = metropolis(adjacency).toarray()
    assert np.array_equal(weights, weights.T)
    assert np.allclose(weights.sum(axis=0), 1)
    degrees = [len(set(g[v]) - {v}) for v in sorted(g)]
    for u, v in g.edges:
        if u != v:
            assert weights[u, v] == 1 / (1 + max(degrees[u], degrees[v]))


@given(any_graph())
def test_networkx_round_trip(graph: Graph) -> None:
    again = from_networkx(graph.to_networkx(0), weights="given")
    assert np.array_equal(again.at(0).toarray(), graph.at(0).toarray())


@given(any_graph(), st.integers(0, 9))
def test_lazy_keeps_half(graph: Graph, t: int) -> None:
    lazy = Lazy(graph)
    assert np.allclose(lazy.at(t).toarray(), (np.eye(graph.nodes) + graph.at(t).toarray()) / 2)
    assert lazy.at(t) is lazy.at(t + graph.period)
    assert lazy.self_loops
    assert lazy.column_stochastic == graph.column_stochastic
    assert lazy.window() == graph.window()


@pytest.mark.parametrize("name", SCALES)
def test_ten_thousand_nodes(name: str) -> None:
    degree = {"degree": 4} if name == "random-regular" else {}
    graph = graphs.build(name, {"nodes": 10_000, **degree})
    assert graph.at(7).shape == (10_000, 10_000)
    assert np.allclose(graph.at(7).sum(axis=0), 1)
    assert graph.doubly_stochastic
    assert graph.window() is not None
    assert graph.spectral_gap() > 0


def test_dobrushin_of_a_thousand_nodes() -> None:
    graph = graphs.build("erdos-renyi", {"nodes": 1000, "p": 0.05})
    dense = graph.at(0).toarray()
    some = 0.5 * max(abs(dense[i] - dense).sum(axis=1).max() for i in (0, 300, 999))
    assert some <= graph.dobrushin(0, 1) <= 1 + 1e-12
    assert graph.dobrushin(0, 3) < 0.5


@given(any_graph())
def test_product_refuses_stop_before_start(graph: Graph) -> None:
    assert (graph.product(3, 3) != from_matrices([np.eye(graph.nodes)]).at(0)).nnz == 0
    with pytest.raises(TacitError, match="stop must be at least start, got start 2 and stop 1"):
        graph.product(2, 1)
