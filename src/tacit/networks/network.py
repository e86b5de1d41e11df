"""Communication between nodes: four verbs, the same in every runtime."""

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

from tacit.device import double_l1_norms
from tacit.errors import TacitError
from tacit.graphs import Graph

Nodes = npt.NDArray[np.int64]
M = TypeVar("M")


class PeerStopped(TacitError):
    """Another node or process failed first; its error is the cause."""


@dataclass(frozen=True)
class Costs:
    """The cost model of the papers: seconds per gradient and per round of communication, and bytes per second.

    >>> Costs(gradient_time=0.1, link_time=1.0).seconds(draws=4, rounds=1, bytes_out=0)
    1.4
    """

    gradient_time: float = 0.0
    link_time: float = 0.0
    bandwidth: float = float("inf")

    def seconds(self, draws: int, rounds: int, bytes_out: float) -> float:
        """The cost in seconds. Nodes work in parallel: `bytes_out` are the bytes of the busiest node."""
        return draws * self.gradient_time + rounds * self.link_time + bytes_out / self.bandwidth


@dataclass
class Traffic:
    """What the hosted nodes have sent so far.

    Attributes:
        rounds: Rounds of communication.
        bytes_out: The bytes of the busiest node, summed over the rounds.
        by_node: Messages and bytes of each node, (2, n).
    """

    messages: int = 0
    bytes: int = 0
    rounds: int = 0
    bytes_out: int = 0
    by_node: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, 1), np.int64), compare=False)


class Edges(NamedTuple):
    """Directed edges that start at a hosted node, sorted by (source, target). `row` is the row of the source."""

    source: Nodes
    target: Nodes
    row: Tensor


class Network(ABC):
    """The network as the hosted nodes use it. Tensors have one row per hosted node; in `swap`, one per hosted edge.

    Algorithms call the verbs and do not depend on the runtime. Values that are not finite are never sent. A simulation
    (`omniscient`) can also measure `diameter`, which no node of a real network can.
    """

    omniscient: ClassVar[bool] = False

    device = torch.device("cpu")  # of the values of the nodes; set it before the first round

    def __init__(self, graph: Graph, nodes: Nodes | None = None, costs: Costs | None = None) -> None:
        self.graph = graph
        self.nodes = np.arange(graph.nodes) if nodes is None else nodes
        self.costs = costs or Costs()
        self.traffic = Traffic()
        self._cache: dict[tuple[object, int], Any] = {}

    def begin(self, t: int) -> int:
        """Begin round t and return t. If the other nodes of a real network continued without the hosted node, return
        their current round instead; then no round has begun."""
        return t

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        """Σ_j W_ij(t) x_j over in-neighbours, for each of `values`; they are sent in one message.

        `row_bytes` is the size of one compressed message.
        """
        self._check_finite(t, self.nodes, *values)
        degrees = self.graph.out_degrees(t)
        each = sum(_row_bytes(value) for value in values) if row_bytes is None else row_bytes
        self._count(degrees[self.nodes], each, busiest=int(degrees.max()))
        return self._mix(t, values)

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        """For every edge i→j, the value that j holds for j→i. Rows follow `edges(t)`; both directions must exist.

        With `only`, one bool per edge in main memory on which both ends agree, the other edges exchange nothing and
        keep their value.
        """
        source = self.edges(t).source
        self._check_finite(t, source, z)
        active = source if only is None else source[only.numpy()]
        self._count(np.bincount(np.searchsorted(self.nodes, active), minlength=len(self.nodes)), _row_bytes(z))
        received = self._swap(t, z, only)
        return received if only is None else torch.where(only.to(z.device)[:, None], received, z)

    def max(self, s: Tensor) -> Tensor:
        """The maximum of the nodes' numbers (n,) as a scalar; every node receives it."""
        self._check_finite(None, self.nodes, s)
        self._count(self._others(), _row_bytes(s))
        return self._max(s)

    def mean(self, x: Tensor) -> Tensor:
        """The mean (d,) of the nodes' rows (n, d); every node receives it."""
        self._check_finite(None, self.nodes, x)
        self._count(self._others(), _row_bytes(x))
        return self._mean(x)

    def diameter(self, x: Tensor) -> float:
        """max_ij ‖x_i − x_j‖₁ over all nodes. A measurement: no message is counted."""
        raise TacitError("the distance between all nodes can be measured in a simulation only")

    def edges(self, t: int) -> Edges:
        """The directed edges of round t that start at a hosted node."""
        source, target = self.graph.edges(t)
        mine = np.isin(source, self.nodes)
        row = torch.from_numpy(np.searchsorted(self.nodes, source[mine]))
        return Edges(source[mine], target[mine], row.to(self.device))

    def seconds(self, draws: int) -> float:
        """The cost in seconds after `draws` gradients per node."""
        return self.costs.seconds(draws, self.traffic.rounds, self.traffic.bytes_out)

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        """Do not count what is sent inside the block: measurements are not part of the method."""
        before = replace(self.traffic)
        try:
            yield
        finally:
            self.traffic = before

    def _cached(self, what: object, t: int, make: Callable[[], M]) -> M:
        """A value computed from the graph of round t; it is cached if the graph is periodic."""
        if self.graph.period is None:
            return make()
        key = (what, t % self.graph.period)
        if key not in self._cache:
            self._cache[key] = make()
        made: M = self._cache[key]
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
        """The messages of `max` and `mean`: one to every other node."""
        return np.full(len(self.nodes), self.graph.nodes - 1)

    def _count(self, out: npt.NDArray[np.int64], row_bytes: int, busiest: int | None = None) -> None:
        """Count `out` messages per hosted node; `busiest` is the maximum over all nodes, if it is known."""
        messages = int(out.sum())
        self.traffic.messages += messages
        self.traffic.bytes += messages * row_bytes
        self.traffic.bytes_out += (int(out.max(initial=0)) if busiest is None else busiest) * row_bytes
        self.traffic.rounds += 1
        # A new array, because checkpoints hold the old one.
        self.traffic.by_node = self.traffic.by_node + np.stack([out, out * row_bytes])

    def _check_finite(self, t: int | None, owners: Nodes, *values: Tensor) -> None:
        """Raise an error that names the node if a value is not finite."""
        sums = [value.sum() for value in values]
        total = sums[0] if len(sums) == 1 else torch.stack(sums).sum()
        if bool(torch.isfinite(total)):  # fast path; a finite sum is proof enough, and one number is read
            return
        for value in values:
            bad = (~torch.isfinite(value)).reshape(len(value), -1).any(1).nonzero()
            if len(bad):
                when = "" if t is None else f" in round {t}"
                raise TacitError(
                    f"node {owners[int(bad[0])]} has values that are not finite{when}; nothing was sent. "
                    "Try a smaller learning rate"
                )


def largest_distance(x: Tensor) -> float:
    """max_ij ‖x_i − x_j‖₁ of the rows (n, d), summed in double precision because rows are long."""
    return float(torch.stack([double_l1_norms(x - row).max() for row in x]).max().cpu())


def _row_bytes(value: Tensor) -> int:
    return value[:1].nbytes
