"""The example on rounding errors in docs/threat-models.md: the bits of a float reveal more than the real number."""

import numpy as np
from scipy.stats import norm

STEP = 1 / 64  # of the grid, for noise 1
POINTS = np.arange(-512, 513)


def probabilities(mean):
    """The probability of each point of the grid for a value with this mean and noise 1."""
    return np.diff(norm.cdf((np.append(POINTS, 513) - 0.5) * STEP - mean))


def average(x, y, a, b):
    """The state of two nodes after averaging, in single precision."""
    half, step = np.float32(0.5), np.float32(STEP)
    return half * (x - np.float32(a) * step) + half * (y - np.float32(b) * step)


def test_the_last_bits_of_a_mean_reveal_more_than_its_value():
    """The advantage of the best membership guess for a record that shifts a value by one standard deviation: from all
    bits of the mean, and from a + b, which is all that a mean of real numbers would reveal."""
    rng = np.random.default_rng(0)
    present, absent = probabilities(1.0), probabilities(0.0)
    advantages = []
    for included in np.arange(3000) % 2:
        x, y = rng.normal(size=2).astype(np.float32)
        a, b = np.rint((rng.normal(size=2) + np.array([included, 0])) / STEP).astype(int)
        first = POINTS[abs(a + b - POINTS) <= POINTS[-1]]
        second = a + b - first
        likelihoods = [law[first - POINTS[0]] * absent[second - POINTS[0]] for law in (present, absent)]
        same = average(x, y, first, second) == average(x, y, a, b)
        for possible in (same, slice(None)):
            one, other = (likelihood[possible].sum() for likelihood in likelihoods)
            advantages.append(abs(one - other) / (one + other))
    bits, value = np.reshape(advantages, (-1, 2)).mean(axis=0)
    assert abs(value - (2 * norm.cdf(0.5 / np.sqrt(2)) - 1)) < 0.015  # c = 1/2
    assert value + 0.01 < bits < value + 0.05
