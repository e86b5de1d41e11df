"""ε of noise that is correlated in time, against dense matrices, brute force and the likelihood ratio of releases."""

import math

import numpy as np
import pytest
import torch

from tacit.privacy import (
    BandedGaussian,
    Gaussian,
    Ledger,
    Noise,
    Release,
    Sampling,
    epsilon,
    epsilon_lower_bound,
    mu_to_epsilon,
)
from tacit.privacy.gdp import delta_of
from tests.privacy.banded import (
    DELTA,
    PURPOSE,
    cyclic,
    cyclic_patterns,
    dense,
    plan,
    redrawn_patterns,
    release,
    worst_mu,
)


@pytest.mark.parametrize(
    ("batches", "bandwidth", "steps"), [(1, 1, 5), (3, 3, 9), (3, 2, 8), (4, 4, 10), (4, 3, 7), (5, 5, 4)]
)
def test_the_accounted_mu_is_the_worst_case_over_all_draws_of_a_record(batches, bandwidth, steps):
    multipliers = [1.7] * steps
    worst = worst_mu(multipliers, bandwidth, cyclic_patterns(batches, steps))
    accounted = epsilon(plan(multipliers, cyclic(batches), bandwidth), DELTA)
    assert accounted == pytest.approx(mu_to_epsilon(worst, DELTA), rel=1e-6)
    assert worst == pytest.approx(math.sqrt(math.ceil(steps / batches)) / 1.7)


@pytest.mark.parametrize("seed", range(20))
def test_multipliers_that_change_and_runs_that_end_early_never_cost_more_than_accounted(seed):
    rng = np.random.default_rng(seed)
    batches, steps = int(rng.integers(1, 5)), int(rng.integers(1, 11))
    bandwidth, released = int(rng.integers(1, batches + 1)), int(rng.integers(1, steps + 1))
    multipliers = rng.uniform(0.5, 3, released)
    worst = worst_mu(multipliers, bandwidth, cyclic_patterns(batches, released), steps)
    lines = plan(multipliers, cyclic(batches), bandwidth, steps)
    assert mu_to_epsilon(worst, DELTA) <= epsilon(lines, DELTA) * (1 + 1e-9)
    assert epsilon_lower_bound(lines, DELTA) <= epsilon(lines, DELTA)


def test_records_move_in_any_direction():
    """Values are vectors, of any length up to the sensitivity: the worst case is still one sign for all."""
    rng = np.random.default_rng(0)
    columns = dense(3, 9) / np.linalg.norm(dense(3, 9), axis=0)
    for _ in range(2000):
        pattern = list(range(int(rng.integers(3)), 9, 3))
        moves = rng.normal(size=(len(pattern), 4))
        moves *= rng.uniform(size=(len(pattern), 1)) ** 0.1 / np.linalg.norm(moves, axis=1, keepdims=True)
        assert np.linalg.norm(columns[:, pattern] @ moves) <= math.sqrt(len(pattern)) + 1e-12


def test_a_band_wider_than_an_epoch_and_a_redrawn_permutation_would_cost_more_than_accounted():
    """Why `bandwidths` cuts off at `spacing`, and why a permutation that is drawn anew has the spacing 1."""
    multipliers, batches = [1.0] * 8, 4
    accounted = math.sqrt(2)
    assert worst_mu(multipliers, 4, cyclic_patterns(batches, 8)) == pytest.approx(accounted)
    assert worst_mu(multipliers, 5, cyclic_patterns(batches, 8)) > 1.05 * accounted
    assert worst_mu(multipliers, 4, redrawn_patterns(batches, 8)) > 1.2 * accounted
    assert worst_mu(multipliers, 1, redrawn_patterns(batches, 8)) == pytest.approx(accounted)
    assert BandedGaussian(1.0, 99.0, 8).bandwidths(cyclic(4, 2)).tolist() == [4, 2]
    redrawn = Sampling("permutation", np.array([0.25]), "replace-one")
    for sampling in (redrawn, Sampling("poisson", np.array([0.25]), "add-remove")):
        assert BandedGaussian(1.0, 99.0, 8).bandwidths(sampling).tolist() == [1]


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "permutation", "none"])
def test_other_sampling_has_independent_noise_with_the_same_epsilon(sampling):
    drawn = Sampling(sampling, np.ones(1) if sampling == "none" else np.array([0.25]), "replace-one")
    lines = plan([1.5] * 8, drawn)
    assert epsilon(lines, DELTA) == epsilon([Release(t, PURPOSE, Gaussian(1.5), drawn) for t in range(8)], DELTA)
    noise, zero = Noise.from_seed(0), torch.zeros(1, 20_000, dtype=torch.float64)
    released = np.stack(
        [release(line.mechanism, zero, t, drawn, noise=noise)[0].numpy() for t, line in enumerate(lines)]
    )
    assert abs(np.corrcoef(released) - np.eye(8)).max() < 0.04
    assert released.std(axis=1) == pytest.approx(1.5, rel=0.03)


