"""Threat bounds with paired noise: views use the joint covariance, and colluders know the noise of their pairs."""

import itertools
import json

import numpy as np
import pytest

from tacit.privacy import Coalition, Eavesdropper, ModelHolder, against_colluders, plan
from tacit.privacy.pair_covariance import joint_covariance
from tacit.runs import Config, from_config
from tacit.threats import analyse_threats, bound_against, leverage
from tests.cli.conftest import setting


def naive_leverage(view, covariance):
    """e_iᵀ Bᵀ (B Σ Bᵀ)⁺ B e_i / [Σ⁻¹]_ii."""
    seen = view.T @ np.linalg.pinv(view @ covariance @ view.T, rcond=1e-10) @ view
    return np.diag(seen) / np.diag(np.linalg.inv(covariance))


def random_view(rng, n):
    """Groups average, and some messages are seen: the kind of view that a coalition or a model holder has."""
    group = rng.integers(0, max(1, n // 2), n)
    weights = np.array([[1.0 * (a == b) for b in group] for a in group])
    weights /= weights.sum(1, keepdims=True)
    return np.concatenate([weights, np.eye(n)[rng.random(n) < 0.3]])


def test_leverage_with_a_covariance_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    below_one = 0
    for _ in range(300):
        n = int(rng.integers(2, 8))
        edges = np.array(list(itertools.combinations(range(n), 2)))
        edges = edges[rng.random(len(edges)) < 0.7].reshape(-1, 2)
        own = rng.uniform(0.5, 2.0, n)
        covariance = joint_covariance(own, float(rng.uniform(0.2, 4)), edges)
        view = random_view(rng, n)
        found, exact = leverage(view, own, covariance), naive_leverage(view, covariance)
        assert (found >= exact - 1e-9).all()
        assert found == pytest.approx(exact, abs=3e-6)
        below_one += int((exact < 0.9).any())
    assert below_one > 100


def test_without_pairs_the_covariance_changes_nothing():
    rng = np.random.default_rng(1)
    for _ in range(100):
        n = int(rng.integers(2, 8))
        own, view = rng.uniform(0.5, 2.0, n), random_view(rng, n)
        assert leverage(view, own, np.diag(own**2)) == pytest.approx(leverage(view, own), abs=2e-6)


@pytest.fixture(scope="module")
def run():
    graph = {"name": "one-peer-exponential", "nodes": 8}
    privacy = {"epsilon": 2.0, "noise": "paired", "colluders": 2}
    return from_config(Config.parse({"rounds": 12, "graph": graph, "algorithm": "const-d2p", "privacy": privacy}))


def test_the_curve_starts_at_the_eavesdropper_and_has_the_headline_at_the_planned_number(run):
    analysis = analyse_threats(run, planned=True)
    curve = analysis.against_colluders
    assert len(curve) == 8
    assert (np.diff(curve) > 0).all()
    assert curve[2] == pytest.approx(run.planned().guaranteed, rel=1e-9)
    assert curve[2] <= 2.0
    for number in range(8):
        bound = bound_against(run, Eavesdropper(number), planned=True)
        assert bound.epsilon == pytest.approx(curve[number], rel=0.01)
    titles = {bound.title: bound.epsilon for bound in analysis.bounds}
    assert titles["an eavesdropper on every link who colludes with any 2 nodes"] == run.planned().guaranteed
    assert titles["an eavesdropper on every link"] == pytest.approx(curve[0], rel=0.01)
    assert titles["any one node"] <= curve[1] * 1.01
    assert titles["a holder of the mean of the final models"] < curve[0]


def test_a_coalition_is_never_accounted_with_the_noise_that_it_knows(run):
    """More colluders than planned have a larger ε than the headline, and named ones at most that of the worst."""
    curve = analyse_threats(run, planned=True).against_colluders
    for nodes in ((0,), (1, 2), (0, 3, 5), (0, 1, 2, 3, 4, 5, 6)):
        found = bound_against(run, Coalition(nodes), planned=True)
        assert found.worst_node not in nodes
        assert found.epsilon <= curve[len(nodes)] * 1.01
    assert bound_against(run, Coalition((0, 1, 2, 3, 4, 5, 6)), planned=True).epsilon > run.planned().guaranteed
    holder = bound_against(run, ModelHolder("all"), planned=True)
    assert holder.epsilon <= curve[0] * 1.01


def test_the_curve_comes_from_the_releases_alone(run):
    privacy = run.algorithm.privacy
    releases = plan(privacy, run.rounds, privacy.sampling(run.task), run.task.nodes)
    assert against_colluders(releases, run.delta) == run.planned().against_colluders
    independent = from_config(Config.parse({"rounds": 3, "privacy": {"epsilon": 2.0}}))
    assert independent.planned().against_colluders is None


def test_the_command_shows_the_curve(tacit):
    options = setting("rounds=5", "graph.nodes=4", "privacy.noise=paired", "privacy.epsilon=2")
    shown = json.loads(tacit("threats", *options, "--json").out)
    assert len(shown["against_colluders"]) == 4
    assert "ε by the number of colluders: 0: " in tacit("threats", *options).out
