"""Certified contraction constants: they hold, and smaller ones would not."""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.graphs import Dropout, Graph, complete, d_out, from_matrices, one_peer_exponential, ring, star
from tacit.graphs.analysis import dominating
from tests.graphs.graph_cases import family


def coefficients(graph: Graph, length: int) -> np.ndarray:
    """max_s τ(W(s+k−1)…W(s)) for k = 0 … length, by dense products and the definition."""
    worst = np.zeros(length + 1)
    for s in range(graph.period):
        product = np.eye(graph.nodes)
        for k in range(length + 1):
            worst[k] = max(worst[k], 0.5 * np.abs(product[:, None] - product[None]).sum(2).max())
            product = graph.at(s + k).toarray() @ product
    return worst


@st.composite
def permutations(draw: st.DrawFn) -> Graph:
    """A periodic sequence of averages of random permutations: doubly stochastic, and sometimes slow to mix."""
    nodes, period = draw(st.integers(2, 7)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    eye = np.eye(nodes)
    return from_matrices([(2 * eye + eye[rng.permutation(nodes)]) / 3 for _ in range(period)])


@settings(max_examples=60)
@given(st.one_of(family(largest=12), permutations()))
def test_certified_constants_are_the_smallest_that_hold(graph: Graph) -> None:
    assume(graph.nodes > 1 and graph.window() is not None)
    c, lam = graph.certified_constants()
    assert 0 < lam < 1 <= c + 1e-9
    exact, bound = coefficients(graph, 120), c * lam ** np.arange(121)
    assert np.all(exact <= bound * (1 + 1e-9) + 1e-15)
    assert np.any(exact > 0.999 * bound)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_dominating_holds_for_any_submultiplicative_sequence(free: list[float]) -> None:
    # The largest sequence with c_(j+k) ≤ c_j c_k below the given numbers, to three times their length.
    exact = [1.0]
    for k in range(1, 3 * len(free) + 1):
        least = free[k - 1] if k <= len(free) else 1.0
        exact.append(min([least, *(exact[j] * exact[k - j] for j in range(1, k))]))
    assume(exact[len(free)] < 0.99)
    c, lam = dominating(np.array(exact[: len(free) + 1]))
    assert all(x <= c * lam**k * (1 + 1e-9) for k, x in enumerate(exact))


def test_known_constants() -> None:
    assert d_out(10, 8).certified_constants() == pytest.approx((1, 0.25), rel=1e-3)
    assert ring(3).certified_constants()[1] < 0.01  # one round is an average
    assert complete(6).certified_constants()[0] == pytest.approx(1)
    # The papers' λ of 0.55 at C′ = 0.78 is no bound on 2-out: nothing contracts before round 5.
    assert coefficients(d_out(10, 2), 4).tolist() == [1.0] * 5
    c, lam = d_out(10, 2).certified_constants()
    assert c * lam**4 >= 1 - 1e-9 > 0.78 * 0.55**4
    c, lam = one_peer_exponential(10).certified_constants()
    assert c * lam**3 >= 0.25


def test_graph_that_contracts_only_after_many_rounds() -> None:
    # As on a graph whose 128th round is an average, and all others leave everyone alone.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        c, lam = dominating(np.append(np.ones(128), 0.0))
    assert np.isfinite(c)
    assert c * lam**127 >= 1 - 1e-9


def test_graphs_that_do_not_contract_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.graphs.base._MAX_ROUNDS_TIMES_NODES", 128)
    with pytest.raises(TacitError, match="rows do not sum to 1"):
        star(4, weights="uniform-out").certified_constants()
    with pytest.raises(TacitError, match="has no period"):
        Dropout(ring(4)).certified_constants()
    with pytest.raises(TacitError, match="never connected"):
        from_matrices([np.eye(2)]).certified_constants()
    with pytest.raises(TacitError, match="mixes too slowly"):
        ring(20).certified_constants()
