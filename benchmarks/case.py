"""The task of every contender: the same records, shards, model and graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from tacit.graphs import Graph, graphs
from tacit.tasks import Dataset, Target, models

LR, BOUND, MULTIPLIER = 0.1, 1.0, 1.0
SHARD = 200  # records per node
POOLS = {1: 20_000, 3: 2_000}  # records in all per number of channels; shards overlap, which does not affect time


@dataclass(frozen=True)
class Case:
    """One comparison: n nodes train `model`, clipping per `clip`, on Poisson batches of `batch`.

    The graph is a ring, or random with `degree` neighbours per node.
    """

    model: str
    n: int
    clip: Literal["record", "batch"]
    batch: int = 64
    hidden: int = 64
    degree: int = 2

    @property
    def inputs(self) -> tuple[int, int, int]:
        return (3, 32, 32) if self.model.startswith("resnet") else (1, 28, 28)

    @cached_property
    def data(self) -> Dataset:
        generator, pool = torch.Generator().manual_seed(0), POOLS[self.inputs[0]]
        x = torch.rand(pool, *self.inputs, generator=generator)
        y = torch.randint(10, (pool,), generator=generator)
        return Dataset("random", x, y, x[:100], y[:100], Target.of_classes(10))

    @cached_property
    def shards(self) -> list[np.ndarray]:
        size = max(SHARD, 3 * self.batch)
        return [(i * size + np.arange(size)) % POOLS[self.inputs[0]] for i in range(self.n)]

    @property
    def rate(self) -> float:
        return self.batch / len(self.shards[0])

    @cached_property
    def graph(self) -> Graph:
        if self.degree == 2:
            return graphs.build("ring", {"nodes": self.n})
        return graphs.build("random-regular", {"nodes": self.n, "degree": self.degree})

    @property
    def mixing(self) -> csr_array:
        return self.graph.at(0).astype(np.float32)

    def module(self) -> nn.Module:
        torch.manual_seed(0)
        options = {"hidden": (self.hidden,)} if self.model == "mlp" else {}
        return models.build(self.model, {"inputs": self.inputs, "classes": 10, **options})

    def draw(self, node: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a Poisson batch, for contenders that process one node at a time."""
        shard = torch.from_numpy(self.shards[node])
        index = shard[torch.rand(len(shard), generator=generator) < self.rate]
        return self.data.x.index_select(0, index), self.data.y[index]
