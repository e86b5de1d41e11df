"""Paired noise hides a node as well as its covariance says: naive formulas, random graphs, published numbers."""

import itertools

import networkx as nx
import numpy as np
import pytest

from tacit.privacy.pair_covariance import joint_covariance, least_variances, star_variances, variances_against


def complete(n):
    return np.array(list(itertools.combinations(range(n), 2)))


def naive_variance(own, pair, edges, honest, node):
    """1 / [Σ_H⁻¹]_ii, written out from the definition: the Laplacian of the key graph among honest nodes."""
    graph = nx.Graph()
    graph.add_nodes_from(honest)
    graph.add_edges_from((i, j) for i, j in edges.tolist() if i in honest and j in honest)
    laplacian = nx.laplacian_matrix(graph, nodelist=honest).toarray().astype(float)
    sigma = np.diag(own[honest] ** 2) + pair**2 * laplacian
    row = honest.index(node)
    return 1 / np.linalg.inv(sigma)[row, row]


def exact_variances(own, pair, edges, coalition):
    """The same without cancellation: eliminate all other nodes one by one, as resistors of a network.

    w are the conductances between nodes, and e those to the ground.
    """
    n, found = len(own), np.full(len(own), np.nan)
    for node in (i for i in range(n) if i not in coalition):
        w, e = np.zeros((n, n)), own**2
        for i, j in edges.tolist():
            if i not in coalition and j not in coalition:
                w[i, j] = w[j, i] = pair**2
        for k in (k for k in range(n) if k != node and k not in coalition):
            d = e[k] + w[k].sum()
            e = e + w[:, k] * e[k] / d
            w = w + np.outer(w[:, k], w[k]) / d
            w[k] = w[:, k] = 0
            np.fill_diagonal(w, 0)
        found[node] = e[node]
    return found


def random_case(rng, scales=(1.0, 1.0, 1e-3)):
    n = int(rng.integers(2, 9))
    every = complete(n)
    edges = every[rng.random(len(every)) < rng.uniform(0.2, 1.0)]
    own = np.exp(rng.normal(0, 1, n)) * rng.choice(scales)
    pair = float(np.exp(rng.normal(0, 2)))
    return own, pair, edges.reshape(-1, 2)


def test_variance_against_a_coalition_is_that_of_the_definition():
    rng = np.random.default_rng(0)
    for _ in range(200):
        own, pair, edges = random_case(rng)
        n = len(own)
        size = int(rng.integers(0, n))
        coalition = sorted(rng.choice(n, size, replace=False).tolist())
        honest = [i for i in range(n) if i not in coalition]
        found = variances_against(own, pair, edges, coalition)
        assert np.isnan(found[coalition]).all()
        expected = [naive_variance(own, pair, edges, honest, i) for i in honest]
        condition = (own.max() ** 2 + 2 * n * pair**2) / own.min() ** 2
        np.testing.assert_allclose(found[honest], expected, rtol=2e-9 + 1e-13 * condition)
        assert (found[honest] <= np.array(expected)).all()


def test_the_star_bound_is_never_violated():
    """10,000 random key graphs with unequal noise, against the exact worst coalition."""
    rng = np.random.default_rng(1)
    violations = attained = 0
    for _ in range(10_000):
        own, pair, edges = random_case(rng)
        n = len(own)
        size = int(rng.integers(0, min(n, 4)))
        star = star_variances(own, pair, edges, size)
        coalition = rng.choice(n, size, replace=False).tolist()
        found = exact_variances(own, pair, edges, coalition)
        violations += int((star > found).any())  # comparisons with NaN are false
        attained += int(np.isclose(star, found, rtol=1e-6).any())
    assert violations == 0
    assert attained > 100  # the bound is attained, for example by stars: it is no trivial bound


def test_the_least_variance_is_the_minimum_over_all_coalitions():
    rng = np.random.default_rng(2)
    for case in range(60):
        own, pair, edges = random_case(rng, scales=(1.0,))
        n = len(own)
        if case % 2:
            edges = complete(n)
        size = int(rng.integers(0, n))
        tolerance = 1e-8 + 1e-12 * (own.max() ** 2 + 2 * n * pair**2) / own.min() ** 2
        for node in range(n):
            others = [i for i in range(n) if i != node]
            least = min(
                naive_variance(own, pair, edges, [i for i in range(n) if i not in coalition], node)
                for few in range(size + 1)
                for coalition in itertools.combinations(others, few)
            )
            assert least_variances(own, pair, edges, size)[node] == pytest.approx(least, rel=tolerance)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.0, {0: 0.095, 1: 0.100, 2: 0.105, 5: 0.125, 10: 0.182}),
        (10.0, {0: 0.055, 1: 0.058, 2: 0.061, 5: 0.073, 10: 0.109}),
    ],
)
def test_published_variance_for_complete_keys(ratio, expected):
    """c = (1 + r) / (1 + r (n − t)) for 20 nodes with equal noise."""
    for colluders, c in expected.items():
        variance = least_variances(np.ones(20), ratio**0.5, complete(20), colluders)
        assert np.round(1 / variance, 3) == pytest.approx(c)
        assert 1 / variance == pytest.approx((1 + ratio) / (1 + ratio * (20 - colluders)), rel=1e-8)


def test_published_variance_for_keys_on_a_ring():
    ring = np.array(nx.cycle_graph(20).edges)
    for colluders, c in {0: 0.157, 1: 0.270, 2: 1.0, 5: 1.0}.items():
        variance = least_variances(np.ones(20), 10**0.5, np.sort(ring), colluders)
        assert np.round(1 / variance.min(), 3) == pytest.approx(c, abs=6e-4)


def test_fewer_messages_never_help_the_adversary():
    """A node that is silent gives nothing away: what the others sent has a principal submatrix as its covariance."""
    rng = np.random.default_rng(3)
    for _ in range(1_000):
        own, pair, edges = random_case(rng)
        n = len(own)
        silent = rng.choice(n, int(rng.integers(0, n)), replace=False)
        spoke = np.setdiff1d(np.arange(n), silent)
        sigma = joint_covariance(own, pair, edges)
        seen = 1 / np.diag(np.linalg.inv(sigma[np.ix_(spoke, spoke)]))
        assert (seen >= variances_against(own, pair, edges)[spoke]).all()


def test_large_key_graphs_use_the_star_bound():
    graph = nx.random_regular_graph(16, 200, seed=0)
    edges, own = np.sort(np.array(graph.edges)), np.ones(200)
    np.testing.assert_array_equal(least_variances(own, 2.0, edges, 3), star_variances(own, 2.0, edges, 3))
    assert star_variances(own, 2.0, edges, 3) == pytest.approx(1 + 13 * 4 / 5)
