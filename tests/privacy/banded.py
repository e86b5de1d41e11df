"""Dense matrices, brute force and releases with noise that is correlated in time, for several tests."""

import math
from itertools import product

import numpy as np

from tacit.privacy import (
    BandedGaussian,
    Bounded,
    Ledger,
    Noise,
    Release,
    ReleaseContext,
    Sampling,
)

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
