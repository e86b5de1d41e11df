"""PORTER: gradient tracking with clipped, noised gradients and compressed messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from tacit.algorithms.algorithm import algorithms, check_positive
from tacit.algorithms.compressors import compressors
from tacit.algorithms.noisy_gradient import NoisyGradientAlgorithm, NoisyGradientPrivacy
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.tasks import Task


@dataclass(frozen=True)
class PorterState:
    """Parameters x, tracker v, public copies h and q of both, the mixed copies Σ_j W_ij h_j and Σ_j W_ij q_j, and the
    last private gradient p. All have shape (n, d)."""

    x: Tensor
    v: Tensor
    h: Tensor
    q: Tensor
    mixed_h: Tensor
    mixed_q: Tensor
    p: Tensor


@algorithms.register("porter")
@dataclass(frozen=True, kw_only=True)
class Porter(NoisyGradientAlgorithm[PorterState]):
    """PORTER-DP: gradient tracking with private gradients and compressed messages.

        p = mean of smoothly clipped gradients of records + N(0, σ²)
        v ← v + γ (Σ_j W_ij q_j − q_i) + p − p_old,   send C(v − q),   q ← q + C(v − q)
        x ← x + γ (Σ_j W_ij h_j − h_i) − η v,         send C(x − h),   h ← h + C(x − h)

    Neighbours store the copies h and q, so a node sends only the compressed differences, in two messages per round.
    With `sigma = 0` and `clip_per = "batch"` this is PORTER-GC.

    Formal guarantee: all messages are functions of the private gradients p, one release per round and node.

    Args:
        lr: Step size η.
        clip: Clipping bound τ of the smooth clip τ/(τ + ‖g‖) · g.
        clip_per: Clip each record's gradient ("record") or the batch's mean ("batch").
        sigma: Standard deviation σ of the noise on p; privacy.epsilon sets it instead.
        gamma: Consensus step size γ.
        compressor: Compressor C: identity, top-k, random-k or quantise.
        compression: Parameters of the compressor, such as share or bits.

    References:
        Li and Chi: PORTER, a baseline of the LT-ADMM-DP paper.
    """

    needs: ClassVar[tuple[str, ...]] = ("symmetric", "connected", "static")
    models_are_released: ClassVar[bool] = True
    mixed: ClassVar[tuple[str, ...]] = ("x",)
    refused_options: ClassVar[Mapping[str, str]] = {"momentum": "it tracks the mean gradient with its own v"}
    name: ClassVar[str] = "PORTER-DP"

    gamma: float = 1.0
    compressor: str = "identity"
    compression: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self.name, gamma=self.gamma)
        compressors.build(self.compressor, self.compression)  # raises now if name or parameters are wrong

    @property
    def title(self) -> str:
        return self.name if self.sigma != 0 else "PORTER-GC"

    @property
    def privacy(self) -> PorterPrivacy:
        return PorterPrivacy(self)

    def option_refusal(self, option: str) -> str | None:
        if option == "mixings" and self.compressor != "identity":
            return "a message that was mixed once is no longer compressed"
        return super().option_refusal(option)

    def start(self, task: Task, graph: Graph) -> PorterState:
        x = task.initial()
        zero = torch.zeros_like(x)
        return PorterState(
            x, zero, x, zero, x, zero, zero
        )  # all nodes start from the same x, so mixing leaves it as is

    def round(self, t: int, state: PorterState, task: Task, network: Network) -> PorterState:
        p = self.private_gradient(state.x, t, task)
        v = state.v + self.gamma * (state.mixed_q - state.q) + p - state.p
        sent, received = self._exchange(t, v - state.q, "v", task, network)
        q, mixed_q = state.q + sent, state.mixed_q + received
        x = state.x + self.gamma * (state.mixed_h - state.h) - self.lr * v
        sent, received = self._exchange(t, x - state.h, "x", task, network)
        return PorterState(x, v, state.h + sent, q, state.mixed_h + received, mixed_q, p)

    def models(self, state: PorterState) -> Tensor:
        return state.x

    def _exchange(self, t: int, change: Tensor, purpose: str, task: Task, network: Network) -> tuple[Tensor, Tensor]:
        """Return C(change) and the weighted sum of the neighbours' compressed changes."""
        compress = compressors.build(self.compressor, self.compression)
        sent = compress(change, task.noise, task.nodes, t, purpose)
        (received,) = network.mix(t, sent, row_bytes=compress.row_bytes(sent))
        return sent, received


@dataclass(frozen=True)
class PorterPrivacy(NoisyGradientPrivacy):
    """One noised gradient per round and node. Gradient tracking keeps the sum of v, unless messages are compressed."""

    algorithm: Porter

    @property
    def refuses_pairs(self) -> str | None:
        if self.algorithm.sigma == 0:
            return "it adds no noise"
        return None if self.algorithm.compressor == "identity" else "compressed messages do not keep the sum"
