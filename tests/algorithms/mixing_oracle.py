"""Push-sum with several mixings, momentum, closing mixings and averages: node by node, from the formulas alone."""

import numpy as np


def mixed(matrix, rows):
    n = len(rows)
    return [sum(matrix[i][j] * rows[j] for j in range(n)) for i in range(n)]


def push_sum(x0, matrix_at, gradient, *, K, lr, mixings=1, beta=0.0, closing=0, decay=None, start=None):
    """x0 (n, d); matrix_at(time)[i][j]; gradient(k, i, z) is node i's released gradient at its model z.

    v ← W(βv + g),  x ← W(x − lr (1 − β)(βv + g)),  w ← W w,  with W the product of `mixings` successive matrices.
    `decay` is that of an exponential average of z, `start` the first round of an average with equal weights. Closing
    mixings act on (x, w), or on the averages with weights that start as 1. Returns every node's model.
    """
    n = len(x0)
    x, v, w = [row.copy() for row in x0], [np.zeros_like(row) for row in x0], [1.0] * n
    time, seen = 0, []
    for k in range(K):
        u = [beta * v[i] + gradient(k, i, x[i] / w[i]) for i in range(n)]
        x = [x[i] - lr * (1 - beta) * u[i] for i in range(n)]
        v = u
        for _ in range(mixings):
            matrix = matrix_at(time)
            x, v, w = mixed(matrix, x), mixed(matrix, v), mixed(matrix, w)
            time += 1
        seen.append([x[i] / w[i] for i in range(n)])
    if decay is not None:
        weights = [decay ** (K - 1 - k) for k in range(K)]
    elif start is not None:
        weights = [float(k >= start) for k in range(K)]
    if decay is not None or start is not None:
        x = [sum(weights[k] * seen[k][i] for k in range(K)) / sum(weights) for i in range(n)]
        w = [1.0] * n
    for _ in range(closing):
        matrix = matrix_at(time)
        x, w = mixed(matrix, x), mixed(matrix, w)
        time += 1
    return np.array([x[i] / w[i] for i in range(n)])


def clipped_quadratic(records, shards, clip, weights):
    """A function (i, z) → node i's weighted mean of the clipped gradients z − r of its records r."""

    def gradient(i, z):
        steps = [z - records[r] for r in shards[i]]
        total = sum(g * min(1.0, clip / np.linalg.norm(g)) for g in steps)
        return weights[i] * total / len(shards[i])

    return gradient
