"""Variables of edges: tensors with one row per directed edge i → j that starts at a hosted node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks import Edges
from tacit.tasks import Task


@dataclass(frozen=True)
class EdgeState:
    """Parameters x (n, d) of the nodes and variables z (E, d) of the edges."""

    x: Tensor
    z: Tensor


def hosted_edges(task: Task, graph: Graph) -> Edges:
    """Return the edges of a static graph that start at a hosted node; for `start`, which has no network."""
    source, target = graph.edges(0)
    hosted = np.isin(source, task.nodes)
    row = torch.from_numpy(np.searchsorted(task.nodes, source[hosted])).to(task.device)
    return Edges(source[hosted], target[hosted], row)


def edge_signs(edges: Edges, like: Tensor) -> Tensor:
    """Return 1 (E, 1) for each edge to a node with a larger id and −1 for each other edge, in the dtype of `like`."""
    sign = torch.from_numpy(np.where(edges.source < edges.target, 1.0, -1.0))
    return sign.to(like.dtype).to(like.device)[:, None]


def sum_over_neighbours(z: Tensor, edges: Edges, n: int) -> Tensor:
    """Return Σ_j z_ij for each of the n hosted nodes i, (n, d)."""
    return z.new_zeros(n, z.shape[1]).index_add_(0, edges.row, z)


def degrees(edges: Edges, n: int, like: Tensor) -> Tensor:
    """Return the number of neighbours |N_i| of each hosted node (n, 1), in the dtype of `like`."""
    return like.new_zeros(n, 1).index_add_(0, edges.row, like.new_ones(len(edges.row), 1))
