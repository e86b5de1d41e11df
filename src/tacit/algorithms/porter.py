"""PORTER: gradient tracking with clipped, noised gradients and compressed messages."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.clipped import Clipped
from tacit.compressors import Compressor, compressors
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.tasks import Task


@dataclass(frozen=True)
class Tracked:
    """Parameters x and tracker v; what everyone has been told of them, h and q, with the neighbours' mean of each;
    the last private gradient p. All (n, d)."""

    x: Tensor
    v: Tensor
    h: Tensor
    q: Tensor
    mixed_h: Tensor
    mixed_q: Tensor
    p: Tensor


@algorithms.register("porter")
@dataclass(frozen=True, kw_only=True)
class Porter(Clipped[Tracked]):
    """PORTER-DP: gradient tracking with private gradients and compressed messages (Li and Chi).

        p = mean of smoothly clipped gradients of records + N(0, σ²)
        v ← v + γ (Σ_j W_ij q_j − q_i) + p − p_old,   send C(v − q),   q ← q + C(v − q)
        x ← x + γ (Σ_j W_ij h_j − h_i) − η v,         send C(x − h),   h ← h + C(x − h)

    η is `lr` and γ `gamma`. With σ = 0 and the batch clipped it is PORTER-GC. Neighbours keep what they were told, so
    only the compressed differences travel, in two messages a round.

    Formal guarantee: all that is sent is made of the private gradients p, one release a round.
    """

    needs: ClassVar[tuple[str, ...]] = ("symmetric", "connected", "static")
    name: ClassVar[str] = "PORTER-DP"

    gamma: float = 1.0
    compressor: str = "identity"
    compression: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.gamma < math.inf:
            raise TacitError(f"{self.name}: gamma must be positive and finite, not {self.gamma}")
        compressors.build(self.compressor, self.compression)  # what cannot be built is told now

    @property
    def title(self) -> str:
        return self.name if self.sigma != 0 else "PORTER-GC"

    def start(self, task: Task, graph: Graph) -> Tracked:
        x = task.initial()
        zero = torch.zeros_like(x)
        return Tracked(x, zero, x, zero, x, zero, zero)  # all start alike, so the mean of the neighbours' h is x

    def round(self, t: int, state: Tracked, task: Task, network: Network) -> Tracked:
        p = self.private(state.x, t, task)
        v = state.v + self.gamma * (state.mixed_q - state.q) + p - state.p
        told, heard = self._tell(t, v - state.q, "v", task, network)
        q, mixed_q = state.q + told, state.mixed_q + heard
        x = state.x + self.gamma * (state.mixed_h - state.h) - self.lr * v
        told, heard = self._tell(t, x - state.h, "x", task, network)
        return Tracked(x, v, state.h + told, q, state.mixed_h + heard, mixed_q, p)

    def models(self, state: Tracked) -> Tensor:
        return state.x

    def _tell(self, t: int, news: Tensor, what: str, task: Task, network: Network) -> tuple[Tensor, Tensor]:
        """What is sent of `news`, and the weighted sum of what the neighbours sent."""
        compress: Compressor = compressors.build(self.compressor, self.compression)
        told = compress(news, task.noise, task.nodes, t, what)
        (heard,) = network.mix(t, told, row_bytes=compress.row_bytes(told))
        return told, heard
