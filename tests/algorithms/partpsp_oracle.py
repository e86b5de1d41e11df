"""Algorithms 1 and 2 of the PartPSP paper and PEDFL (adapted), node by node in numpy and from the text alone.

Vectors are lists with one entry per node. Nothing here uses the package except the noise that is passed in.
"""

import numpy as np


def norm(v):
    return float(np.abs(v).sum())


def two_layer_gradient(w1, w2, batch, B):
    """∇ of (1/B) Σ −log softmax(w2 tanh(w1 x))[label] over the (x, label) of a batch, for both matrices."""
    g1, g2 = np.zeros_like(w1), np.zeros_like(w2)
    for x, label in batch:
        hidden = np.tanh(w1 @ x)
        scores = w2 @ hidden
        p = np.exp(scores - scores.max())
        p /= p.sum()
        p[label] -= 1
        g2 += np.outer(p, hidden) / B
        g1 += np.outer((w2.T @ p) * (1 - hidden**2), x) / B
    return g1, g2


def clipped(g, bound):
    """Eq. 24."""
    return g / max(1.0, norm(g) / bound)


def largest_distance(vectors):
    return max(norm(u - v) for u in vectors for v in vectors)


def dobrushin(matrix):
    """τ(M) = ½ max_ij Σ_k |M_ik − M_jk|."""
    return 0.5 * max(norm(a - b) for a in matrix for b in matrix)


class DPPS:
    """Algorithm 1. `release(t, i, v, scale)` is v + Laplace(0, scale); `noise_rate(t)` is γ_n in round t."""

    def __init__(self, s0, matrix_at, release, noise_rate, *, b, mode, c, lam, sync_every):
        self.n, self.matrix_at, self.release, self.noise_rate = len(s0), matrix_at, release, noise_rate
        self.b, self.mode, self.c, self.lam, self.sync_every = b, mode, c, lam, sync_every
        self.a = [1.0] * self.n
        self.before = [2 * c * norm(s) for s in s0]  # of Eq. 22: λ S_i(t−1) + 2C′λ γ_n ‖n_i(t−1)‖₁
        self.since = []  # for the rounds since the last synchronisation: W(k) and max_i ‖e_i(k) + γ_n n_i(k)‖₁
        self.sensitivities = []  # real S, S in use

    def exchange(self, t, s, e, public):
        """s, y after round t; `public` bounds ‖e_i − e_j‖₁ whatever the data are."""
        half = [s[i] + e[i] for i in range(self.n)]
        own = [self.before[i] + 2 * self.c * norm(e[i]) for i in range(self.n)]
        real = largest_distance(half)
        S = {"real": real, "estimated": max(own), "replacement": public}.get(self.mode)
        if self.mode == "certified":
            S = self.certified(public)
        rate = self.noise_rate(t)
        sent = [self.release(t, i, half[i], rate * S / self.b) for i in range(self.n)]
        noise = [sent[i] - half[i] for i in range(self.n)]  # γ_n n
        if self.sync_every is not None and (t + 1) % self.sync_every == 0:
            s, self.a = [sum(sent) / self.n] * self.n, [1.0] * self.n
            self.before, self.since = [0.0] * self.n, []
        else:
            W = self.matrix_at(t)
            s = [sum(W[i][j] * sent[j] for j in range(self.n)) for i in range(self.n)]
            self.a = [sum(W[i][j] * self.a[j] for j in range(self.n)) for i in range(self.n)]
            self.before = [self.lam * own[i] + 2 * self.c * self.lam * norm(noise[i]) for i in range(self.n)]
            self.since.append((W, max(norm(e[i] + noise[i]) for i in range(self.n))))
        self.sensitivities.append((real, S))
        return s, [s[i] / self.a[i] for i in range(self.n)]

    def certified(self, public):
        """2 Σ_k τ(W(t−1)…W(k)) max_i ‖e_i(k) + γ_n n_i(k)‖₁ + `public`, if all nodes started from the same vector."""
        total, product = public, np.eye(self.n)
        for W, moved in reversed(self.since):
            product = product @ W
            total += 2 * dobrushin(product) * moved
        return total


def rate_of(start, decay, decay_rounds):
    return lambda t: start * decay ** len([place for place in decay_rounds if t >= place])


def partpsp(s0, l0, gradient, protocol, *, T, lr, local_lr, clip):
    """Algorithm 2. `gradient(t, i, s, l)` is (∇_s, ∇_l) of node i's batch t; lr and local_lr are functions of t."""
    s, local, y = list(s0), list(l0), list(s0)
    for t in range(T):
        e = []
        for i in range(len(s)):
            local[i] = local[i] - local_lr(t) * gradient(t, i, y[i], local[i])[1]
            e.append(-lr(t) * clipped(gradient(t, i, y[i], local[i])[0], clip))
        s, y = protocol.exchange(t, s, e, 2 * lr(t) * clip)
    return y, local


def pedfl(x0, gradient, protocol, *, T, lr, clip):
    """x̃ = x + γ_n n, x ← Σ_j W_ij x̃_j − γ g(x): a message is the last mixing result plus the last gradient step."""
    x, received = list(x0), list(x0)
    for t in range(T):
        g = [clipped(gradient(t, i, x[i])[0], clip) for i in range(len(x))]
        e = [x[i] - received[i] for i in range(len(x))]
        received, _ = protocol.exchange(t, received, e, 2 * lr(max(0, t - 1)) * clip)
        x = [received[i] - lr(t) * g[i] for i in range(len(x))]
    return x
