"""What docs/threat-models.md says of rounding errors: the theorem is about real numbers, and floats tell more."""

import numpy as np
from scipy.stats import norm

STEP = 1 / 64  # the grid of noise 1
AT = np.arange(-512, 513)


def chances(moved):
    """Of each point of the grid, for noise 1 on a value."""
    return np.diff(norm.cdf((np.append(AT, 513) - 0.5) * STEP - moved))


def mean(x, y, a, b):
    """The state of both nodes of a pair after they averaged, in single precision."""
    half, step = np.float32(0.5), np.float32(STEP)
    return half * (x - np.float32(a) * step) + half * (y - np.float32(b) * step)


def test_the_last_bits_of_a_mean_tell_more_than_its_value():
    """How much better than a coin the best guess is, whether a record that moves a value by its noise is there: by all
    bits of the mean, and by a + b, which is all that a mean of real numbers would tell."""
    rng = np.random.default_rng(0)
    present, absent = chances(1.0), chances(0.0)
    advantages = []
    for there in np.arange(3000) % 2:
        x, y = rng.normal(size=2).astype(np.float32)
        a, b = np.rint((rng.normal(size=2) + np.array([there, 0])) / STEP).astype(int)
        ours = AT[abs(a + b - AT) <= AT[-1]]
        theirs = a + b - ours
        pair = [each[ours - AT[0]] * absent[theirs - AT[0]] for each in (present, absent)]
        same = mean(x, y, ours, theirs) == mean(x, y, a, b)
        for keep in (same, slice(None)):
            one, other = (each[keep].sum() for each in pair)
            advantages.append(abs(one - other) / (one + other))
    bits, value = np.reshape(advantages, (-1, 2)).mean(axis=0)
    assert abs(value - (2 * norm.cdf(0.5 / np.sqrt(2)) - 1)) < 0.015  # c = 1/2
    assert value + 0.01 < bits < value + 0.05
