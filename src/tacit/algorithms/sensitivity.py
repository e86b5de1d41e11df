"""How far apart the nodes' vectors can be: the sensitivity of a DPPS message, known in four ways.

Each mode answers `bound` before a round's noise, and keeps in `carry` (n, width) what later rounds need of the round;
a synchronisation, which brings all nodes together, sets it to 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Bounded

_ROUNDED = 1.01  # by how much the real sensitivity may seem to pass its bound: vectors and distances are rounded
_EXACT = 64  # rounds between synchronisations up to which every τ is looked up; beyond, a geometric bound of them


class Sensitivity(ABC):
    """One way to know S. `width` numbers a node are carried from round to round."""

    name: ClassVar[str]
    width: int = 0

    def start(self, s: Tensor) -> Tensor:
        return torch.zeros(len(s), self.width, dtype=torch.float64)

    @abstractmethod
    def bound(self, carry: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        """S for the vectors `half` = s + e, the same at every node of a network; as (n,), where there are several."""

    def carried(self, t: int, carry: Tensor, e: Bounded, moved: Tensor, noise: Tensor, network: Network) -> Tensor:
        """The carry after round t, in which ‖e + γ_n n‖₁ was `moved` and ‖γ_n n‖₁ was `noise`, both (n,)."""
        return carry

    @abstractmethod
    def holds(self, real: float, bound: float) -> bool:
        """Whether noise scaled to `bound` protects, where the real sensitivity is `real` (NaN: nobody knows)."""


@dataclass(frozen=True)
class Real(Sensitivity):
    """max_ij ‖s½_i − s½_j‖₁, by one who sees all. It depends on the data, so noise that follows it proves nothing."""

    name: ClassVar[str] = "real"

    def bound(self, carry: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        return network.diameter(half)

    def holds(self, real: float, bound: float) -> bool:
        return False


@dataclass(frozen=True)
class Estimated(Sensitivity):
    """The paper's Eq. 22, with constants C′ and λ set by hand; every node broadcasts its S_i.

        S_i(0) = 2C′(‖s_i(0)‖₁ + ‖e_i(0)‖₁),   S_i(t) = λ S_i(t−1) + 2C′(‖e_i(t)‖₁ + λ γ_n ‖n_i(t−1)‖₁)

    It can be too small, which only a simulation notices. Where it is not, it still follows the data: S_i is told to all
    without noise of its own, and may lie below the bound on e. So noise that follows it proves nothing.
    The authors' code leaves ‖s_i(0)‖₁ out (`start_norm` = False).
    """

    c: float = 0.78
    lam: float = 0.55
    start_norm: bool = True
    name: ClassVar[str] = "estimated"
    width: int = 1

    def start(self, s: Tensor) -> Tensor:
        return 2 * self.c * _norms(s)[:, None] * self.start_norm

    def bound(self, carry: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        return network.max(self._own(carry, e))

    def carried(self, t: int, carry: Tensor, e: Bounded, moved: Tensor, noise: Tensor, network: Network) -> Tensor:
        return (self.lam * (self._own(carry, e) + 2 * self.c * noise))[:, None]

    def holds(self, real: float, bound: float) -> bool:
        return False

    def _own(self, carry: Tensor, e: Bounded) -> Tensor:
        return carry[:, 0] + 2 * self.c * _norms(e.value)


@dataclass(frozen=True)
class Certified(Sensitivity):
    """A bound that holds on this graph whatever the data are, from the Dobrushin coefficients τ of its products.

        S(t) = τ(Φ(t,0)) D(0) + 2 Σ_{k<t} τ(Φ(t,k)) max_i ‖e_i(k) + γ_n n_i(k)‖₁ + Δ,   Φ(t,k) = W(t−1)…W(k)

    Δ bounds how far replacing a node's data moves e, which a clip makes public, and e + γ_n n is what a node's message
    differs by from its neighbours' earlier ones: broadcasting its norm tells nothing that the messages do not.
    `table[k mod period, m]` is τ(Φ(k+m, k)); or, `geometric`, every row is (C′, λ) with τ(Φ(k+m, k)) ≤ C′ λ^m.
    """

    table: Tensor
    geometric: bool = False
    diameter: float = 0.0
    name: ClassVar[str] = "certified"

    @classmethod
    def for_graph(cls, graph: Graph, stretch: int, diameter: float = 0.0) -> Certified:
        """For stretches of so many rounds without synchronisation, from vectors at most `diameter` apart."""
        if graph.period is None:
            raise TacitError(
                f'"{graph.name}" never repeats, so no sensitivity can be certified on it: use a periodic graph'
            )
        if stretch <= _EXACT:
            return cls(torch.from_numpy(graph.contractions(stretch - 1)), False, diameter)
        return cls(torch.tensor([graph.certified_constants()], dtype=torch.float64), True, diameter)

    @property
    def width(self) -> int:  # type: ignore[override]
        """What the rounds so far contribute to this round and to each that follows."""
        return 1 if self.geometric else self.table.shape[1]

    def start(self, s: Tensor) -> Tensor:
        ahead = self.table[0, : self.width] * self.diameter
        return ahead.repeat(len(s), 1)

    def bound(self, carry: Tensor, half: Tensor, e: Bounded, network: Network) -> float | Tensor:
        return carry[:, 0] + _public(e, self.name)

    def carried(self, t: int, carry: Tensor, e: Bounded, moved: Tensor, noise: Tensor, network: Network) -> Tensor:
        added = 2 * network.max(moved).reshape(-1, 1)
        row = self.table[t % len(self.table)]
        if self.geometric:
            return row[1] * (carry + row[0] * added)
        later = torch.cat([carry[:, 1:], torch.zeros_like(carry[:, :1])], 1)
        return later + added * torch.cat([row[1:], torch.zeros(1, dtype=row.dtype)])

    def holds(self, real: float, bound: float) -> bool:
        return not real > _ROUNDED * bound  # more would mean that the nodes did not start together


@dataclass(frozen=True)
class Replacement(Sensitivity):
    """Only how far replacing a node's data moves its next message, all earlier ones being known: the bound on e.

    It is all that node-level differential privacy asks for, and far less than the distance between two nodes, which
    the paper hides as well.
    """

    name: ClassVar[str] = "replacement"

    def bound(self, carry: Tensor, half: Tensor, e: Bounded, network: Network) -> float:
        return _public(e, self.name)

    def holds(self, real: float, bound: float) -> bool:
        return True


@dataclass(frozen=True)
class Unknown(Sensitivity):
    """What cannot be told here, or not at a bearable cost."""

    name: ClassVar[str] = "unknown"

    def bound(self, carry: Tensor, half: Tensor, e: Bounded, network: Network) -> float:
        return math.nan

    def holds(self, real: float, bound: float) -> bool:
        return False


def _norms(x: Tensor) -> Tensor:
    return x.abs().sum(1, dtype=torch.float64)


def _public(e: Bounded, mode: str) -> float:
    if e.sensitivity is None:
        raise TacitError(f'sensitivity = "{mode}" needs a clip bound, which says publicly how large a perturbation is')
    bound = float(e.sensitivity.max())
    if not math.isfinite(bound):
        raise TacitError(f"a perturbation is bounded by {bound}, which says nothing: set a smaller clip bound")
    return bound
