"""Drop-out: mass is conserved, and failures have the stated probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graphs import (
    Dropout,
    Graph,
    Lazy,
    drop,
    exponential,
    from_matrices,
    one_peer_exponential,
    ring,
    star,
)
from tests.graphs.graph_cases import any_dropout, any_graph


@given(any_dropout(), st.integers(0, 1000))
def test_mass_is_conserved(graph: Dropout, t: int) -> None:
    before, after = graph.graph.at(t).toarray(), graph.at(t).toarray()
    assert np.allclose(after.sum(axis=0), before.sum(axis=0), rtol=0, atol=1e-12)
    mass = np.random.default_rng(t).normal(size=graph.nodes)
    assert (after @ mass).sum() == pytest.approx((before @ mass).sum(), abs=1e-9)
    assert graph.column_stochastic == graph.graph.column_stochastic


@given(any_dropout(), st.integers(0, 1000))
def test_remaining_links_were_in_the_graph(graph: Dropout, t: int) -> None:
    before, after = graph.graph.at(t).toarray(), graph.at(t).toarray()
    off = ~np.eye(graph.nodes, dtype=bool)
    assert np.all((after[off] == 0) | (after[off] == before[off]))
    assert np.all(np.diag(after) >= np.diag(before))
    assert graph.at(t).has_canonical_format


@given(any_dropout(), st.integers(0, 1000))
def test_stated_properties_hold_in_every_round(graph: Dropout, t: int) -> None:
    weights = graph.at(t).toarray()
    if graph.doubly_stochastic:
        assert np.allclose(weights.sum(axis=0), 1)
        assert np.allclose(weights.sum(axis=1), 1)
    if not graph.directed:
        assert np.array_equal(weights > 0, weights.T > 0)
    if graph.symmetric:
        assert np.allclose(weights, weights.T)
    assert graph.window() == graph.graph.window()
    assert graph.period is None


@given(any_dropout(), st.integers(0, 2**40))
def test_round_depends_only_on_seed_and_t(graph: Dropout, t: int) -> None:
    again = Dropout(graph.graph, graph.link_failure, graph.node_failure, graph.seed)
    graph.at(t + 1)
    assert np.array_equal(again.at(t).toarray(), graph.at(t).toarray())


@given(any_graph(), st.data())
def test_drop_returns_the_weight_to_the_sender(graph: Graph, data: st.DataObject) -> None:
    sources, targets = graph.edges(0)
    lost = np.array(data.draw(st.lists(st.booleans(), min_size=len(sources), max_size=len(sources))), dtype=bool)
    expected = graph.at(0).toarray()
    for j, i, gone in zip(sources, targets, lost, strict=True):
        if gone:
            expected[j, j] += expected[i, j]
            expected[i, j] = 0
    assert np.allclose(drop(graph.at(0), lost).toarray(), expected, rtol=0, atol=1e-15)


def test_rounds_and_seeds_differ() -> None:
    graph = Dropout(ring(50), links=0.3, seed=1)
    assert (graph.at(0) != graph.at(1)).nnz > 0
    assert (graph.at(0) != Dropout(ring(50), links=0.3, seed=2).at(0)).nnz > 0


def test_failed_node_keeps_its_value() -> None:
    graph = Dropout(star(200), links=0, nodes=0.5, seed=3)
    for t in range(20):
        weights = graph.at(t)
        down = np.flatnonzero(weights.diagonal() == 1)
        assert len(down) > 50
        assert weights[down].nnz == len(down)
        assert weights[:, down].nnz == len(down)


def test_failure_rate_and_expected_graph() -> None:
    rounds = 4000
    for base in (ring(6), exponential(6)):
        graph = Dropout(base, links=0.3, nodes=0.1, seed=5)
        mean = sum(graph.at(t).toarray() for t in range(rounds)) / rounds
        assert np.allclose(mean, graph.expected().at(0).toarray(), rtol=0, atol=0.02)
        assert graph.expected().at(0)[1, 0] == pytest.approx(base.at(0)[1, 0] * 0.7 * 0.81)
        assert graph.spectral_gap() == pytest.approx(0.7 * 0.81 * base.spectral_gap(), rel=0.2)


def test_zero_probabilities_change_nothing() -> None:
    base = one_peer_exponential(10)
    graph = Dropout(base, links=0, nodes=0)
    assert all(np.array_equal(graph.at(t).toarray(), base.at(t).toarray()) for t in range(8))


def test_directed_graphs_lose_double_stochasticity() -> None:
    assert not Dropout(exponential(6)).doubly_stochastic
    assert Dropout(exponential(6)).column_stochastic
    lopsided = from_matrices([[[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]]])
    assert lopsided.doubly_stochastic
    assert not lopsided.directed
    assert not Dropout(lopsided).doubly_stochastic  # undirected, but the two ways weigh differently
    assert Dropout(ring(6)).doubly_stochastic


def test_wrappers_combine() -> None:
    inside, outside = Dropout(Lazy(ring(6)), seed=4), Lazy(Dropout(ring(6), seed=4))
    assert np.allclose(inside.at(3).toarray(), outside.at(3).toarray())
    assert inside.spectral_gap() == pytest.approx(outside.spectral_gap())
    twice = Dropout(Dropout(ring(6), seed=1), seed=2)
    assert twice.doubly_stochastic
    assert np.allclose(twice.at(9).sum(axis=1), 1)
    assert twice.spectral_gap() == pytest.approx(ring(6).spectral_gap() * (0.9 * 0.95**2) ** 2)


def test_ten_thousand_nodes() -> None:
    graph = Dropout(exponential(10_000))
    assert np.allclose(graph.at(1).sum(axis=0), 1)
    assert 0.7 < graph.at(1).nnz / graph.graph.at(1).nnz < 0.9


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(TacitError, match=r"links must be a probability in \[0, 1\), got 1"):
        Dropout(ring(4), links=1.0)
    with pytest.raises(TacitError, match=r"nodes must be a probability in \[0, 1\), got -0.1"):
        Dropout(ring(4), nodes=-0.1)
    with pytest.raises(TacitError, match="seed must be at least 0, got -1"):
        Dropout(ring(4), seed=-1)
    with pytest.raises(TacitError, match="one entry per link, got 3 entries for 8 links"):
        drop(ring(4).at(0), np.zeros(3, dtype=bool))
    with pytest.raises(TacitError, match="has no period"):
        Dropout(ring(4)).contractions(3)
