"""Networks that keep every message, to compare the messages of two runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks import Simulated


class LoggedMessage(NamedTuple):
    """What was sent, the values of all nodes, and whether it counts as traffic."""

    name: str
    value: Tensor
    metered: bool


class MessageLog(Simulated):
    """All nodes in one process, as in a simulation, but an algorithm sees a real network: it is not `omniscient`.

    Every message of a round is kept, also those that are not counted as traffic and those that measure.
    """

    omniscient: ClassVar[bool] = False

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.messages: list[LoggedMessage] = []
        self._metered, self._paused = True, False

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        self._keep(f"mix of round {t}", *values)
        return super().mix(t, *values, row_bytes=row_bytes)

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        self._keep(f"swap of round {t}", z if only is None else torch.where(only[:, None], z, 0.0))
        return super().swap(t, z, only)

    def max(self, s: Tensor) -> Tensor:
        self._keep("max", s)
        return super().max(s)

    def mean(self, x: Tensor) -> Tensor:
        self._keep("mean", x)
        return super().mean(x)

    def diameter(self, x: Tensor) -> float:
        self._keep("diameter", x)
        return super().diameter(x)

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        before, self._metered = self._metered, False
        try:
            with super().unmetered():
                yield
        finally:
            self._metered = before

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Keep nothing inside the block. For the evaluations of a run, which are no part of an algorithm."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def _keep(self, name: str, *values: Tensor) -> None:
        if not self._paused:
            self.messages += [LoggedMessage(name, value.detach().clone(), self._metered) for value in values]


class SimulationLog(MessageLog):
    """The network of a simulation, in which an algorithm may measure what no real network can."""

    omniscient: ClassVar[bool] = True

    def diameter(self, x: Tensor) -> float:
        with self.paused():
            return super().diameter(x)
