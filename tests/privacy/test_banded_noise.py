"""Noise that is correlated in time: how it is drawn, and how the ledger records it."""

import math

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import (
    BandedGaussian,
    Budget,
    Gaussian,
    Ledger,
    Noise,
    Release,
    mu_to_epsilon,
)
from tacit.privacy.banded_noise import BandedNoise, banded_noise, coefficients, standard_gaussian
from tacit.privacy.noise_grid import grid
from tests.privacy.banded import DELTA, PURPOSE, cyclic, dense, plan, release


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
