"""Rounds of the convex experiments as published: DP-Norm, DP-SGD, and the matrix products that they need."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.limits import void
from tacit.algorithms import algorithms
from tacit.graphs import graphs
from tacit.networks import Simulated
from tacit.tasks import Dataset, Model, Target, Task, models

Step = Callable[[], None]
NODES, RECORDS, BATCH, STEPS, ROUNDS = 6, 4000, 2000, 10, 2000
PIXELS, CLASSES = 784, 10
FLOPS = 2 * 2 * NODES * BATCH * PIXELS * CLASSES * STEPS  # per round: forward outputs and backward gradients
METHODS: dict[str, dict[str, Any]] = {
    "dp-norm": {"sigma": 0.171, "smoothness": 0.5},  # noise once per round
    "dp-sgd": {"sigma": 0.1, "lr": 0.03, "local_steps": STEPS, "clip": 1.0},  # noise in every local step
}
SAMPLING = {"dp-norm": "permutation", "dp-sgd": "without-replacement"}


def records() -> torch.Tensor:
    """Return random records with the shape of Fashion-MNIST and unit norm."""
    x = torch.rand(NODES * RECORDS, PIXELS, generator=torch.Generator().manual_seed(0))
    return x / x.norm(dim=1, keepdim=True)


def published(method: str) -> Step:
    """N = 6 on a ring, B = 2,000 of 4,000 records, K = 10, every record clipped."""
    x, y = records(), torch.arange(NODES * RECORDS) % CLASSES
    data = Dataset("random", x, y, x[:100], y[:100], Target.of_classes(CLASSES))
    torch.manual_seed(0)
    module = models.build("logistic", {"inputs": (PIXELS,), "classes": CLASSES, "biases": False})
    parts = np.split(np.arange(len(y)), NODES)
    model, epochs = Model(module, weight_decay=1e-3), STEPS * BATCH // RECORDS
    task = Task(model, data, parts, batch=BATCH, sampling=SAMPLING[method], epochs=epochs)
    graph = graphs.build("ring", {"nodes": NODES})
    network, algorithm = Simulated(graph), algorithms.build(method, METHODS[method]).with_rounds(1_000_000)
    state, t = algorithm.start(task, graph), 0

    def step() -> None:
        nonlocal state, t
        state, t = algorithm.round(t, state, task, network), t + 1

    return step


def products() -> Step:
    """Only the matrix products of a round: outputs and gradients of its batches."""
    x = records()[: NODES * BATCH].view(NODES, BATCH, PIXELS)
    w, g = torch.rand(NODES, CLASSES, PIXELS), torch.rand(NODES, BATCH, CLASSES)

    def step() -> None:
        for _ in range(STEPS):
            void(torch.bmm(w, x.mT))
            void(torch.bmm(g.mT, x))

    return step


PUBLISHED: dict[str, Callable[[], Step]] = {
    **{method: partial(published, method) for method in METHODS},
    "products": products,
}
