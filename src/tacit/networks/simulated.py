"""All nodes in one process: a round of communication is one sparse product."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks.network import Costs, Network, largest_distance


class Simulated(Network):
    """The runtime of simulations: n = N, nothing leaves the process, mixing is sparse.

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
        self._cache: dict[tuple[object, int], Tensor] = {}

    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(self._product(t, value) for value in values)

    def _product(self, t: int, x: Tensor) -> Tensor:
        weights = self._at(x.dtype, t, lambda: _sparse(self.graph.at(t), x.dtype))
        return (weights @ x.reshape(len(x), -1)).view(x.shape)

    def _swap(self, t: int, z: Tensor) -> Tensor:
        return z[self._at("opposite", t, lambda: self._opposite(t))]

    def _max(self, s: Tensor) -> Tensor:
        return s.max()

    def _mean(self, x: Tensor) -> Tensor:
        return x.mean(0)

    def diameter(self, x: Tensor) -> float:
        return largest_distance(x)

    def _opposite(self, t: int) -> Tensor:
        """Where j→i stands for each i→j: edges are sorted by (source, target), so sort them by (target, source)."""
        edges = self.edges(t)
        return torch.from_numpy(np.lexsort((edges.source, edges.target)))

    def _at(self, what: object, t: int, make: Callable[[], Tensor]) -> Tensor:
        """A periodic graph's matrices are made once; those of a random one are not kept."""
        if self.graph.period is None:
            return make()
        key = (what, t % self.graph.period)
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]


def _sparse(matrix: csr_array, dtype: torch.dtype) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            torch.from_numpy(matrix.data).to(dtype),
            size=matrix.shape,
            check_invariants=False,
        )
