"""One round of DP-Norm's convex experiment, and of the matrix products it needs."""

from __future__ import annotations

from collections.abc import Callable

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


def records() -> torch.Tensor:
    """Return random records with the shape of Fashion-MNIST and unit norm."""
    x = torch.rand(NODES * RECORDS, PIXELS, generator=torch.Generator().manual_seed(0))
    return x / x.norm(dim=1, keepdim=True)


def dp_norm() -> Step:
    """N = 6 on a ring, B = 2,000 of 4,000 records, K = 10, every record clipped, noise once per round."""
    x, y = records(), torch.arange(NODES * RECORDS) % CLASSES
    data = Dataset("random", x, y, x[:100], y[:100], Target.of_classes(CLASSES))
    torch.manual_seed(0)
    module = models.build("logistic", {"inputs": (PIXELS,), "classes": CLASSES, "biases": False})
    parts = np.split(np.arange(len(y)), NODES)
    model = Model(module, weight_decay=1e-3)
    task = Task(model, data, parts, batch=BATCH, sampling="permutation", epochs=STEPS * BATCH // RECORDS)
    graph = graphs.build("ring", {"nodes": NODES})
    network, algorithm = (
        Simulated(graph),
        algorithms.build("dp-norm", {"sigma": 0.171, "smoothness": 0.5}).with_rounds(1_000_000),
    )
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


PUBLISHED: dict[str, Callable[[], Step]] = {"dp-norm": dp_norm, "products": products}


def sentence(seconds: dict[str, float], sgemm: float) -> str:
    """Describe the result; `seconds` are per round, `sgemm` is in operations per second."""
    round_, least = seconds["dp-norm"], FLOPS / sgemm
    return (
        f"DP-Norm's convex experiment ({NODES * STEPS * ROUNDS:,} local steps, batches of {BATCH:,} images): "
        f"**{ROUNDS * round_:.0f} s** ({1e3 * round_:.0f} ms per round); its matrix products alone take "
        f"{ROUNDS * seconds['products']:.0f} s here, {seconds['products'] / round_:.0%} of that, and would take "
        f"{ROUNDS * least:.0f} s at the machine's sgemm rate, **{least / round_:.0%}**: products with only {CLASSES} "
        "outputs do not reach it."
    )
