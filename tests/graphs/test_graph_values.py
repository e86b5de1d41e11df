"""Known values: from the papers, or in closed form."""

from math import cos, pi

import numpy as np
import pytest

from tacit.graphs import (
    Dropout,
    Lazy,
    complete,
    d_out,
    erdos_renyi,
    exponential,
    from_matrices,
    grid,
    one_peer_exponential,
    random_regular,
    ring,
    star,
    torus,
)
from tacit.graphs.analysis import BLOCK_ROWS


def test_dobrushin_of_the_published_graphs() -> None:
    two_out, eight_out, exp = d_out(10, d=2), d_out(10, d=8), one_peer_exponential(10)
    assert [two_out.dobrushin(0, t) for t in range(5)] == [1.0] * 5
    assert two_out.dobrushin(0, 5) == 0.9375
    assert [exp.dobrushin(0, t) for t in range(4)] == pytest.approx([1, 1, 1, 0.25])
    assert eight_out.dobrushin(0, 1) == pytest.approx(0.25)
    assert eight_out.dobrushin(3, 4) == pytest.approx(0.25)


def test_one_peer_exponential_averages_exactly_when_nodes_are_a_power_of_two() -> None:
    assert np.allclose(one_peer_exponential(16).product(0, 4).toarray(), 1 / 16)


@pytest.mark.parametrize(
    ("nodes", "floor", "ceil"),
    [(1, 1, 1), (2, 1, 1), (3, 2, 2), (8, 3, 4), (9, 4, 4), (10, 4, 5), (20, 5, 6)],
)
def test_one_peer_period(nodes: int, floor: int, ceil: int) -> None:
    assert one_peer_exponential(nodes).period == floor
    assert one_peer_exponential(nodes, period="ceil").period == ceil


def test_one_peer_rounds() -> None:
    graph = one_peer_exponential(10)
    for t, offset in enumerate([1, 2, 4, 8, 1]):
        sources, targets = graph.edges(t)
        assert np.array_equal(targets, (sources + offset) % 10)
        assert set(graph.at(t).data) == {0.5}
    wrapped = one_peer_exponential(8, period="ceil").at(3)  # offset 8 leads back to the sender
    assert np.array_equal(wrapped.toarray(), np.eye(8))


@pytest.mark.parametrize("nodes", [3, 4, 9, 10, 1001, 10_000])
def test_gap_of_the_ring(nodes: int) -> None:
    around = [(1 + 2 * cos(2 * pi * k / nodes)) / 3 for k in range(1, nodes)]
    assert ring(nodes).spectral_gap() == pytest.approx(1 - max(map(abs, around)), rel=1e-6)


@pytest.mark.parametrize("nodes", [2, 5, 64])
def test_gap_of_complete_graphs(nodes: int) -> None:
    assert complete(nodes).spectral_gap() == pytest.approx(1)
    assert complete(nodes, lazy=True).spectral_gap() == pytest.approx(0.5)


@pytest.mark.parametrize("nodes", [3, 10, 600])
def test_gap_of_the_star(nodes: int) -> None:
    assert star(nodes).spectral_gap() == pytest.approx(1 / nodes)


@pytest.mark.parametrize("side", [4, 30])
def test_gap_of_the_torus(side: int) -> None:
    assert torus(side * side).spectral_gap() == pytest.approx((2 - 2 * cos(2 * pi / side)) / 5)


@pytest.mark.parametrize(
    "graph",
    [
        erdos_renyi(700, seed=3),
        random_regular(700, degree=4),
        Dropout(d_out(600, d=300), seed=1),
        grid(625),
        Lazy(star(600)),
    ],
    ids=repr,
)
def test_gap_of_large_graphs_agrees_with_all_eigenvalues(graph: object) -> None:
    product = graph.expected().product(0, graph.expected().period)
    moduli = np.sort(np.abs(np.linalg.eigvals(product.toarray())))
    assert graph.spectral_gap() == pytest.approx(1 - moduli[-2], abs=1e-8)


def test_gap_of_a_disconnected_graph_is_zero() -> None:
    assert d_out(6, d=1).spectral_gap() == 0
    assert erdos_renyi(9, p=0.0, connected=False).spectral_gap() == 0


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize("make", [ring, complete, star, grid, torus, exponential, one_peer_exponential, erdos_renyi])
def test_the_smallest_graphs(make: object, nodes: int) -> None:
    graph = make(nodes)
    assert graph.nodes == nodes
    assert graph.doubly_stochastic
    assert graph.self_loops
    assert graph.window() is not None
    if nodes == 1:
        assert np.array_equal(graph.at(0).toarray(), [[1.0]])
        assert graph.spectral_gap() == 1
    if nodes == 2:
        assert np.allclose(graph.at(0).toarray(), 0.5)


def test_grid_and_torus_neighbours() -> None:
    assert sorted(grid(6).to_networkx().to_undirected().edges) == sorted(
        [(i, i) for i in range(6)] + [(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)]
    )
    assert np.array_equal(torus(12).out_degrees(0), [4] * 12)
    assert np.array_equal(torus(8).out_degrees(0), [3] * 8)  # two rows: above and below are one node
    assert grid(12, rows=2).name == "grid 2 × 6"
    assert grid(36).name == "grid 6 × 6"


def test_connection_windows() -> None:
    assert one_peer_exponential(9).window() == 1  # 1, 2, 4 and 8 each generate the integers modulo 9
    assert one_peer_exponential(10).window() == 4  # only an odd offset leaves the even nodes
    assert d_out(6, d=1).window() is None
    assert not d_out(6, d=1).strongly_connected(100)


def test_erdos_renyi_has_the_expected_number_of_links() -> None:
    nodes, p = 400, 0.05
    counts = [len(erdos_renyi(nodes, p=p, seed=s, connected=False).edges(0)[0]) / 2 for s in range(30)]
    pairs = nodes * (nodes - 1) / 2
    assert np.mean(counts) == pytest.approx(p * pairs, abs=5 * np.sqrt(p * (1 - p) * pairs / 30))
    assert np.std(counts) == pytest.approx(np.sqrt(p * (1 - p) * pairs), rel=0.5)
    assert len(erdos_renyi(20, p=1.0).edges(0)[0]) == 20 * 19


def test_random_graphs_depend_on_the_seed() -> None:
    for make in (erdos_renyi, random_regular):
        assert (make(30, seed=1).at(0) != make(30, seed=1).at(0)).nnz == 0
        assert (make(30, seed=1).at(0) != make(30, seed=2).at(0)).nnz > 0


def test_dobrushin_compares_rows_of_different_blocks() -> None:
    two_groups = np.zeros((2 * BLOCK_ROWS, 2 * BLOCK_ROWS))
    two_groups[:BLOCK_ROWS, 0] = 1
    two_groups[BLOCK_ROWS:, 1] = 1
    assert from_matrices([two_groups]).dobrushin(0, 1) == 1


def test_circulant_column_refuses_a_missing_entry() -> None:
    assert from_matrices([[[0.5, 0.5], [0.5, 0.5]]]).spectral_gap() == 1
    assert from_matrices([[[0.5, 0.5], [0.0, 0.5]]]).spectral_gap() == 0.5


def test_contractions_are_dobrushin_coefficients_of_products() -> None:
    graph = one_peer_exponential(10)
    table = graph.contractions(30)
    assert table.shape == (4, 31)
    naive = [[graph.dobrushin(s, s + k) for k in range(31)] for s in range(4)]
    assert np.all(table >= np.array(naive) - 1e-15)
    assert np.allclose(table, naive, rtol=0, atol=1e-9)
