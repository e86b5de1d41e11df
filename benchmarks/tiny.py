"""The peers' own examples in Tacit: models so small that only the overhead of a round matters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.algorithms import D2P
from tacit.graphs import Graph, graphs
from tacit.networks import Simulated
from tacit.tasks import Dataset, Model, Target, Task

Step = Callable[[], None]


def _rounds(task: Task, graph: Graph) -> Step:
    network, algorithm = Simulated(graph), D2P(lr=0.01)
    state, t = algorithm.start(task, graph), 0

    def step() -> None:
        nonlocal state, t
        state, t = algorithm.round(t, state, task, network), t + 1

    return step


def logistic57() -> Step:
    """100 nodes, 56 features and a bias, one step on all 64 records per node, then the mean over all nodes."""
    nodes, records = 100, 64
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(nodes * records, 56)).astype(np.float32))
    y = (x[:, 0] > 0).long()

    def loss(z: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(z.squeeze(-1), y.to(z.dtype), reduction="none")

    task = Task(
        Model(nn.Linear(56, 1), loss),
        Dataset("tiny", x, y, x, y, Target.of_classes(2)),
        np.split(np.arange(nodes * records), nodes),
    )
    return _rounds(task, graphs.build("complete", {"nodes": nodes}))


def quadratics(nodes: int) -> Step:
    """f_i(w) = wᵀA_i w / 2 + b_iᵀw with d = 10; the only record of node i is (A_i, b_i)."""
    d = 10
    rng = np.random.default_rng(0)
    root = rng.normal(size=(nodes, d, d)) / np.sqrt(d)
    a = root @ root.transpose(0, 2, 1) + np.eye(d)
    x = torch.from_numpy(np.concatenate([a, rng.normal(size=(nodes, 1, d))], 1).astype(np.float32))
    y = torch.arange(nodes) % 2

    def loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return w @ (x[:d] @ w) / 2 + x[d] @ w

    task = Task(
        Model.from_loss(loss, torch.zeros(d)),
        Dataset("tiny", x, y, x, y, Target.of_classes(2)),
        np.split(np.arange(nodes), nodes),
    )
    return _rounds(task, graphs.build("random-regular", {"nodes": nodes, "degree": 4}))


TINY: dict[str, Callable[[], Step]] = {
    "logistic57": logistic57,
    **{f"quadratics{nodes}": partial(quadratics, nodes) for nodes in (5, 100, 1000)},  # with 5 almost all is fixed cost
}
