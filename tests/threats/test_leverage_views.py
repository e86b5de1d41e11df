"""Leverages of thousands of random views compared with exact rational arithmetic and with the pseudo-inverse."""

import numpy as np
import pytest

from tacit.threats import leverage
from tests.threats.oracle import exact_leverage

MARGIN = 1e-9  # a leverage may be below the exact one by this much, and no more
TOLERANCE = 2e-6  # where the grid allows hiding, it may be above by this much


def whole(rng, rows, nodes):
    return rng.integers(-2, 3, (rows, nodes)).astype(float)


def with_zero_columns(rng, rows, nodes):
    view = whole(rng, rows, nodes)
    view[:, rng.choice(nodes, rng.integers(1, nodes), replace=False)] = 0
    return view


def with_repeated_columns(rng, rows, nodes):
    return whole(rng, rows, nodes)[:, rng.integers(nodes, size=nodes)]


def of_low_rank(rng, rows, nodes):
    rank = rng.integers(1, min(rows, nodes) + 1)
    return whole(rng, rows, rank) @ whole(rng, rank, nodes)


def with_scaled_rows(rng, rows, nodes):
    view = with_zero_columns(rng, rows, nodes) if rng.random() < 0.5 else of_low_rank(rng, rows, nodes)
    return view * 2.0 ** rng.integers(-200, 200, (rows, 1))


def with_scaled_columns(rng, rows, nodes):
    return with_zero_columns(rng, rows, nodes) * 2.0 ** rng.choice([-60, -30, -10, 0, 0, 10, 30], nodes)


def with_a_block_of_real_numbers(rng, rows, nodes):
    view = with_zero_columns(rng, rows, nodes)
    split = rng.integers(1, nodes)
    view[: rows // 2, split:] = 0
    view[rows // 2 :, :split] = 0
    view[rows // 2 :, split:] *= rng.normal(size=(rows - rows // 2, nodes - split))
    return view


def of_real_numbers(rng, rows, nodes):
    return rng.normal(size=(rows, nodes)) * (rng.random((rows, nodes)) < 0.5)


def of_intervals(rng, rows, nodes):
    """Consecutive ones in every row: a totally unimodular matrix, whose reduced null vectors have entries 0 and ±1."""
    ends = np.sort(rng.integers(0, nodes + 1, (rows, 2)), axis=1)
    at = np.arange(nodes)
    view = ((at >= ends[:, :1]) & (at < ends[:, 1:])).astype(float)
    return view[:, rng.permutation(nodes)] * 2.0 ** rng.integers(-80, 80, (rows, 1))


def unequal(rng, nodes):
    return rng.choice([0.25, 1.0, 1.0, 1.5, 2.0, 3.0], nodes)


def very_unequal(rng, nodes):
    return 2.0 ** rng.integers(-40, 40, nodes)


def random_cases(seed, count, view, noise):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        nodes = int(rng.integers(2, 7))
        yield view(rng, int(rng.integers(1, nodes + 2)), nodes), noise(rng, nodes)


VIEWS = [
    whole,
    with_zero_columns,
    with_repeated_columns,
    of_low_rank,
    with_scaled_rows,
    with_scaled_columns,
    with_a_block_of_real_numbers,
    of_real_numbers,
    of_intervals,
]


@pytest.mark.parametrize("noise", [unequal, very_unequal])
@pytest.mark.parametrize("view", VIEWS)
def test_the_leverage_is_never_below_the_exact_one(view, noise):
    for matrix, scales in random_cases(0, 300, view, noise):
        found, exact = leverage(matrix, scales), np.array(exact_leverage(matrix, scales), float)
        assert (found >= exact - MARGIN).all(), f"view {matrix.tolist()}, noise {scales.tolist()}: {found}, not {exact}"
        assert (found <= 1).all()


@pytest.mark.parametrize("view", [whole, with_zero_columns, with_repeated_columns, of_low_rank, of_intervals])
def test_the_leverage_is_never_below_that_of_the_pseudo_inverse(view):
    for matrix, scales in random_cases(1, 600, view, unequal):
        noised = matrix / np.maximum(abs(matrix).max(axis=1, keepdims=True), 1e-300) * scales
        exact = np.diag(np.linalg.pinv(noised) @ noised)
        assert (leverage(matrix, scales) >= exact - MARGIN).all(), f"view {matrix.tolist()}, noise {scales.tolist()}"


def test_the_leverage_is_exact_where_short_whole_vectors_are_hidden():
    below_one = 0
    for matrix, scales in random_cases(2, 600, of_intervals, unequal):
        exact = np.array(exact_leverage(matrix, scales), float)
        assert leverage(matrix, scales) == pytest.approx(exact, abs=TOLERANCE)
        below_one += (exact < 1 - TOLERANCE).any()
    assert below_one > 300


def test_most_views_of_small_whole_numbers_have_the_exact_leverage():
    exact = [
        np.abs(leverage(matrix, scales) - np.array(exact_leverage(matrix, scales), float)).max() <= TOLERANCE
        for matrix, scales in random_cases(3, 400, with_zero_columns, unequal)
    ]
    assert np.mean(exact) > 0.9


@pytest.mark.parametrize("node", range(5))
def test_a_node_without_influence_does_not_hide_the_others(node):
    """The null space has a vector that is not whole, and the unit vector of the node that no row contains."""
    view = np.insert([[-1.0, -2.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.0], [1.0, -1.0, 1.0, -2.0]], node, 0.0, axis=1)
    scales = np.insert([1.0, 1.5, 1.0, 3.0], node, 3.0)
    found, exact = leverage(view, scales), np.array(exact_leverage(view, scales), float)
    assert (found >= exact).all()
    assert found[node] == 0


def test_a_small_row_reveals_as_much_as_a_large_one():
    view = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    for scale in (1.0, 1e-20, 1e-300, 1e300):
        assert leverage(view * [[1.0], [scale]], np.ones(3)) == pytest.approx(np.full(3, 2 / 3), abs=TOLERANCE)


def test_a_node_with_a_small_weight_and_much_noise_is_not_hidden():
    found = leverage(np.array([[1.0, 1e-18]]), np.array([1.0, 1e18]))
    assert (found >= 0.5).all()


@pytest.mark.parametrize("scale", [1e-310, 1e-160, 1.0, 1e160, 1e300])
def test_only_ratios_of_noise_matter(scale):
    view, scales = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([1.0, 3.0, 1.0])
    assert leverage(view, scales * scale) == pytest.approx([0.1, 0.9, 1.0], abs=TOLERANCE)


def test_a_view_without_rows_reveals_nothing():
    assert (leverage(np.empty((0, 3)), np.ones(3)) == 0).all()


def test_a_node_without_noise_is_visible_and_leaves_the_others_hidden():
    assert leverage(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([1.0, 1.0, 0.0])) == pytest.approx(
        [0.5, 0.5, 1.0], abs=TOLERANCE
    )
    assert (leverage(np.array([[1.0, 1.0]]), np.zeros(2)) == 1).all()
