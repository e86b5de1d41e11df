"""Variables that live on edges: one row for each directed edge i → j that starts at a hosted node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks.network import Edges
from tacit.tasks import Task


@dataclass(frozen=True)
class OnEdges:
    """Parameters x (n, d) and edge variables z (E, d)."""

    x: Tensor
    z: Tensor


def at_start(task: Task, graph: Graph) -> Edges:
    """The edges of a static graph before there is a network."""
    source, target = graph.edges(0)
    mine = np.isin(source, task.nodes)
    row = torch.from_numpy(np.searchsorted(task.nodes, source[mine]))
    return Edges(source[mine], target[mine], row)


def gathered(z: Tensor, edges: Edges, n: int) -> Tensor:
    """Σ_j z_ij (n, d)."""
    return z.new_zeros(n, z.shape[1]).index_add_(0, edges.row, z)


def degrees(edges: Edges, n: int, like: Tensor) -> Tensor:
    """|N_i| (n, 1)."""
    return torch.bincount(edges.row, minlength=n).to(like.dtype)[:, None]
