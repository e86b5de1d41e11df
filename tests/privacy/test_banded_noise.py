"""Noise that is correlated in time, against dense matrices, brute force and the likelihood ratio of real releases."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import (
    BandedGaussian,
    Bounded,
    Budget,
    Gaussian,
    Ledger,
    Noise,
    Release,
    ReleaseContext,
    Sampling,
    epsilon,
    epsilon_lower_bound,
    mu_to_epsilon,
)
from tacit.privacy.banded_noise import BandedNoise, banded_noise, coefficients, standard_gaussian
from tacit.privacy.gdp import delta_of
from tacit.privacy.noise import grid

DELTA = 1e-5
PURPOSE = "gradient"


def cyclic(*batches):
    return Sampling("cyclic", 1 / np.array(batches, float), "replace-one")


def dense(bandwidth, steps):
    """C, from the definition: c_k = (1/2)(3/4)(5/6) … on the k-th diagonal below the main one, for k < bandwidth."""
    matrix = np.zeros((steps, steps))
    for row, column in product(range(steps), repeat=2):
        lag = row - column
        if 0 <= lag < bandwidth:
            matrix[row, column] = math.prod((2 * j - 1) / (2 * j) for j in range(1, lag + 1))
    return matrix


def plan(multipliers, sampling, bandwidth=math.inf, steps=None):
    """The releases of the first len(multipliers) steps of a sequence of `steps` steps."""
    steps = len(multipliers) if steps is None else steps
    return [Release(t, PURPOSE, BandedGaussian(m, bandwidth, steps), sampling) for t, m in enumerate(multipliers)]


def worst_mu(multipliers, bandwidth, patterns, steps=None, signs=True):
    """The largest ‖C U‖ over patterns of draws with the record, U_p = ±1 / (m_p n_p), without rows after the last."""
    released, steps = len(multipliers), len(multipliers) if steps is None else steps
    matrix = dense(bandwidth, steps)
    columns = matrix[:released, :released] / (np.array(multipliers) * np.linalg.norm(matrix, axis=0)[:released])
    found = 0.0
    for pattern in patterns:
        choices = product([-1.0, 1.0], repeat=len(pattern)) if signs else [(1.0,) * len(pattern)]
        for choice in choices:
            found = max(found, float(np.linalg.norm(columns[:, pattern] @ np.array(choice))))
    return found


def cyclic_patterns(batches, steps):
    return [list(range(place, steps, batches)) for place in range(min(batches, steps))]


def redrawn_patterns(batches, steps):
    """One draw per epoch, anywhere in it: what a permutation that is drawn anew can do."""
    epochs = [range(first, min(first + batches, steps)) for first in range(0, steps, batches)]
    return [list(choice) for choice in product(*epochs)]


def release(mechanism, value, step, sampling, *, sensitivity=1.0, noise=None, ledger=None, nodes=None):
    nodes = np.arange(len(value)) if nodes is None else np.array(nodes)
    context = ReleaseContext(nodes, Ledger() if ledger is None else ledger, noise or Noise.from_seed(0))
    context.ledger.open(step, PURPOSE)
    bound = np.full(len(value), sensitivity)
    return mechanism.release(Bounded(value.clone(), bound, "l2", sampling, step, PURPOSE, context))


# Noise


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bandwidth", [math.inf, 3.0, 1.0])
def test_releases_have_the_noise_of_the_dense_factorisation(bandwidth, dtype):
    """Nodes with 6, 2 and 1 batches per epoch, two sequences of 9 steps, multipliers and sensitivities that change."""
    sampling, noise, d, steps = cyclic(6, 2, 1), Noise.from_seed(4), 5, 9
    for t in range(2 * steps):
        m, bound = np.array([2.0, 3.0, 5.0]) + t % 4, 0.5 + t / 10
        mechanism = BandedGaussian(m, bandwidth, steps)
        released = release(mechanism, torch.ones(3, d, dtype=dtype), t, sampling, sensitivity=bound, noise=noise)
        start = t - t % steps
        for node, batches in enumerate([6, 2, 1]):
            w = int(min(bandwidth, batches))
            stream = f"banded noise/{steps}/{PURPOSE}/{w}/{start}"
            z = np.stack(
                [standard_gaussian(noise, stream, np.array([node]), s, d)[0] for s in range(start, start + steps)]
            )
            matrix = dense(w, steps)
            scale = m[node] * bound * np.linalg.norm(matrix[:, t - start])
            expected = 1 + scale * np.linalg.solve(matrix, z)[t - start]
            step = grid(np.array([scale]))[0]
            assert abs(released[node].numpy() - expected).max() <= 0.5 * step * (1 + 1e-3)
            assert (released[node].numpy() % step == 0).all(), "released values lie on the grid"


def test_noise_is_the_same_wherever_a_node_is_hosted_and_wherever_a_run_resumes():
    bandwidths, nodes, d = np.array([7, 3, 7, 1]), np.array([5, 0, 9, 2]), 1001
    whole = banded_noise(Noise.from_seed(1), "n", nodes, 30, d, bandwidths, 4)
    noise = Noise.from_seed(1)
    in_order = [banded_noise(noise, "n", nodes, t, d, bandwidths, 4) for t in range(4, 31)]
    assert torch.equal(in_order[-1], whole), "from the key alone, as after a resume"
    assert torch.equal(banded_noise(noise, "n", nodes, 17, d, bandwidths, 4), in_order[13]), "an earlier step again"
    assert torch.equal(banded_noise(noise, "n", nodes, 30, d, bandwidths, 4), whole)
    for row in range(4):
        alone = banded_noise(Noise.from_seed(1), "n", nodes[row : row + 1], 30, d, bandwidths[row : row + 1], 4)
        assert torch.equal(alone[0], whole[row])


def test_a_sequence_that_fails_is_computed_anew():
    class Failing(Noise):
        failing = False

        def words(self, *arguments, **keywords):
            if self.failing:
                raise RuntimeError("power cut")
            return super().words(*arguments, **keywords)

    key = bytes(32)
    noise, nodes, bandwidths = Failing(key), np.arange(2), np.array([4, 4])
    for t in range(3):
        banded_noise(noise, "n", nodes, t, 10, bandwidths, 0)
    noise.failing = True
    with pytest.raises(RuntimeError, match="power cut"):
        banded_noise(noise, "n", nodes, 3, 10, bandwidths, 0)
    noise.failing = False
    again = banded_noise(noise, "n", nodes, 3, 10, bandwidths, 0)
    assert torch.equal(again, banded_noise(Noise(key), "n", nodes, 3, 10, bandwidths, 0))


def test_sequences_with_other_parameters_are_independent():
    """The same normal numbers in two sequences would cancel in a difference of releases."""
    noise, nodes, d = Noise.from_seed(0), np.arange(1), 40_000
    firsts = [banded_noise(noise, "n", nodes, 0, d, np.array([w]), 0)[0].numpy() for w in (1, 2, 3)]
    firsts.append(banded_noise(noise, "other", nodes, 0, d, np.array([3]), 0)[0].numpy())
    firsts.append(banded_noise(noise, "n", nodes, 8, d, np.array([3]), 8)[0].numpy())
    assert abs(np.corrcoef(firsts) - np.eye(5)).max() < 0.03
    sampling, zero = cyclic(4), torch.zeros(1, d, dtype=torch.float64)
    short, long = (release(BandedGaussian(1.0, 4, steps), zero, 0, sampling)[0].numpy() for steps in (4, 8))
    assert abs(np.corrcoef(short, long)[0, 1]) < 0.03
    independent = release(Gaussian(1.0), zero, 0, sampling)[0].numpy()
    assert abs(np.corrcoef(short, independent)[0, 1]) < 0.03


def test_the_recursion_is_stable():
    """10,000 steps: the variance of the noise stays near that of its first steps, 4/π for a wide band."""
    sequence, noise = BandedNoise("n", np.arange(1), np.array([50]), 64, 0), Noise.from_seed(0)
    late = [sequence.draw(noise).numpy() for _ in range(10_000)][-2000:]
    inverse = np.linalg.solve(dense(50, 600), np.eye(600)[0])
    assert np.var(late) == pytest.approx((inverse**2).sum(), rel=0.02)
    assert np.var(late) == pytest.approx(4 / math.pi, rel=0.05)


def test_normal_numbers_have_the_right_moments_in_every_chunk():
    x = standard_gaussian(Noise.from_seed(2), "z", np.arange(1), 0, (1 << 18) + 100_001)[0].numpy()
    for part in (x[: 1 << 18], x[1 << 18 :]):
        assert part.mean() == pytest.approx(0, abs=0.015)
        assert part.var() == pytest.approx(1, abs=0.02)
    assert len(np.unique(x)) == len(x), "no part of the stream repeats"


def test_coefficients_are_those_of_the_square_root_of_prefix_sums():
    matrix = dense(12, 12)
    assert np.allclose(matrix @ matrix, np.tri(12))
    assert coefficients(12) == pytest.approx(matrix[:, 0])


def test_values_that_are_not_numbers_or_too_large_are_hidden_as_with_independent_noise():
    """NaN counts as 0, and a huge value is clamped after the noise: the release does not fail."""
    sampling, zero = cyclic(4), torch.zeros(1, 4)
    bad = torch.tensor([[math.nan, math.inf, 1e30, 0.0]])
    released, expected = (release(BandedGaussian(1.0, steps=8), value, 3, sampling) for value in (bad, zero))
    limit = 2**24 * grid(np.array([float(np.linalg.norm(coefficients(4)))]))[0]
    assert released[0, [0, 3]].tolist() == expected[0, [0, 3]].tolist()
    assert released[0, [1, 2]].tolist() == [limit, limit]


# Privacy


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


# Ledger and budget


def test_the_ledger_keeps_bandwidth_and_length(tmp_path):
    path = tmp_path / "ledger.sqlite"
    for line in plan([2.0] * 3, cyclic(4, 7), 5.0, 40):
        Ledger(path, durable=True).record(line)
    for found in Ledger(path).releases():
        assert (found.mechanism.bandwidth, found.mechanism.steps) == (5.0, 40)
        assert found.mechanism.bandwidths(found.sampling).tolist() == [4, 5]
    ledger = Ledger(path)
    first, other, longer = (plan([2.0], cyclic(4, 7), *each)[0] for each in ((5.0, 40), (4.0, 40), (5.0, 41)))
    for changed in (other, longer):
        ledger.repeat(0)
        with pytest.raises(TacitError, match="with other noise"):
            ledger.record(changed)
        assert not changed.is_at_least_as_private_as(first)
    assert plan([2.5], cyclic(4, 7), 5.0, 40)[0].is_at_least_as_private_as(first)
    independent = Release(0, PURPOSE, Gaussian(9.0), cyclic(4, 7))
    assert not independent.is_at_least_as_private_as(first)


@pytest.mark.parametrize("planned", [True, False])
def test_a_budget_ends_with_the_epoch_that_exceeds_it(planned):
    limit = mu_to_epsilon(math.sqrt(2) / 1.5, DELTA) * (1 + 1e-6)
    ledger, lines = Ledger(budget=Budget(limit, DELTA)), plan([1.5] * 12, cyclic(4))
    if planned:
        ledger.budget.accept(lines)
    for line in lines[:8]:
        ledger.record(line)
    with pytest.raises(TacitError, match="ends before step 8"):
        ledger.record(lines[8])


@pytest.mark.parametrize("parameters", [{"bandwidth": 0.5}, {"bandwidth": 2.5}, {"bandwidth": math.nan}, {"steps": 0}])
def test_wrong_parameters_are_refused(parameters):
    with pytest.raises(TacitError, match="must be"):
        BandedGaussian(1.0, **parameters)
