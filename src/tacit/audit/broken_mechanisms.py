"""A correct algorithm, and copies of it with one known mistake each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms import Algorithm, Nodes, PrivacyPlan
from tacit.audit.canary_task import ABSENT
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Bounded, Draw, Gaussian, Release, Sampling
from tacit.tasks import Clip, Task

_LR = 0.1


@dataclass(frozen=True)
class GossipState:
    """The parameters x (n, d)."""

    x: Tensor


@dataclass(frozen=True, kw_only=True)
class CorrectGossip(Algorithm[GossipState]):
    """x ← Σ_j W_ij (x_j − μ ĝ_j), ĝ the mean of clipped gradients with Gaussian noise. Subclasses break one step.

    The ledger notices the use of `Bounded.value`, and would give no guarantee. The subclasses therefore use the
    private attribute: the audit must find their mistakes without the ledger's help.
    """

    title: ClassVar[str] = "gossip"
    multiplier: float = 2.0

    @property
    def privacy(self) -> GossipPrivacy:
        return GossipPrivacy(self)

    def start(self, task: Task, graph: Graph) -> GossipState:
        return GossipState(task.initial())

    def round(self, t: int, state: GossipState, task: Task, network: Network) -> GossipState:
        noised = self.add_noise(self.gradient(t, state.x, task), task)
        return GossipState(self.send(t, state.x - _LR * noised, task, network))

    def gradient(self, t: int, x: Tensor, task: Task) -> Bounded:
        return task.gradient(x, t, Clip(1.0))

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        return Gaussian(self.multiplier).release(gradient)

    def send(self, t: int, x: Tensor, task: Task, network: Network) -> Tensor:
        return network.mix(t, x)[0]

    def models(self, state: GossipState) -> Tensor:
        return state.x


@dataclass(frozen=True)
class GossipPrivacy(PrivacyPlan):
    """One noised gradient per round and node."""

    algorithm: CorrectGossip

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(t, "gradient", Gaussian(self.algorithm.multiplier), sampling)]


class FreshNoisePerNeighbour(CorrectGossip):
    """Fresh noise for every neighbour, recorded once: the neighbours' messages together contain less noise."""

    def send(self, t: int, x: Tensor, task: Task, network: Network) -> Tensor:
        edges = network.edges(t)
        scale = _LR * self.multiplier * task.sensitivity(Clip(1.0))
        fresh = torch.zeros(len(edges.source), x.shape[1], dtype=x.dtype)
        task.noise.gaussian_(fresh, scale[edges.row.numpy()], "neighbours", np.arange(len(fresh)), t)
        received = network.swap(t, x[edges.row] + fresh)
        return (x + x.new_zeros(x.shape).index_add_(0, edges.row, received)) / 3

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        exact = gradient._value.clone()
        super().add_noise(gradient, task)
        return exact


class MissingBatchFactor(CorrectGossip):
    """Noise of standard deviation σC/B, meant for the mean, is added to the sum, which is then divided by B."""

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        assert gradient.sensitivity is not None
        return super().add_noise(replace(gradient, sensitivity=gradient.sensitivity / task.sampler.batch), task)


class BatchClipping(CorrectGossip):
    """The mean of a batch is clipped, but accounted as if every record's gradient were clipped."""

    def gradient(self, t: int, x: Tensor, task: Task) -> Bounded:
        return replace(task.gradient(x, t, Clip(1.0, per="batch")), sensitivity=task.sensitivity(Clip(1.0)))


class HalvedSensitivity(CorrectGossip):
    """Replacing a record changes the sum by up to 2C, but the noise is scaled to C."""

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        assert gradient.sensitivity is not None
        return super().add_noise(replace(gradient, sensitivity=gradient.sensitivity / 2), task)


class RealisedBatchSize(CorrectGossip):
    """The sum of a Poisson batch is divided by the realised batch size instead of the expected one."""

    def gradient(self, t: int, x: Tensor, task: Task) -> Bounded:
        gradient, drawn = task.gradient(x, t, Clip(1.0)), task.sampler.draw(t)
        present = torch.from_numpy(np.stack(task.shards) != ABSENT).gather(1, drawn.records)
        size = (present * drawn.weight).sum(1, keepdim=True).clamp(min=1).to(x.dtype)
        return replace(gradient, _value=gradient._value * task.sampler.batch[0] / size)