def test_likelihood_ratio_of_real_adaptive_releases_attains_the_accounted_epsilon():
    """100,000 runs of 6 steps with 3 batches per epoch. The record pushes in the direction of the release before.

    The likelihood ratio is that of the dense factorisation. Its δ(ε) must not exceed the accounted one, and reaches it.
    """
    trials, steps, batches, m = 100_000, 6, 3, 1.2
    sampling, noise = cyclic(*[batches] * trials), Noise.from_seed(7)
    matrix = dense(batches, steps)
    scale = m * np.linalg.norm(matrix, axis=0)
    values, releases = np.zeros((steps, trials)), np.zeros((steps, trials))
    for t in range(steps):
        if t % batches == 0:
            values[t] = np.where(releases[t - 1] >= 0, 1.0, -1.0)
        value = torch.from_numpy(values[t][:, None])
        releases[t] = release(BandedGaussian(m, steps=steps), value, t, sampling, noise=noise)[:, 0].numpy()
    outcome, shift = matrix @ (releases / scale[:, None]), matrix @ (values / scale[:, None])
    ratio = (shift * outcome - shift**2 / 2).sum(0)
    mu = math.sqrt(2) / m
    assert np.linalg.norm(shift, axis=0) == pytest.approx(mu)
    assert ratio.mean() == pytest.approx(mu**2 / 2, abs=0.015)
    for at in (0.0, 0.5, 1.0, 2.0):
        found = np.maximum(0, 1 - np.exp(at - ratio))
        assert found.mean() == pytest.approx(delta_of(at, mu), abs=5 * found.std() / math.sqrt(trials))
    # Without the correlation in the likelihood ratio, an attack finds less.
    naive = (values * releases / scale[:, None] ** 2).sum(0)
    assert naive.mean() / naive.std() < 0.9 * mu


def test_epsilon_equals_that_of_dp_accounting():
    """Its events for replace-one are relative to the sensitivity for add-remove, so the relation is that one here."""
    dp = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    epochs, batches, m = 7, 20, 4.0
    lines = plan([m] * epochs * batches, cyclic(batches), 12)
    other = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    other.compose(dp.GaussianDpEvent(m / math.sqrt(epochs)))
    assert epsilon(lines, DELTA) == pytest.approx(other.get_epsilon(DELTA), rel=1e-3)
    ledger = Ledger()
    for line in lines:
        ledger.record(line)
    exported = PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    exported.compose(ledger.to_dp_events()[0])
    assert exported.get_epsilon(DELTA) == pytest.approx(epsilon(lines, DELTA), rel=1e-3)


def test_other_releases_compose_as_usual():
    everything = Sampling("none", np.ones(1), "replace-one")
    ranges = Release(0, "ranges", Gaussian(3.0), everything)
    lines = plan([2.0] * 12, cyclic(4))
    assert epsilon([ranges, *lines], DELTA) == pytest.approx(mu_to_epsilon(math.sqrt(3 / 4 + 1 / 9), DELTA), rel=1e-6)


def test_a_lower_bound_counts_a_release_only_with_all_that_follow():
    lines = plan([0.5] * 12, cyclic(4))
    assert epsilon_lower_bound(lines, DELTA) > 1
    for part in (lines[:11], lines[1:], [*lines[:5], *lines[6:]], lines[:1]):
        assert epsilon_lower_bound(part, DELTA) == 0
