"""Algorithm 1 of the Dyn-D²P paper, node by node and record by record, in numpy and from the paper's text alone."""

import numpy as np


def softmax_gradient(w, b, x, label):
    scores = w @ x + b
    p = np.exp(scores - scores.max())
    p /= p.sum()
    p[label] -= 1
    return np.concatenate([np.outer(p, x).ravel(), p])


def dyn_d2p(x0, matrix_at, batch_of, release, *, K, lr, C0, rho_c, mu0, rho_mu, B, classes, per="record"):
    """x0 (n, d); matrix_at(k)[i][j]; batch_of(k, i) lists (record, label); release(k, i, g, sigma) is g + N(0, sigma²).

    mu0 has one value per node; None means no clipping and no noise. With per = "batch", the mean of the batch is the
    gradient of Algorithm 1. Returns every node's z after K rounds.
    """
    n, d = x0.shape
    x, w = [row.copy() for row in x0], [1.0] * n
    for k in range(K):
        C = C0 * rho_c ** (-k / K)
        half = []
        for i in range(n):
            z = x[i] / w[i]
            weights, bias = z[: d - classes].reshape(classes, -1), z[d - classes :]
            total = np.zeros(d)
            for record, label in batch_of(k, i):
                g = softmax_gradient(weights, bias, record, label)
                total += g if mu0 is None or per == "batch" else g * min(1.0, C / np.linalg.norm(g))
            if mu0 is not None and per == "batch":
                mean = total / B * min(1.0, C / max(np.linalg.norm(total / B), 1e-300))
                total = B * release(k, i, mean, C / (mu0[i] * rho_mu ** (k / K)))
            elif mu0 is not None:
                sigma = C / (mu0[i] * rho_mu ** (k / K))
                total = B * release(k, i, total / B, sigma / B)
            half.append(x[i] - lr * total / B)
        P = matrix_at(k)
        x = [sum(P[i][j] * half[j] for j in range(n)) for i in range(n)]
        w = [sum(P[i][j] * w[j] for j in range(n)) for i in range(n)]
    return np.array([x[i] / w[i] for i in range(n)])
