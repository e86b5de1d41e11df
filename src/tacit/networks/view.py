"""A network as an algorithm sees it through another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks.network import Edges, Network, Traffic


class NetworkView(Network):
    """Passes every operation on to `network`. Subclasses change some of them.

    Args:
        network: The network that sends and counts.
        graph: The graph that an algorithm sees; None: that of the network.
    """

    def __init__(self, network: Network, graph: Graph | None = None) -> None:
        self._network = network
        super().__init__(graph or network.graph, network.nodes, network.costs)

    @property
    def omniscient(self) -> bool:  # type: ignore[override]
        return self._network.omniscient

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self._network.device

    @property
    def traffic(self) -> Traffic:
        return self._network.traffic

    @traffic.setter
    def traffic(self, traffic: Traffic) -> None:
        """A view has no traffic of its own."""

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        return self._network.mix(t, *values, row_bytes=row_bytes)

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        return self._network.swap(t, z, only)

    def max(self, s: Tensor) -> Tensor:
        return self._network.max(s)

    def mean(self, x: Tensor) -> Tensor:
        return self._network.mean(x)

    def diameter(self, x: Tensor) -> float:
        return self._network.diameter(x)

    def edges(self, t: int) -> Edges:
        return self._network.edges(t)

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        with self._network.unmetered():
            yield

    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return self._network._mix(t, values)

    def _swap(self, t: int, z: Tensor, only: Tensor | None) -> Tensor:
        return self._network._swap(t, z, only)

    def _max(self, s: Tensor) -> Tensor:
        return self._network._max(s)

    def _mean(self, x: Tensor) -> Tensor:
        return self._network._mean(x)
