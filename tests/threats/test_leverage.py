"""Leverages compared with exact arithmetic: never below it, and hardly above."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tacit.graphs import graphs
from tacit.privacy import Coalition, Eavesdropper, ModelHolder
from tacit.privacy.noise_grid import grid
from tacit.threats import leverage
from tacit.threats.leverage import _GRID
from tests.threats.oracle import exact_leverage, floats, grouped

TOLERANCE = 2e-6  # a leverage may exceed the exact one by this much


@st.composite
def rounds(draw):
    """Weights of a round in which groups average and rows are permuted, and noise that differs between nodes."""
    n = draw(st.integers(2, 7))
    order = draw(st.permutations(range(n)))
    cuts = sorted(draw(st.sets(st.integers(1, n - 1), max_size=n - 1)))
    weights = grouped([order[a:b] for a, b in zip([0, *cuts], [*cuts, n], strict=True)])
    weights = [weights[k] for k in draw(st.permutations(range(n)))]
    if draw(st.booleans()):  # a lazy round has a different rank
        weights = [[(entry + (i == j)) / 2 for j, entry in enumerate(row)] for i, row in enumerate(weights)]
    return weights, draw(st.lists(st.integers(1, 20), min_size=n, max_size=n))


@given(rounds(), st.sets(st.integers(0, 6), min_size=1))
def test_leverage_matches_exact_arithmetic(case, members):
    weights, noise = case
    n = len(noise)
    members = {node % n for node in members}
    received = {k for k in range(n) if k in members or any(weights[a][k] for a in members)}
    exact = exact_leverage([*weights, *([Fraction(int(j == k)) for j in range(n)] for k in received)], noise)
    view = Coalition(tuple(members)).view(floats(weights), None)
    found = leverage(view, np.array(noise, float))
    assert all(c <= f <= min(1, c + Fraction(TOLERANCE)) for f, c in zip(map(Fraction, found), exact, strict=True))
    assert all(found[k] == 1 for k in received)


@given(rounds(), st.permutations(range(7)))
def test_a_larger_coalition_never_has_a_smaller_leverage(case, order):
    weights, noise = floats(case[0]), np.array(case[1], float)
    nodes = [node for node in order if node < len(noise)]
    seen = np.array([leverage(Coalition(tuple(nodes[:k])).view(weights, None), noise) for k in (1, 2, len(nodes))])
    assert (np.diff(seen, axis=0) >= 0).all()
    assert (seen[-1] == 1).all()
    assert (leverage(ModelHolder("all").view(weights, None), noise) <= seen[0]).all()


def test_a_matching_has_leverage_one_half():
    matching = floats(grouped([(0, 3), (1, 2), (4, 5)]))
    assert leverage(matching, np.ones(6)) == pytest.approx(np.full(6, 0.5), abs=TOLERANCE)
    against_one = leverage(Coalition((0,)).view(matching, None), np.ones(6))
    assert against_one == pytest.approx([1, 0.5, 0.5, 1, 0.5, 0.5], abs=TOLERANCE)


def test_one_peer_graphs_hide_one_direction_per_cycle():
    """Offset s on n = 8 nodes gives gcd(8, s) cycles of even length, and each cycle hides one direction."""
    graph = graphs.build("one-peer-exponential", {"nodes": 8})
    found = [leverage(graph.at(t).toarray(), np.ones(8)) for t in range(3)]
    assert np.array(found) == pytest.approx(np.repeat([[7 / 8], [3 / 4], [1 / 2]], 8, axis=1), abs=TOLERANCE)


@pytest.mark.parametrize("name", ["ring", "grid", "d-out", "exponential", "erdos-renyi"])
def test_full_rank_weights_have_leverage_one(name):
    weights = graphs.build(name, {"nodes": 10}).at(0).toarray()
    full = np.linalg.matrix_rank(weights) == 10
    assert (leverage(weights, np.ones(10)) == 1).all() == full
    assert (leverage(0.5 * np.eye(10) + 0.5 * weights + 0.1 * np.eye(10), np.ones(10)) == 1).all()


def test_the_noisier_node_of_a_pair_protects_the_other():
    found = leverage(floats(grouped([(0, 1)])), np.array([1.0, 3.0]))
    assert found == pytest.approx([0.1, 0.9], abs=TOLERANCE)


@pytest.mark.parametrize("apart", [1e-13, 1e-9, 1e-6, 1e-3])
def test_nearly_singular_weights_have_leverage_one(apart):
    """In exact arithmetic both rows determine both messages; a tiny difference must not count as hiding."""
    assert (leverage(np.array([[0.5 + apart, 0.5 - apart], [0.5 - apart, 0.5 + apart]]), np.ones(2)) == 1).all()
    assert (leverage(np.eye(2), np.array([1.0, apart**2])) == 1).all()
    assert (leverage(floats(grouped([(0, 1)])), np.array([1.0, apart / 2])) == 1).all()


def test_on_a_grid_only_whole_null_vectors_hide():
    """0.3137 a + 0.6863 b determines whole numbers a and b; 5 a + b + c + … leaves many choices."""
    pair = np.array([[0.3137, 0.6863], [0.3137, 0.6863]])
    assert (leverage(pair, np.ones(2)) == 1).all()
    star = graphs.build("star", {"nodes": 6}).at(0).toarray()
    exact = exact_leverage([[Fraction(entry).limit_denominator(100) for entry in row] for row in star], [1] * 6)
    assert leverage(star, np.ones(6)) == pytest.approx(list(map(float, exact)), abs=TOLERANCE)
    assert max(exact) < 1


def test_the_grid_is_as_fine_as_the_proof_assumes():
    scales = np.geomspace(1e-6, 1e6, 500)
    steps = grid(scales)
    assert (steps <= scales / 64).all()
    assert (np.frexp(steps)[0] == 0.5).all()  # powers of two
    assert _GRID == 1 / 64


def test_the_sum_of_two_rounded_values_has_the_gaussian_likelihood_ratio():
    """The probability of every sum of two values on the grid, compared with the Gaussian of the same view."""
    m, step = 64.0, 1.0  # noise of both values and step, in steps of the grid
    at = np.arange(-2000, 2001)
    one, other, shifted = (
        np.diff(norm.cdf((np.append(at, 2001) - 0.5 - shift) / m)) for shift in (0.0, 0.0, 40 * step)
    )
    sums = [np.convolve(each, other) for each in (one, shifted)]
    likely = sums[0] > 1e-12
    ratio = np.log(sums[1][likely] / sums[0][likely])
    points = np.arange(-4000, 4001)[likely]
    variance = 2 * m**2 + 2 / 12
    np.testing.assert_allclose(ratio, (points**2 - (points - 40) ** 2) / (2 * variance), atol=1e-6)


def test_the_views_of_each_adversary():
    weights = graphs.build("ring", {"nodes": 5}).at(0).toarray()
    noise = np.ones(5)
    assert (leverage(Eavesdropper().view(weights, None), noise) == 1).all()
    assert leverage(ModelHolder().view(weights, np.ones(5)), noise) == pytest.approx(np.full(5, 0.2), abs=TOLERANCE)
    assert leverage(ModelHolder((0,)).view(weights, np.ones(5)), noise) == pytest.approx(
        [1 / 3, 1 / 3, 0, 0, 1 / 3], abs=TOLERANCE
    )
    assert leverage(ModelHolder((0,)).view(weights, np.ones(5)), noise)[2] == 0
    assert (ModelHolder((0,)).view(weights, None) == weights).all()
