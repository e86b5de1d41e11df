"""DPPS: push-sum whose messages are private, a protocol that any algorithm with perturbations can stand on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.sensitivity import Estimated, Real, Sensitivity
from tacit.errors import TacitError
from tacit.networks import Network
from tacit.privacy.bounded import Bounded, Sampling
from tacit.privacy.ledger import Array
from tacit.privacy.mechanism import Exact, Laplace, Mechanism, Unproven

C = TypeVar("C", bound="Consensus")
_BEYOND = 1e15  # a sensitivity whose noise, squared and summed, single precision can hardly hold
WATCHED = 64  # nodes up to which a simulation looks at every pair of them in every round


@dataclass(frozen=True)
class Consensus:
    """Shared vector s (n, d_s) and push-sum weight a (n,); y = s / a is what the nodes agree on.

    `carry` is what the sensitivities remember; `seen` (n, 1 + modes) is the last round's real sensitivity (NaN where
    nobody looked) and what each mode said, the one in use first.
    """

    s: Tensor
    a: Tensor
    carry: Tensor
    seen: Tensor

    @property
    def y(self) -> Tensor:
        return self.s / self.a[:, None]


@dataclass(frozen=True)
class DPPS:
    """Differentially private perturbed push-sum (Zhou, Xue, Chen: Algorithm 1), with node-level privacy.

        s½ = s + e,   n ~ Laplace(0, S/b) per coordinate, S the sensitivity of s½,   send s½ + γ_n n and a
        s, a ← Σ_j W_ij (s½_j + γ_n n_j, a_j),   y = s / a

    `noise` is γ_n / b, one for all nodes or one each; None sends s½ as it is. Every `sync_every` rounds the noised
    vectors are averaged over the whole network instead. The first of `modes` gives S; the others are watched.

    Formal guarantee: all earlier messages being known, the data of a node reach its next one through e alone, and
    replacing them moves e by at most `e.sensitivity` ≤ S in L1. So a round is (b/γ_n, 0)-DP where S follows from
    messages and public numbers; where it does not, the release is written down as unproven.
    """

    noise: float | Array | None
    modes: tuple[Sensitivity, ...]
    sync_every: int | None = None

    def start(self, s: Tensor) -> Consensus:
        """Before round 0, with the nodes' vectors (n, d_s)."""
        carry = torch.cat([mode.start(s) for mode in self.modes], 1)
        seen = torch.full((len(s), 1 + len(self.modes)), math.nan, dtype=torch.float64)
        return Consensus(s, torch.ones(len(s), dtype=s.dtype), carry, seen)

    def round(self, t: int, state: C, e: Bounded, network: Network) -> C:
        """One round with the perturbation e; `e.sensitivity`, twice a public bound on ‖e‖₁, is alike at all nodes."""
        if self.noise is not None:
            _check(e)
        half = state.s + e.value
        carry = torch.split(state.carry, [mode.width for mode in self.modes], 1)
        seen = self._look(carry, half, e, network)
        value = Bounded(half.clone(), seen[:, 1].numpy(), "l1", node_level(e), e.step, e.purpose, e.context)
        sent = self._mechanism(seen).release(value)
        if self.sync_every and (t + 1) % self.sync_every == 0:
            s, a = network.mean(sent).expand_as(sent).contiguous(), torch.ones_like(state.a)
            after = torch.zeros_like(state.carry)
        else:
            s, a = network.mix(t, sent, state.a)
            after = self._carried(t, carry, e, state.s, half, sent, network)
        return replace(state, s=s, a=a, carry=after, seen=seen)

    def planned(self) -> Mechanism:
        """What a round releases by, unless its sensitivity turns out not to hold."""
        if self.noise is None:
            return Exact()
        follows_data = isinstance(self.modes[0], Real | Estimated)
        return Unproven(Laplace(self.noise)) if follows_data else Laplace(self.noise)

    def _mechanism(self, seen: Tensor) -> Mechanism:
        planned = self.planned()
        if isinstance(planned, Laplace) and not self.modes[0].holds(float(seen[:, 0].max()), float(seen[:, 1].min())):
            return Unproven(planned)
        return planned

    def _look(self, carry: tuple[Tensor, ...], half: Tensor, e: Bounded, network: Network) -> Tensor:
        """The real sensitivity and each mode's (n, 1 + modes), as far as they can be known here."""
        first, *watched = zip(self.modes, carry, strict=True)
        bound = torch.as_tensor(first[0].bound(first[1], half, e, network))
        if self.noise is not None and not bool((bound < _BEYOND).all()):
            raise TacitError(
                "noise that adds to the sensitivity, which adds to the noise, has grown out of bounds: "
                'set a smaller sync_every, add less noise, or use sensitivity = "replacement"'
            )
        found: list[float | Tensor] = [math.nan, bound, *[math.nan] * len(watched)]
        if self._watches(network):
            with network.unmetered():
                beside = (mode.bound(own, half, e, network) for mode, own in watched)
                found = [network.diameter(half), bound, *beside]
        return torch.stack([torch.as_tensor(each, dtype=torch.float64).expand(len(half)) for each in found], 1)

    def _carried(
        self, t: int, carry: tuple[Tensor, ...], e: Bounded, s: Tensor, half: Tensor, sent: Tensor, network: Network
    ) -> Tensor:
        moved, noise = ((sent - before).abs().sum(1, dtype=torch.float64) for before in (s, half))
        # What rounding may have hidden of the distance between two vectors.
        moved += 4 * torch.finfo(sent.dtype).eps * sent.abs().sum(1, dtype=torch.float64)
        after = [self.modes[0].carried(t, carry[0], e, moved, noise, network)]
        with network.unmetered():
            for mode, own in zip(self.modes[1:], carry[1:], strict=True):
                after.append(mode.carried(t, own, e, moved, noise, network) if self._watches(network) else own)
        return torch.cat(after, 1)

    def _watches(self, network: Network) -> bool:
        return network.omniscient and network.graph.nodes <= WATCHED


def _check(e: Bounded) -> None:
    """A bound in another norm, or on what one record moves, would pass for one on all the data of a node."""
    if e.norm != "l1":
        raise TacitError('DPPS takes perturbations bounded in L1, not in L2: clip with norm = "l1"')
    if e.sensitivity is not None:
        norms = e.value.abs().sum(1, dtype=torch.float64).numpy()
        if (norms > e.sensitivity / 2 * (1 + 1e-4)).any():
            raise TacitError("a perturbation is larger than half its sensitivity: that is no bound for a whole node")


def node_level(e: Bounded) -> Sampling:
    """Whatever batches were drawn, all the data of a node are at stake."""
    return Sampling("none", np.ones(len(e.context.nodes)), "replace-one")
