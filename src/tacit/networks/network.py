"""What nodes can say to each other: four verbs, the same in every runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graphs import Graph

Nodes = npt.NDArray[np.int64]
M = TypeVar("M")


class Stopped(TacitError):
    """Another node or process failed first; its error is the one to read."""


@dataclass(frozen=True)
class Costs:
    """Seconds by which runs are compared, as the papers do: a gradient, a round of communication, and bytes a second.

    >>> Costs(gradient_time=0.1, link_time=1.0).seconds(draws=4, rounds=1, bytes_out=0)
    1.4
    """

    gradient_time: float = 0.0
    link_time: float = 0.0
    bandwidth: float = float("inf")

    def seconds(self, draws: int, rounds: int, bytes_out: float) -> float:
        """Nodes work side by side: `bytes_out` is what the busiest one had to send."""
        return draws * self.gradient_time + rounds * self.link_time + bytes_out / self.bandwidth


@dataclass
class Traffic:
    """What the hosted nodes have sent so far; `bytes_out` is the busiest node's share, round by round.

    `by_node` holds each node's messages and bytes, (2, n).
    """

    messages: int = 0
    bytes: int = 0
    rounds: int = 0
    bytes_out: int = 0
    by_node: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 1), np.int64), compare=False)


class Edges(NamedTuple):
    """Directed edges that start at a hosted node, sorted by (source, target). `row` is the source's row here."""

    source: Nodes
    target: Nodes
    row: Tensor


class Network(ABC):
    """The hosted nodes' end of the network. Every tensor has one row a hosted node (or one a hosted edge, in `swap`).

    An algorithm calls the verbs and never knows which runtime answers. Values that are not finite never leave.
    An `omniscient` runtime, a simulation, can also measure what no node of a real network knows: `diameter`.
    """

    omniscient: ClassVar[bool] = False

    def __init__(self, graph: Graph, nodes: Nodes | None = None, costs: Costs | None = None) -> None:
        self.graph = graph
        self.nodes = np.arange(graph.nodes) if nodes is None else nodes
        self.costs = costs or Costs()
        self.traffic = Traffic()
        self._kept: dict[tuple[object, int], Any] = {}

    def begin(self, t: int) -> int:
        """A round is about to begin. On a real network others may have gone on without the hosted node: then the answer
        is the round they are in, and nothing has begun yet."""
        return t

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        """Σ_j W_ij(t) x_j over in-neighbours, for each of `values`; they travel together in one message.

        `row_bytes` is what a node's message takes where it is compressed.
        """
        self._check(t, self.nodes, *values)
        degrees = self.graph.out_degrees(t)
        each = sum(_row_bytes(value) for value in values) if row_bytes is None else row_bytes
        self._count(degrees[self.nodes], each, busiest=int(degrees.max()))
        return self._mix(t, values)

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        """For the edge i→j the value that j holds for j→i. Rows follow `edges(t)`; both directions must exist.

        With `only`, a bool an edge that both its ends agree on, the others stay silent and keep what they have.
        """
        source = self.edges(t).source
        self._check(t, source, z)
        speaking = source if only is None else source[only.numpy()]
        self._count(np.bincount(np.searchsorted(self.nodes, speaking), minlength=len(self.nodes)), _row_bytes(z))
        received = self._swap(t, z, only)
        return received if only is None else torch.where(only[:, None], received, z)

    def max(self, s: Tensor) -> Tensor:
        """The largest of the nodes' numbers (n,), known to all of them afterwards, as a scalar."""
        self._check(None, self.nodes, s)
        self._count(self._others(), _row_bytes(s))
        return self._max(s)

    def mean(self, x: Tensor) -> Tensor:
        """The mean of the nodes' rows, known to all of them afterwards: (d,) from (n, d)."""
        self._check(None, self.nodes, x)
        self._count(self._others(), _row_bytes(x))
        return self._mean(x)

    def diameter(self, x: Tensor) -> float:
        """max_ij ‖x_i − x_j‖₁ over all nodes: a measurement, no message."""
        raise TacitError("how far apart all nodes are is known in a simulation only")

    def edges(self, t: int) -> Edges:
        """The directed edges of round t that start at a hosted node."""
        source, target = self.graph.edges(t)
        mine = np.isin(source, self.nodes)
        row = torch.from_numpy(np.searchsorted(self.nodes, source[mine]))
        return Edges(source[mine], target[mine], row)

    def seconds(self, draws: int) -> float:
        """The cost clock after `draws` gradients a node."""
        return self.costs.seconds(draws, self.traffic.rounds, self.traffic.bytes_out)

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        """For measurements, which are no part of the method: what is sent inside is not counted."""
        before = replace(self.traffic)
        try:
            yield
        finally:
            self.traffic = before

    def _at(self, what: object, t: int, make: Callable[[], M]) -> M:
        """What is made of the graph of round t: once for a periodic graph; that of a random one is not kept."""
        if self.graph.period is None:
            return make()
        key = (what, t % self.graph.period)
        if key not in self._kept:
            self._kept[key] = make()
        made: M = self._kept[key]
        return made

    @abstractmethod
    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]: ...

    @abstractmethod
    def _swap(self, t: int, z: Tensor, only: Tensor | None) -> Tensor: ...

    @abstractmethod
    def _max(self, s: Tensor) -> Tensor: ...

    @abstractmethod
    def _mean(self, x: Tensor) -> Tensor: ...

    def _others(self) -> npt.NDArray[np.int64]:
        """A network-wide value reaches everyone: counted as one message to each other node."""
        return np.full(len(self.nodes), self.graph.nodes - 1)

    def _count(self, out: npt.NDArray[np.int64], row_bytes: int, busiest: int | None = None) -> None:
        """`out` messages of each hosted node; `busiest` is the most of any node, hosted here or not, where known."""
        messages = int(out.sum())
        self.traffic.messages += messages
        self.traffic.bytes += messages * row_bytes
        self.traffic.bytes_out += (int(out.max(initial=0)) if busiest is None else busiest) * row_bytes
        self.traffic.rounds += 1
        # A new array: copies of the counters, in checkpoints, keep the old one.
        self.traffic.by_node = self.traffic.by_node + np.stack([out, out * row_bytes])

    def _check(self, t: int | None, owners: Nodes, *values: Tensor) -> None:
        """Refuse what is not finite, naming the node it belongs to."""
        for value in values:
            if bool(torch.isfinite(value.sum())):  # one pass; a sum may overflow, so look closer before refusing
                continue
            bad = (~torch.isfinite(value)).reshape(len(value), -1).any(1).nonzero()
            if len(bad):
                when = "" if t is None else f" in round {t}"
                raise TacitError(
                    f"node {owners[int(bad[0])]} has values that are not finite{when}; nothing was sent: "
                    "try a smaller learning rate"
                )


def largest_distance(x: Tensor) -> float:
    """max_ij ‖x_i − x_j‖₁ of the rows (n, d), summed in double precision: long rows lose percents in single."""
    return max(float((x - row).abs().sum(1, dtype=torch.float64).max()) for row in x)


def _row_bytes(value: Tensor) -> int:
    return value[:1].nbytes