class UnrecordedRounds(CorrectGossip):
    """Every second round adds noise but does not record the release."""

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        if gradient.step % 2 == 0:
            return super().add_noise(gradient, task)
        scale = self.multiplier * task.sensitivity(Clip(1.0))
        task.ledger.close(gradient.step, gradient.purpose)
        task.noise.gaussian_(gradient._value, scale, "unbooked", task.nodes, gradient.step)
        return gradient._value


class ResentWithFreshNoise(CorrectGossip):
    """A message is sent a second time, as after a loss, with fresh noise."""

    def round(self, t: int, state: GossipState, task: Task, network: Network) -> GossipState:
        gradient = self.gradient(t, state.x, task)
        again = gradient._value.clone()
        x = state.x - _LR * self.add_noise(gradient, task)
        task.noise.gaussian_(again, self.multiplier * task.sensitivity(Clip(1.0)), "again", task.nodes, t)
        network.mix(t, state.x - _LR * again)
        return GossipState(self.send(t, x, task, network))


class SharedSeed(CorrectGossip):
    """All nodes draw their noise from the same seed, so every node can compute the noise of all others."""

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        exact = gradient._value.clone()
        super().add_noise(gradient, task)
        trial = task.nodes // 3
        noise = torch.zeros_like(exact)
        task.noise.gaussian_(noise, self.multiplier * task.sensitivity(Clip(1.0)), "one seed", trial, gradient.step)
        return exact + noise


class ShuffledAsPoisson(CorrectGossip):
    """Batches come from a random permutation, but are accounted as Poisson samples."""

    @property
    def privacy(self) -> GossipPrivacy:
        return ShuffledAsPoissonPrivacy(self)

    def gradient(self, t: int, x: Tensor, task: Task) -> Bounded:
        gradient = task.gradient(x, t, Clip(1.0))
        return replace(gradient, sampling=self.privacy.sampling(task), sensitivity=1.0 / task.sampler.batch)


class ShuffledAsPoissonPrivacy(GossipPrivacy):
    """Permutation batches, accounted as Poisson samples."""

    def sampling(self, task: Task) -> Sampling:
        return Sampling("poisson", task.sampling.rate, "add-remove")


class SplitByRank(CorrectGossip):
    """The first half of the records is for training: a new first record moves another one to the test side."""

    def gradient(self, t: int, x: Tensor, task: Task) -> Bounded:
        present = torch.from_numpy(np.stack(task.shards) != ABSENT)
        rank = present.cumsum(1) - 1
        trained = present & (rank < present.sum(1, keepdim=True) // 2)
        weight = trained.to(x.dtype) / torch.from_numpy(task.sampler.batch[:, None])
        positions = torch.arange(present.shape[1]).expand_as(present)
        value = task._records.gradient_sum(x, Draw(positions, weight), Clip(1.0))
        return replace(task.gradient(x, t, Clip(1.0)), _value=value)


class AllRecordsAsABatch(CorrectGossip):
    """Each step also releases the mean over all records, accounted as if it came from the step's batch."""

    @property
    def privacy(self) -> GossipPrivacy:
        return AllRecordsAsABatchPrivacy(self)

    def round(self, t: int, state: GossipState, task: Task, network: Network) -> GossipState:
        gradient, records = self.gradient(t, state.x, task), task._records
        mean = records.gradient_sum(state.x, records.all_of_each_node(state.x.dtype), Clip(1.0))
        stated = replace(gradient, _value=mean, sensitivity=1 / task.sizes, purpose="mean of all records")
        network.mix(t, Gaussian(self.multiplier).release(stated))
        return GossipState(self.send(t, state.x - _LR * self.add_noise(gradient, task), task, network))


class AllRecordsAsABatchPrivacy(GossipPrivacy):
    """A gradient of the batch and a mean of all records, both accounted with the batch's sampling."""

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        noise = Gaussian(self.algorithm.multiplier)
        return [Release(t, purpose, noise, sampling) for purpose in ("gradient", "mean of all records")]


class SentBeforeTheRelease(CorrectGossip):
    """The message contains the exact gradient beside the released one, read before the release."""

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        exact = gradient._value.clone()
        return super().add_noise(gradient, task) + exact
