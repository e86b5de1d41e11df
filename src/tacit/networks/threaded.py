"""One thread per node, each with its own network: used to test that algorithms do not depend on the runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks.network import Costs, Network, PeerStopped, largest_distance

R = TypeVar("R")
_BARRIER_TIMEOUT = 120.0  # seconds


class MessageBoard:
    """The messages of all threads. In an exchange all threads write, wait, read, and wait again."""

    def __init__(self, nodes: int) -> None:
        self.messages: dict[int, tuple[Tensor, ...]] = {}
        self._barrier = threading.Barrier(nodes)

    def exchange(self, node: int, message: tuple[Tensor, ...], read: Callable[[dict[int, tuple[Tensor, ...]]], R]) -> R:
        self.messages[node] = message
        self._wait()
        answer = read(self.messages)
        self._wait()
        return answer

    def abort(self) -> None:
        self._barrier.abort()

    def _wait(self) -> None:
        try:
            self._barrier.wait(_BARRIER_TIMEOUT)
        except threading.BrokenBarrierError:
            raise PeerStopped("another node has stopped") from None


class Threaded(Network):
    """The network of a thread that hosts `node` only; its messages go over a shared `MessageBoard`."""

    omniscient: ClassVar[bool] = True

    def __init__(self, graph: Graph, node: int, board: MessageBoard, costs: Costs | None = None) -> None:
        super().__init__(graph, np.array([node]), costs)
        self._node, self._board = node, board

    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        row = self.graph.at(t)[[self._node]].tocoo()
        pairs = list(zip(row.col.tolist(), row.data.tolist(), strict=True))

        def read(messages: dict[int, tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
            return tuple(
                torch.stack([weight * messages[j][k] for j, weight in pairs]).sum(0) for k in range(len(values))
            )

        return self._board.exchange(self._node, values, read)

    def _swap(self, t: int, z: Tensor, only: Tensor | None) -> Tensor:
        edges = self.edges(t)
        source, target = self.graph.edges(t)
        back = [int(np.searchsorted(target[source == j], self._node)) for j in edges.target]
        return self._board.exchange(
            self._node,
            (z,),
            lambda messages: torch.stack(
                [messages[int(j)][0][place] for j, place in zip(edges.target, back, strict=True)]
            ),
        )

    def _max(self, s: Tensor) -> Tensor:
        return self._board.exchange(self._node, (s,), lambda all_: torch.stack([m[0] for m in all_.values()]).max())

    def _mean(self, x: Tensor) -> Tensor:
        return self._rows(x, lambda rows: rows.mean(0))

    def diameter(self, x: Tensor) -> float:
        return self._rows(x, largest_distance)

    def _rows(self, x: Tensor, read: Callable[[Tensor], R]) -> R:
        """Apply `read` to the rows of all nodes."""
        nodes = range(self.graph.nodes)
        return self._board.exchange(self._node, (x,), lambda all_: read(torch.cat([all_[j][0] for j in nodes])))


def run_on_threads(graph: Graph, work: Callable[[Threaded], R], costs: Costs | None = None) -> list[R]:
    """Run `work` for every node of the graph in parallel, each in a thread with its own network.

    >>> from tacit.graphs import graphs
    >>> ring = graphs.build("ring", {"nodes": 3})
    >>> run_on_threads(ring, lambda network: float(network.max(torch.tensor([float(network.nodes[0])]))))
    [2.0, 2.0, 2.0]
    """
    board = MessageBoard(graph.nodes)

    def host(node: int) -> R:
        try:
            return work(Threaded(graph, node, board, costs))
        except BaseException:
            board.abort()
            raise

    with ThreadPoolExecutor(graph.nodes) as pool:
        futures = [pool.submit(host, node) for node in range(graph.nodes)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise next((error for error in errors if not isinstance(error, PeerStopped)), errors[0])
    return [future.result() for future in futures]
