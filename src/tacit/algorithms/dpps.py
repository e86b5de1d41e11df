"""DPPS: perturbed push-sum with private messages, a protocol for algorithms that perturb a shared vector."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.sensitivity import SensitivityMode
from tacit.device import double_l1_norms, l1_norms
from tacit.errors import TacitError
from tacit.networks import Network
from tacit.privacy import Array, Bounded, Exact, Laplace, Mechanism, Sampling, Unproven

C = TypeVar("C", bound="DPPSState")
_MAX_SENSITIVITY = 1e15  # beyond it the squared noise overflows single precision
MAX_MEASURED_NODES = 64  # a simulation measures all pairs of nodes in every round up to this many nodes


@dataclass(frozen=True)
class DPPSState:
    """Shared vector s (n, d_s) and push-sum weight a (n,); the nodes agree on y = s / a.

    `memory` is what the sensitivity modes keep. `sensitivities` (n, 1 + modes) are those of the last round: the real
    one (NaN if not measured), then that of each mode, the mode in use first.
    """

    s: Tensor
    a: Tensor
    memory: Tensor
    sensitivities: Tensor

    @property
    def y(self) -> Tensor:
        return self.s / self.a[:, None]


@dataclass(frozen=True)
class DPPS:
    """Differentially private perturbed push-sum with node-level privacy (Algorithm 1).

        s½ = s + e,   n ~ Laplace(0, S/b) per coordinate, S the sensitivity of s½,   send s½ + γ_n n and a
        s, a ← Σ_j W_ij (s½_j + γ_n n_j, a_j),   y = s / a

    Every `sync_every` rounds the noised vectors are averaged over the whole network instead.

    Args:
        noise: Noise multiplier γ_n / b, one for all nodes or one per node; None sends s½ without noise.
        modes: The first one gives S. A simulation records the others for comparison.
        sync_every: Number of rounds from one synchronisation to the next; None or 0 never synchronises.

    Formal guarantee:

    - Given all earlier messages, the data of a node affect its next message through e only.
    - Replacing these data moves e by at most `e.sensitivity` ≤ S in L1, so one round is (b/γ_n, 0)-DP for a node.
    - This needs an S that follows from messages and public numbers. Otherwise the release is recorded as unproven.

    References:
        Zhou, Xue, Chen: PartPSP, Algorithm 1 and Theorem 1.
    """

    noise: float | Array | None
    modes: tuple[SensitivityMode, ...]
    sync_every: int | None = None

    def start(self, s: Tensor) -> DPPSState:
        """Return the state before round 0, in which the nodes' vectors are s (n, d_s)."""
        memory = torch.cat([mode.start(s) for mode in self.modes], 1)
        sensitivities = torch.full((len(s), 1 + len(self.modes)), math.nan, dtype=torch.float64)
        return DPPSState(s, s.new_ones(len(s)), memory, sensitivities)

    def round(self, t: int, state: C, e: Bounded, network: Network) -> C:
        """Return the state after round t with the perturbation e.

        `e.sensitivity`, which is twice a public bound on ‖e‖₁, must be the same at all nodes.
        """
        if self.noise is not None:
            e = _within_bound(e)
        half = state.s + e.use_locally()  # sensitivity modes and measurements read it; messages add noise to it
        memory = torch.split(state.memory, [mode.width for mode in self.modes], 1)
        sensitivities = self._sensitivities(memory, half, e, network)
        bound = sensitivities[:, 1].numpy()
        value = Bounded(half.clone(), bound, "l1", node_level_sampling(e), e.step, e.purpose, e.context, "node")
        sent = self._mechanism(sensitivities).release(value)
        if self.sync_every and (t + 1) % self.sync_every == 0:
            s, a = network.mean(sent).expand_as(sent).contiguous(), torch.ones_like(state.a)
            next_memory = torch.zeros_like(state.memory)
        else:
            s, a = network.mix(t, sent, state.a)
            next_memory = self._next_memory(t, memory, e, state.s, half, sent, network)
        return replace(state, s=s, a=a, memory=next_memory, sensitivities=sensitivities)

    def planned_mechanism(self) -> Mechanism:
        """Return the mechanism of every round whose sensitivity bound holds."""
        if self.noise is None:
            return Exact()
        return Unproven(Laplace(self.noise)) if self.modes[0].depends_on_data else Laplace(self.noise)

    def _mechanism(self, sensitivities: Tensor) -> Mechanism:
        planned = self.planned_mechanism()
        real, bound = float(sensitivities[:, 0].max()), float(sensitivities[:, 1].min())
        return Unproven(planned) if isinstance(planned, Laplace) and not self.modes[0].holds(real, bound) else planned

    def _sensitivities(self, memory: tuple[Tensor, ...], half: Tensor, e: Bounded, network: Network) -> Tensor:
        """Return the real sensitivity and that of each mode (n, 1 + modes); NaN for what is not measured here."""
        (mode, own_memory), *others = zip(self.modes, memory, strict=True)
        bound = torch.as_tensor(mode.bound(own_memory, half, e, network))
        if self.noise is not None and not bool((bound < _MAX_SENSITIVITY).all()):
            raise TacitError(
                f"the sensitivity exceeds {_MAX_SENSITIVITY:g}, because noise and sensitivity increase each other: "
                'set a smaller sync_every, add less noise, or use sensitivity = "replacement"'
            )
        columns: list[float | Tensor] = [math.nan, bound, *[math.nan] * len(others)]
        if self._measures(network):
            with network.unmetered():
                compared = [other.bound(its_memory, half, e, network) for other, its_memory in others]
                columns = [network.diameter(half), bound, *compared]
        return torch.stack([torch.as_tensor(column, dtype=torch.float64).expand(len(half)) for column in columns], 1)

    def _next_memory(
        self, t: int, memory: tuple[Tensor, ...], e: Bounded, s: Tensor, half: Tensor, sent: Tensor, network: Network
    ) -> Tensor:
        displacement, noise, size = torch.stack([double_l1_norms(v) for v in (sent - s, sent - half, sent)]).cpu()
        # Rounding may hide this much of the distance between two vectors.
        displacement += 4 * torch.finfo(sent.dtype).eps * size
        parts = [self.modes[0].next_memory(t, memory[0], e, displacement, noise, network)]
        with network.unmetered():
            for mode, own in zip(self.modes[1:], memory[1:], strict=True):
                kept = mode.next_memory(t, own, e, displacement, noise, network) if self._measures(network) else own
                parts.append(kept)
        return torch.cat(parts, 1)

    def _measures(self, network: Network) -> bool:
        """Whether all pairs of nodes are measured, for comparison."""
        return network.omniscient and network.graph.nodes <= MAX_MEASURED_NODES


def _within_bound(e: Bounded) -> Bounded:
    """Return e with rows scaled down to half their sensitivity in L1, which they exceed by rounding errors at most.

    A perturbation within the bound stays as it is, bit for bit. An error would reveal that a row exceeds it.
    """
    if e.norm != "l1":
        raise TacitError(f'DPPS needs perturbations bounded in L1, got {e.norm}: clip with norm = "l1"')
    if e.sensitivity is None:
        return e
    value, bound = e.use_locally(), torch.from_numpy(e.sensitivity / 2)
    norms = l1_norms(value)
    factors = torch.where(norms > bound, bound / norms * (1 - 4 * torch.finfo(value.dtype).eps), 1.0)
    return replace(e, _value=value * factors.to(value.dtype).to(value.device)[:, None])


def node_level_sampling(e: Bounded) -> Sampling:
    """Return how a DPPS message is accounted: all data of a node may be replaced, whatever batch was drawn."""
    return Sampling("none", np.ones(len(e.context.nodes)), "replace-one")
