"""JAX-Privacy's clipped gradients of all nodes in one compiled step; runs in its own environment and prints seconds."""

import itertools
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import jax_privacy
import numpy as np

ROUNDS, NODES, HIDDEN, BATCH, LR = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), 64, 0.1
POOL, SHARD, D, CLASSES = 20_000, 200, 784, 10
WIDTHS = [D, *([HIDDEN] if HIDDEN else []), CLASSES]


def loss(params, x, y):
    h = x.reshape(len(x), -1)  # clipped_grad passes one record at a time, with a leading axis
    for i, (w, b) in enumerate(params):
        h = (jnp.tanh(h) if i else h) @ w + b
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), y.reshape(-1, 1), 1))


clipped = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, batch_argnums=(1, 2), normalize_by=BATCH)


def node_step(params, x, y, key):
    """One node's step; the batch has a fixed size, and its records are drawn with replacement."""
    draw, noise = jax.random.split(key)
    index = jax.random.randint(draw, (BATCH,), 0, len(x))
    gradient = clipped(params, x[index], y[index])
    leaves, tree = jax.tree.flatten(params)
    keys = jax.tree.unflatten(tree, list(jax.random.split(noise, len(leaves))))
    return jax.tree.map(lambda p, g, k: p - LR * (g + jax.random.normal(k, g.shape) / BATCH), params, gradient, keys)


def mix(v):
    """Average each node with its neighbours on the ring."""
    return (v + jnp.roll(v, 1, 0) + jnp.roll(v, -1, 0)) / 3


@jax.jit
def step(params, key):
    keys = jax.random.split(key, NODES)
    return jax.tree.map(mix, jax.lax.map(lambda of_node: node_step(*of_node), (params, X, Y, keys)))


rng = np.random.default_rng(0)
shards = (np.arange(NODES)[:, None] * SHARD + np.arange(SHARD)) % POOL
X = jnp.asarray(rng.random((POOL, D), np.float32)[shards])
Y = jnp.asarray(rng.integers(0, CLASSES, POOL)[shards])
layers = itertools.pairwise(WIDTHS)
params = [(jnp.zeros((NODES, a, b)) + rng.normal(size=(a, b)) * 0.01, jnp.zeros((NODES, b))) for a, b in layers]
params = jax.block_until_ready(step(params, jax.random.key(0)))  # compiles
times = []
for i in range(ROUNDS):
    start = time.perf_counter()
    params = jax.block_until_ready(step(params, jax.random.key(i)))
    times.append(time.perf_counter() - start)
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
print(json.dumps({"times": times, "memory": peak / 1024, "version": version("jax-privacy")}))
