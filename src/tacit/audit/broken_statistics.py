"""Gossip that releases a statistic of its records before it trains, and two mistakes with its noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from tacit.algorithms import Nodes
from tacit.audit.broken_mechanisms import CorrectGossip, GossipPrivacy, GossipState
from tacit.networks import Network
from tacit.privacy import Bounded, Gaussian, Release, Sampling
from tacit.tasks import Gram, Mean, Statistic, Task


@dataclass(frozen=True, kw_only=True)
class GramGossip(CorrectGossip):
    """Gossip that also releases the second moments of all records of a node, in round 0."""

    title = "gossip with second moments"
    statistic: ClassVar[Statistic] = Gram()

    @property
    def privacy(self) -> StatisticGossipPrivacy:
        return StatisticGossipPrivacy(self)

    def round(self, t: int, state: GossipState, task: Task, network: Network) -> GossipState:
        if t == 0:
            network.mean(self.add_statistic_noise(task.statistic(self.statistic, t), task))
        return super().round(t, state, task, network)

    def add_statistic_noise(self, statistic: Bounded, task: Task) -> Tensor:
        return Gaussian(self.multiplier).release(statistic)


@dataclass(frozen=True)
class StatisticGossipPrivacy(GossipPrivacy):
    """A statistic of all records in round 0, and one noised gradient per round and node."""

    algorithm: GramGossip

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        everything = Sampling("none", np.ones(len(nodes)), sampling.relation)
        first = [Release(t, self.algorithm.statistic.name, Gaussian(self.algorithm.multiplier), everything)]
        return [*(first if t == 0 else []), *super().releases(t, nodes, sampling)]


class HalvedGramSensitivity(GramGossip):
    """The noise of the second moments is scaled to half of what one record can change."""

    def add_statistic_noise(self, statistic: Bounded, task: Task) -> Tensor:
        assert statistic.sensitivity is not None
        return super().add_statistic_noise(replace(statistic, sensitivity=statistic.sensitivity / 2), task)


class MeanGossip(GramGossip):
    """Gossip that also releases the sum of all records of a node, in round 0."""

    title = "gossip with a mean"
    statistic: ClassVar[Statistic] = Mean()


class NoiseOfTheMean(MeanGossip):
    """The noise is scaled to the change of the mean of a node's records, but it is added to their sum."""

    def add_statistic_noise(self, statistic: Bounded, task: Task) -> Tensor:
        assert statistic.sensitivity is not None
        return super().add_statistic_noise(replace(statistic, sensitivity=statistic.sensitivity / task.sizes), task)
