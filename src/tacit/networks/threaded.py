"""One node a thread, each with its own end of the network: the proof that algorithms do not know where they run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks.network import Costs, Network, Stopped, largest_distance

R = TypeVar("R")
_PATIENCE = 120.0  # seconds a thread waits for the others before it gives up


class Board:
    """Where the threads leave their messages. All write, all wait, all read, all wait."""

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
            self._barrier.wait(_PATIENCE)
        except threading.BrokenBarrierError:
            raise Stopped("another node of the network has stopped") from None


class Threaded(Network):
    """The end of a network that hosts the single node `node`; its messages go over a shared `Board`."""

    omniscient: ClassVar[bool] = True

    def __init__(self, graph: Graph, node: int, board: Board, costs: Costs | None = None) -> None:
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
        """What is made of the rows of all nodes."""
        nodes = range(self.graph.nodes)
        return self._board.exchange(self._node, (x,), lambda all_: read(torch.cat([all_[j][0] for j in nodes])))


def on_threads(graph: Graph, work: Callable[[Threaded], R], costs: Costs | None = None) -> list[R]:
    """Run `work` for every node of the graph at once, each in a thread with its own network.

    >>> from tacit.graphs import graphs
    >>> ring = graphs.build("ring", {"nodes": 3})
    >>> on_threads(ring, lambda network: float(network.max(torch.tensor([float(network.nodes[0])]))))
    [2.0, 2.0, 2.0]
    """
    board = Board(graph.nodes)

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
        raise next((error for error in errors if not isinstance(error, Stopped)), errors[0])
    return [future.result() for future in futures]
