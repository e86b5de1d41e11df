"""The practical limit: the same round hand-written in numpy for two specific models.

It processes one node at a time, so that a batch stays in cache and needs no padding. It uses all cores with one Python
thread and one BLAS thread each, preallocated buffers, and per-record norms from inputs and back-propagated signals.
Batches are Poisson samples, as in Tacit. It has no ledger, no checks, no traffic counters and no cryptographic
generator (it uses SFC64, numpy's fastest).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from benchmarks.case import BOUND, LR, MULTIPLIER, Case

Array = np.ndarray


def handwritten(case: Case) -> Callable[[], None]:
    from threadpoolctl import threadpool_limits

    module, cores = case.module(), torch.get_num_threads()
    threadpool_limits(1, "blas")
    first = np.concatenate([p.detach().numpy().ravel() for p in module.parameters()])
    params = np.tile(first, (case.n, 1))
    gradients = np.empty_like(params)
    x, y = case.data.x.flatten(1).numpy(), case.data.y.numpy()
    gradient = {"logistic": _logistic, "mlp": _mlp}[case.model]
    mixing, pool = case.mixing, ThreadPoolExecutor(cores)
    generators = [np.random.Generator(np.random.SFC64(i)) for i in range(cores)]
    blocks = np.array_split(np.arange(case.n), cores)
    deviation = MULTIPLIER * BOUND * (2 if case.clip == "batch" else 1 / case.batch)

    def work(nodes: Array, rng: np.random.Generator) -> None:
        noise = np.empty_like(first)
        for i in nodes:
            shard = case.shards[i]
            drawn = shard[rng.random(len(shard), dtype=np.float32) < case.rate]
            gradient(params[i], x[drawn], y[drawn], case, gradients[i])
            rng.standard_normal(out=noise, dtype=np.float32)
            noise *= deviation
            gradients[i] += noise
            gradients[i] *= -LR
            gradients[i] += params[i]

    def step() -> None:
        nonlocal params
        list(pool.map(work, blocks, generators))
        params = mixing @ gradients

    return step


def _logistic(p: Array, x: Array, y: Array, case: Case, out: Array) -> None:
    w, b = p[:7840].reshape(10, 784), p[7840:]
    g = _signal(x @ w.T + b, y)
    g *= _scale(case, len(y), lambda: _square(g) * (_square(x) + 1))
    np.matmul(g.T, x, out=out[:7840].reshape(10, 784))
    g.sum(0, out=out[7840:])
    _clip_batch(case, out)


def _mlp(p: Array, x: Array, y: Array, case: Case, out: Array) -> None:
    cuts = np.cumsum([case.hidden * 784, case.hidden, 10 * case.hidden])
    w1, b1, w2, b2 = np.split(p, cuts)
    w1, w2 = w1.reshape(case.hidden, 784), w2.reshape(10, case.hidden)
    a = x @ w1.T
    a += b1
    np.tanh(a, out=a)
    g2 = _signal(a @ w2.T + b2, y)
    g1 = g2 @ w2
    g1 *= 1 - a * a
    c = _scale(case, len(y), lambda: _square(g1) * (_square(x) + 1) + _square(g2) * (_square(a) + 1))
    g1 *= c
    g2 *= c
    o1, o2, o3, o4 = np.split(out, cuts)
    np.matmul(g1.T, x, out=o1.reshape(w1.shape))
    g1.sum(0, out=o2)
    np.matmul(g2.T, a, out=o3.reshape(w2.shape))
    g2.sum(0, out=o4)
    _clip_batch(case, out)


def _signal(z: Array, y: Array) -> Array:
    """softmax(z) − onehot(y), in place."""
    z -= z.max(1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(1, keepdims=True)
    z[np.arange(len(y)), y] -= 1
    return z


def _square(v: Array) -> Array:
    return np.einsum("ij,ij->i", v, v)


def _scale(case: Case, records: int, squares: Callable[[], Array]) -> Array:
    if case.clip == "batch":
        return np.full((records, 1), 1 / case.batch, np.float32)
    return (BOUND / np.maximum(np.sqrt(squares()), BOUND) / case.batch)[:, None]


def _clip_batch(case: Case, out: Array) -> None:
    if case.clip == "batch":
        out *= BOUND / max(BOUND, float(np.sqrt(out @ out)))
