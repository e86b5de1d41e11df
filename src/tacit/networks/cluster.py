"""Blocks of nodes on the ranks of a cluster. Only the rows that nodes of other ranks need are sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks.device_weights import DeviceWeights
from tacit.networks.network import Costs, Network, Nodes
from tacit.networks.process_group import ProcessGroup
from tacit.networks.simulated import csr_tensor


@dataclass(frozen=True)
class _Mixing:
    """The rows to send to each rank, the number to receive from each, and the weights of all rows by node id."""

    outgoing: dict[int, Tensor]
    incoming: dict[int, int]
    weights: csr_array


@dataclass(frozen=True)
class _Swapping:
    """Hosted edges by the rank of their target.

    `outgoing` is sorted by (source, target), the order in which they are sent; `incoming` by (target, source), the
    order in which the opposite edges arrive.
    """

    outgoing: dict[int, Tensor]
    incoming: dict[int, Tensor]


class Cluster(Network):
    """The network of a rank that hosts a block of nodes. Every rank has one, over the same graph.

    Each rank derives from the graph which rows the others need. In one round of communication, two ranks with
    neighbouring nodes exchange one message, however many values it carries. Rows are summed in the order of node ids,
    as in a simulation. When a rank fails, for example because of values that are not finite, all ranks stop.
    """

    omniscient: ClassVar[bool] = False

    def __init__(self, graph: Graph, ranks: ProcessGroup, costs: Costs | None = None) -> None:
        super().__init__(graph, ranks.block(graph.nodes), costs)
        self._ranks = ranks
        self._buffer = torch.empty(0, dtype=torch.uint8)  # reused, since its size changes with the round
        self.device = ranks.device
        self._first = np.array([ranks.block(graph.nodes, rank)[0] for rank in range(ranks.size)])

    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        plan = self._cached("mix", t, lambda: self._mixing(t))
        flat = [value.reshape(len(value), -1) for value in values]
        sizes = [row[:1].nbytes for row in flat]
        received = self._ranks.exchange(
            {rank: torch.cat([_bytes(value[rows]) for value in flat]) for rank, rows in plan.outgoing.items()},
            {rank: count * sum(sizes) for rank, count in plan.incoming.items()},
        )
        parts = {rank: _cut(message, plan.incoming[rank], sizes) for rank, message in received.items()}
        mixed = []
        for k, (value, own) in enumerate(zip(values, flat, strict=True)):
            rows = self._in_order(own, {rank: cut[k] for rank, cut in parts.items()})
            mixed.append(self._product(t, plan.weights, rows).view(value.shape))
        return tuple(mixed)

    def _swap(self, t: int, z: Tensor, only: Tensor | None) -> Tensor:
        plan = self._cached("swap", t, lambda: self._swapping(t))
        outgoing, incoming = plan.outgoing, plan.incoming
        if only is not None:
            active = only.to(z.device)
            outgoing, incoming = (
                {rank: rows[active[rows]] for rank, rows in places.items()} for places in (outgoing, incoming)
            )
        others = [rank for rank, rows in outgoing.items() if rank != self._ranks.rank and len(rows)]
        received = self._ranks.exchange(
            {rank: _bytes(z[outgoing[rank]]) for rank in others},
            {rank: len(incoming[rank]) * z[:1].nbytes for rank in others},
        )
        swapped = z.clone()
        for rank, rows in incoming.items():
            if rank in received:
                swapped[rows] = received[rank].view(z.dtype).view(-1, *z.shape[1:])
            elif len(rows):
                swapped[rows] = z[outgoing[rank]]
        return swapped

    def _max(self, s: Tensor) -> Tensor:
        return self._ranks.max(s.max())

    def _mean(self, x: Tensor) -> Tensor:
        # The order of summation depends on the number of ranks: double precision keeps the difference small.
        return (self._ranks.sum(x.sum(0, dtype=torch.float64)) / self.graph.nodes).to(x.dtype)

    def _product(self, t: int, weights: csr_array, rows: Tensor) -> Tensor:
        if rows.device.type != "cpu":
            return self._cached((rows.dtype, rows.device), t, lambda: DeviceWeights.of(weights, rows)).product(rows)
        own: Tensor = self._cached(rows.dtype, t, lambda: _sparse(weights, rows.dtype))
        return own @ rows

    def _check_finite(self, t: int | None, owners: Nodes, *values: Tensor) -> None:
        try:
            super()._check_finite(t, owners, *values)
        except TacitError as error:
            self._ranks.stop(str(error))
            raise

    def _mixing(self, t: int) -> _Mixing:
        matrix, first, last = self.graph.at(t), self.nodes[0], self.nodes[-1] + 1
        own = matrix[first:last]
        needed = np.union1d(own.indices, self.nodes)  # sorted: lower ranks, this rank, higher ranks
        places = np.searchsorted(needed, own.indices).astype(own.indices.dtype)
        weights = csr_array((own.data, places, own.indptr), shape=(len(self.nodes), len(needed)))
        counts = np.bincount(self._owner(needed), minlength=self._ranks.size)
        wanted = matrix[:, first:last].tocoo()
        pairs = np.unique(np.stack([self._owner(wanted.row), wanted.col]), axis=1)
        return _Mixing(
            {rank: self._rows(pairs[1, pairs[0] == rank]) for rank in self._other_ranks(pairs[0])},
            {rank: int(counts[rank]) for rank in self._other_ranks(self._owner(needed))},
            weights,
        )

    def _swapping(self, t: int) -> _Swapping:
        edges = self.edges(t)
        owner, order = self._owner(edges.target), np.lexsort((edges.source, edges.target))
        ranks = np.unique(owner).tolist()
        return _Swapping(
            {rank: self._rows(np.flatnonzero(owner == rank)) for rank in ranks},
            {rank: self._rows(order[owner[order] == rank]) for rank in ranks},
        )

    def _rows(self, rows: Nodes) -> Tensor:
        return torch.from_numpy(rows).long().to(self.device)

    def _owner(self, nodes: Nodes) -> Nodes:
        """The rank that hosts each node."""
        return np.searchsorted(self._first, nodes, side="right") - 1

    def _other_ranks(self, ranks: Nodes) -> list[int]:
        return [rank for rank in np.unique(ranks).tolist() if rank != self._ranks.rank]

    def _in_order(self, own: Tensor, received: Mapping[int, Tensor]) -> Tensor:
        """Own rows and received bytes as one matrix, sorted by rank and therefore by node id."""
        if not received:
            return own
        parts = {self._ranks.rank: _bytes(own), **received}
        size = sum(len(part) for part in parts.values())
        if len(self._buffer) < size or self._buffer.device != own.device:
            self._buffer = own.new_empty(size, dtype=torch.uint8)
        torch.cat([parts[rank] for rank in sorted(parts)], out=self._buffer[:size])
        return self._buffer[:size].view(own.dtype).view(-1, own.shape[1])


def _sparse(matrix: csr_array, dtype: torch.dtype) -> Tensor:
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape, dtype)


def _bytes(rows: Tensor) -> Tensor:
    return rows.contiguous().view(-1).view(torch.uint8)


def _cut(message: Tensor, count: int, sizes: list[int]) -> tuple[Tensor, ...]:
    """Split a message of `count` rows per value, value after value, into one part per value."""
    return torch.split(message, [count * size for size in sizes])
