"""Sensitivity modes of DPPS: four ways to determine how far one node's data can move its next message.

A mode returns a bound S before the noise of a round is drawn. What later rounds need is kept in its `memory`
(n, width); a synchronisation, which gives all nodes the same vector, sets the memory to 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tacit.device import l1_norms
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Bounded

_ROUNDING_TOLERANCE = 1.01  # vectors and distances are rounded, so the real sensitivity may exceed its bound slightly
MAX_TABLE_ROUNDS = 64  # up to this many rounds between synchronisations, all coefficients τ are tabulated


class SensitivityMode(ABC):
    """One way to determine the sensitivity S of DPPS.

    Attributes:
        name: The value of `sensitivity` in a config.
        width: How many numbers per node are kept from round to round.
        depends_on_data: Whether S depends on private data beyond the messages; then the noise proves nothing.
    """

    name: ClassVar[str]
    depends_on_data: ClassVar[bool] = False
    width: int = 0

    def start(self, s: Tensor) -> Tensor:
        """Return the memory (n, width) before round 0, in which the nodes' vectors are s."""
        return torch.zeros(len(s), self.width, dtype=torch.float64)

    @abstractmethod
    def bound(self, memory: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        """Return S for the vectors `half` = s + e: one value for all nodes, or (n,) if audit trials differ."""

    def next_memory(
        self, t: int, memory: Tensor, e: Bounded, displacement: Tensor, noise: Tensor, network: Network
    ) -> Tensor:
        """Return the memory after round t.

        Args:
            t: The round.
            memory: The memory before the round.
            e: The round's perturbation.
            displacement: ‖e + γ_n n‖₁ (n,).
            noise: ‖γ_n n‖₁ (n,).
            network: The network, for modes that exchange norms.
        """
        return memory

    @abstractmethod
    def holds(self, real: float, bound: float) -> bool:
        """Return whether noise scaled to `bound` protects if the real sensitivity is `real` (NaN: not measured)."""


@dataclass(frozen=True)
class RealSensitivity(SensitivityMode):
    """max_ij ‖s½_i − s½_j‖₁, measured with a view of all nodes; simulation only.

    It depends on the data, so noise that is scaled to it proves nothing.
    """

    name: ClassVar[str] = "real"
    depends_on_data: ClassVar[bool] = True

    def bound(self, memory: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        return network.diameter(half)

    def holds(self, real: float, bound: float) -> bool:
        return False


@dataclass(frozen=True)
class EstimatedSensitivity(SensitivityMode):
    """The paper's Eq. 22 with hand-set constants C′ and λ; every node broadcasts its S_i.

        S_i(0) = 2C′(‖s_i(0)‖₁ + ‖e_i(0)‖₁),   S_i(t) = λ S_i(t−1) + 2C′(‖e_i(t)‖₁ + λ γ_n ‖n_i(t−1)‖₁)

    Noise that is scaled to it proves nothing. The estimate can be too small, which only a simulation detects. Even if
    it is not, S_i depends on the data, is broadcast without noise and may be below the bound on e.

    Args:
        c: The constant C′.
        lam: The constant λ.
        start_norm: Whether S_i(0) includes ‖s_i(0)‖₁. The authors' code leaves it out.
    """

    c: float = 0.78
    lam: float = 0.55
    start_norm: bool = True
    name: ClassVar[str] = "estimated"
    depends_on_data: ClassVar[bool] = True
    width: int = 1

    def start(self, s: Tensor) -> Tensor:
        return 2 * self.c * l1_norms(s)[:, None] * self.start_norm

    def bound(self, memory: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        return network.max(self._per_node(memory, e))

    def next_memory(
        self, t: int, memory: Tensor, e: Bounded, displacement: Tensor, noise: Tensor, network: Network
    ) -> Tensor:
        return (self.lam * (self._per_node(memory, e) + 2 * self.c * noise))[:, None]

    def holds(self, real: float, bound: float) -> bool:
        return False

    def _per_node(self, memory: Tensor, e: Bounded) -> Tensor:
        """Return S_i (n,)."""
        return memory[:, 0] + 2 * self.c * l1_norms(e.use_locally())


@dataclass(frozen=True)
class CertifiedSensitivity(SensitivityMode):
    """A bound that holds on this graph for all data, from the Dobrushin coefficients τ of its matrix products.

        S(t) = τ(Φ(t,0)) D(0) + 2 Σ_{k<t} τ(Φ(t,k)) max_i ‖e_i(k) + γ_n n_i(k)‖₁ + Δ,   Φ(t,k) = W(t−1)…W(k)

    Δ bounds how far replacing a node's data moves e; with a clip it is public. e + γ_n n is the difference between a
    node's message and the mix of its neighbours' earlier messages, so broadcasting its norm reveals nothing new.

    Args:
        table: `table[k mod period, m]` = τ(Φ(k+m, k)). If `geometric`, every row is (C′, λ) with τ(Φ(k+m, k)) ≤ C′ λ^m.
        geometric: Which of the two the table holds.
        diameter: D(0), the largest L1 distance between two nodes' vectors at the start.
    """

    table: Tensor
    geometric: bool = False
    diameter: float = 0.0
    name: ClassVar[str] = "certified"

    @classmethod
    def for_graph(cls, graph: Graph, rounds: int, diameter: float = 0.0) -> CertifiedSensitivity:
        """Return the mode for at most `rounds` rounds without synchronisation."""
        if graph.period is None:
            raise TacitError(
                f'no sensitivity can be certified on "{graph.name}", which is not periodic: use another graph'
            )
        if rounds <= MAX_TABLE_ROUNDS:
            return cls(torch.from_numpy(graph.contractions(rounds - 1)), False, diameter)
        return cls(torch.tensor([graph.certified_constants()], dtype=torch.float64), True, diameter)

    @property
    def width(self) -> int:  # type: ignore[override]
        """What the rounds so far contribute to this round and, without `geometric`, to each later one."""
        return 1 if self.geometric else self.table.shape[1]

    def start(self, s: Tensor) -> Tensor:
        contributions = self.table[0, : self.width] * self.diameter
        return contributions.repeat(len(s), 1)

    def bound(self, memory: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        return memory[:, 0] + _public_bound(e, self.name)

    def next_memory(
        self, t: int, memory: Tensor, e: Bounded, displacement: Tensor, noise: Tensor, network: Network
    ) -> Tensor:
        added = 2 * network.max(displacement).reshape(-1, 1)
        row = self.table[t % len(self.table)]
        if self.geometric:
            return row[1] * (memory + row[0] * added)
        shifted = torch.cat([memory[:, 1:], torch.zeros_like(memory[:, :1])], 1)
        return shifted + added * torch.cat([row[1:], torch.zeros(1, dtype=row.dtype)])

    def holds(self, real: float, bound: float) -> bool:
        return not real > _ROUNDING_TOLERANCE * bound  # it can be larger only if the nodes started apart


@dataclass(frozen=True)
class ReplacementSensitivity(SensitivityMode):
    """The bound on e: how far replacing a node's data moves its next message, given all earlier messages.

    Node-level differential privacy needs no more. The bound is far smaller than the distance between two nodes, which
    the paper hides as well.
    """

    name: ClassVar[str] = "replacement"

    def bound(self, memory: Tensor, half: Tensor, e: Bounded, network: Network) -> float:
        return _public_bound(e, self.name)

    def holds(self, real: float, bound: float) -> bool:
        return True


@dataclass(frozen=True)
class UnknownSensitivity(SensitivityMode):
    """Stands for a mode that is only recorded for comparison and cannot be computed, or only at a high cost."""

    name: ClassVar[str] = "unknown"

    def bound(self, memory: Tensor, half: Tensor, e: Bounded, network: Network) -> float:
        return math.nan

    def holds(self, real: float, bound: float) -> bool:
        return False


def _public_bound(e: Bounded, mode: str) -> float:
    """Return the public bound on how far replacing a node's data moves e."""
    if e.sensitivity is None:
        raise TacitError(f'sensitivity = "{mode}" needs a public bound on every perturbation: set clip')
    bound = float(e.sensitivity.max())
    if not math.isfinite(bound):
        raise TacitError(f"the bound on a perturbation must be finite, got {bound}: set a smaller clip")
    return bound
