"""All nodes in one process: a round of communication is one sparse product."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks.device_weights import DeviceWeights
from tacit.networks.network import Costs, Network, largest_distance

Index = npt.NDArray[np.signedinteger[Any]]
Weights = npt.NDArray[np.float64]


class Simulated(Network):
    """The network of a simulation: it hosts all nodes (n = N), and mixing is one sparse product.

    >>> from tacit.graphs import graphs
    >>> network = Simulated(graphs.build("complete", {"nodes": 4}))
    >>> network.mix(0, torch.arange(4.0)[:, None])[0].flatten()
    tensor([1.5000, 1.5000, 1.5000, 1.5000])
    >>> network.traffic.messages, network.traffic.bytes
    (12, 48)
    """

    omniscient: ClassVar[bool] = True

    def __init__(self, graph: Graph, costs: Costs | None = None) -> None:
        super().__init__(graph, None, costs)

    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(self._product(t, value) for value in values)

    def _product(self, t: int, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            rows = self._cached((x.dtype, x.device), t, lambda: DeviceWeights.of(self.graph.at(t), x))
            return rows.product(x.reshape(len(x), -1)).view(x.shape)
        weights = self._cached(x.dtype, t, lambda: _sparse(self.graph.at(t), x.dtype))
        return (weights @ x.reshape(len(x), -1)).view(x.shape)

    def _swap(self, t: int, z: Tensor, only: Tensor | None) -> Tensor:
        return z[self._cached(("opposite", z.device), t, lambda: self._opposite(t).to(z.device))]

    def _max(self, s: Tensor) -> Tensor:
        return s.max()

    def _mean(self, x: Tensor) -> Tensor:
        return x.mean(0)

    def diameter(self, x: Tensor) -> float:
        return largest_distance(x)

    def _opposite(self, t: int) -> Tensor:
        """The row of j→i for each i→j. Edges are sorted by (source, target), so this sorts them by (target, source)."""
        edges = self.edges(t)
        return torch.from_numpy(np.lexsort((edges.source, edges.target)))


def csr_tensor(indptr: Index, indices: Index, data: Weights, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    """Sparse weights as a torch CSR tensor."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR")
        return torch.sparse_csr_tensor(
            torch.from_numpy(indptr),
            torch.from_numpy(indices),
            torch.from_numpy(data).to(dtype),
            size=shape,
            check_invariants=False,
        )


def _sparse(matrix: csr_array, dtype: torch.dtype) -> Tensor:
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape, dtype)
