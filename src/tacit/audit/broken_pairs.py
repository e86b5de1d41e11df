"""Gossip with paired noise, and three mistakes with it that the audit must find."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from torch import Tensor

from tacit.algorithms import Nodes
from tacit.audit.broken_mechanisms import CorrectGossip, GossipPrivacy
from tacit.networks import Network
from tacit.privacy import Bounded, Paired, Release, Sampling, solve_pairs
from tacit.tasks import Clip, Task

_NODES = 3  # per trial
_EDGES = np.array(list(combinations(range(_NODES), 2)))
_RATIO = 3.0


@dataclass(frozen=True, kw_only=True)
class PairedGossip(CorrectGossip):
    """Gossip with paired noise among the nodes of a trial, accounted against an eavesdropper, without colluders."""

    title = "gossip with paired noise"

    @property
    def privacy(self) -> PairedGossipPrivacy:
        return PairedGossipPrivacy(self)

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        return self.mechanism(task.nodes, gradient.sensitivity).release(gradient)

    def mechanism(self, nodes: Nodes, sensitivity: object) -> Paired:
        """The noise of all trials; without a sensitivity, for accounting only."""
        unit = np.ones(_NODES) if sensitivity is None else np.asarray(sensitivity, np.float64)[:_NODES]
        plan = solve_pairs(np.full(_NODES, self.multiplier), unit, _EDGES, 0, _RATIO)
        return Paired(plan.replicated(len(nodes) // _NODES), nodes)


@dataclass(frozen=True)
class PairedGossipPrivacy(GossipPrivacy):
    """One gradient with paired noise per round and node."""

    algorithm: PairedGossip

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(t, "gradient", self.algorithm.mechanism(nodes, None), sampling)]


class PairsWithoutOwnNoise(PairedGossip):
    """Nodes leave out their own noise: the noise of pairs cancels in the sum of all messages, and the sum is exact."""

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        exact = gradient._value.clone()
        mechanism = self.mechanism(task.nodes, gradient.sensitivity)
        mechanism.release(gradient)
        plan, step = mechanism.plan, gradient.step
        least = float(plan.own.min())
        return exact + gradient.context.pair_noise.sum(
            plan, task.nodes, gradient.purpose, step, plan.pair, least, like=exact
        )


class RevealedSeeds(PairedGossip):
    """Nodes reveal the seeds of their pairs, as secure aggregation does to recover from a node that drops out.

    If the message arrives after all, only the own noise protects it.
    """

    def send(self, t: int, x: Tensor, task: Task, network: Network) -> Tensor:
        mixed = super().send(t, x, task, network)
        plan = self.mechanism(task.nodes, task.sensitivity(Clip(1.0))).plan
        least, context = float(plan.own.min()), task.release_context
        network.mix(t, context.pair_noise.sum(plan, task.nodes, "gradient", t, plan.pair, least, like=x))
        return mixed


class ReplayedStep(PairedGossip):
    """A node that lost its journal repeats a step with another value: the noise cancels in the difference."""

    def send(self, t: int, x: Tensor, task: Task, network: Network) -> Tensor:
        before = x + task.gradient(x, t, Clip(1.0), "replay")._value
        task.ledger.close(t, "replay")
        network.mix(t, before)
        return super().send(t, x, task, network)
