"""Rounds of many nodes: noise and mixing without a gradient, the least work of any implementation, and training."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from tacit.algorithms import algorithms
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.privacy import Bounded, Gaussian, Laplace, Ledger, Noise, ReleaseContext, Sampling
from tacit.tasks import Dataset, Model, Target, Task, keep_freed_memory, models

Step = Callable[[], None]
Size = tuple[int, int]
"""Nodes and parameters per node."""
BASE: Size = (10_000, 1_000)
SIZES: list[Size] = [BASE, (100_000, 1_000), (10_000, 100), (100_000, 100), (1_000_000, 100)]
TRAINED: dict[Size, Size] = {(100_000, 1_010): (100, 16), (1_000_000, 100): (9, 4)}  # features, batch of the task
_STD = 1e-3
_SHARD, _POOL, _CLASSES = 20, 20_000, 10


def name_of(kind: str, size: Size) -> str:
    return f"{kind}-{size[0]}x{size[1]}"


def consensus(kind: str, nodes: int, d: int) -> Step:
    """Every node adds noise to its vector and mixes the result with its neighbours' vectors."""
    keep_freed_memory()
    network = Simulated(graphs.build("ring", {"nodes": nodes}))
    source = ReleaseContext(np.arange(nodes), Ledger(), Noise.from_seed(0))
    sampling = Sampling("none", np.ones(nodes), "add-remove")
    mechanism, norm = (Laplace(1.0), "l1") if kind == "laplace" else (Gaussian(1.0), "l2")
    x, t, bound = torch.zeros(nodes, d), 0, np.full(nodes, _STD)

    def step() -> None:
        nonlocal x, t
        released = mechanism.release(Bounded(x.clone(), bound, norm, sampling, t, "value", source))
        (x,) = network.mix(t, released)
        t += 1

    return step


def copy_noise(kind: str, nodes: int, d: int) -> Step:
    """Copy and noise only, with torch's generator: Laplace noise by the inverse of its distribution function."""
    x, out = torch.zeros(nodes, d), torch.empty(nodes, d)

    def laplace() -> None:
        out.uniform_(-1, 1)
        sign = out.sign()
        out.abs_().neg_().log1p_().mul_(sign).mul_(-_STD).add_(x)

    def gaussian() -> None:
        out.normal_(std=_STD).add_(x)

    return laplace if kind == "laplace" else gaussian


def copy_own_noise(nodes: int, d: int) -> Step:
    """Copy and noise only, with Tacit's generator, whose Laplace noise is faster than torch's."""
    noise, ids, scale = Noise.from_seed(0), np.arange(nodes), np.full(nodes, _STD)
    x, out, t = torch.zeros(nodes, d), torch.empty(nodes, d), 0

    def step() -> None:
        nonlocal t
        noise.laplace_(out.copy_(x), scale, "noise/value", ids, t)
        t += 1

    return step


def training(nodes: int, d: int) -> Step:
    """Logistic regression with Const-D²P on a ring, every record clipped. Shards overlap."""
    features, batch = TRAINED[nodes, d]
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(_POOL, features, generator=generator), torch.randint(_CLASSES, (_POOL,), generator=generator)
    shards = list((_SHARD * np.arange(nodes)[:, None] + np.arange(_SHARD)) % _POOL)
    module = models.build("logistic", {"inputs": (features,), "classes": _CLASSES})
    data = Dataset("random", x, y, x[:100], y[:100], Target.of_classes(_CLASSES))
    task = Task(Model(module), data, shards, batch=batch, repeats=True)
    graph = graphs.build("ring", {"nodes": nodes})
    algorithm = algorithms.build("const-d2p", {"lr": 0.1, "clip": 1.0, "noise_multiplier": 1.0}).with_rounds(1_000_000)
    network, state, t = Simulated(graph), algorithm.start(task, graph), 0

    def step() -> None:
        nonlocal state, t
        state, t = algorithm.round(t, state, task, network), t + 1

    return step


CONSENSUS: dict[str, Callable[[], Step]] = {
    **{name_of("laplace", size): partial(consensus, "laplace", *size) for size in [*SIZES, (6, 1)]},
    **{name_of("training", size): partial(training, *size) for size in TRAINED},
    "gaussian": partial(consensus, "gaussian", *BASE),
    "copy+laplace": partial(copy_noise, "laplace", *BASE),
    "copy+gaussian": partial(copy_noise, "gaussian", *BASE),
    "copy+own": partial(copy_own_noise, *BASE),
}
