"""Broken mechanisms, each beside a correct one: known mistakes that the audit must find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms import Algorithm, Nodes, PrivacyPlan
from tacit.audit.audit import audit_algorithm
from tacit.audit.canary_task import ABSENT
from tacit.audit.results import TrialsAudit
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Bounded, Gaussian, Release, Sampling
from tacit.runs import Batch, PrivacyTarget
from tacit.tasks import Clip, Task

_LR = 0.1


@dataclass(frozen=True)
class GossipState:
    """The parameters x (n, d)."""

    x: Tensor


@dataclass(frozen=True, kw_only=True)
class CorrectGossip(Algorithm[GossipState]):
    """x ← Σ_j W_ij (x_j − μ ĝ_j), ĝ the mean of clipped gradients with Gaussian noise. Subclasses break one step."""

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
        exact = gradient.value.clone()
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
        task.noise.gaussian_(gradient.use_locally(), scale, "unbooked", task.nodes, gradient.step)
        return gradient.value


class ResentWithFreshNoise(CorrectGossip):
    """A message is sent a second time, as after a loss, with fresh noise."""

    def round(self, t: int, state: GossipState, task: Task, network: Network) -> GossipState:
        gradient = self.gradient(t, state.x, task)
        again = gradient.value.clone()
        x = state.x - _LR * self.add_noise(gradient, task)
        task.noise.gaussian_(again, self.multiplier * task.sensitivity(Clip(1.0)), "again", task.nodes, t)
        network.mix(t, state.x - _LR * again)
        return GossipState(self.send(t, x, task, network))


class SharedSeed(CorrectGossip):
    """All nodes draw their noise from the same seed, so every node can compute the noise of all others."""

    def add_noise(self, gradient: Bounded, task: Task) -> Tensor:
        exact = gradient.value.clone()
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


class GalleryEntry(NamedTuple):
    """A broken mechanism and a setting in which an audit can detect its mistake.

    `other_gradient` is the gradient of all records except the canary. `correct_batch` is set if the correct mechanism
    samples batches differently.
    """

    broken: type[CorrectGossip]
    batch: Batch = Batch()
    records: int = 2
    other_gradient: float = 0.0
    rounds: int = 4
    multiplier: float = 2.0
    correct_batch: Batch | None = None

    def audit(self, *, broken: bool, trials: int = 20_000, confidence: float = 0.95, seed: int = 0) -> TrialsAudit:
        """Audit the broken mechanism, or the correct one on the same data."""
        algorithm = (self.broken if broken else CorrectGossip)(multiplier=self.multiplier).with_rounds(self.rounds)
        return audit_algorithm(
            algorithm,
            self.batch if broken or self.correct_batch is None else self.correct_batch,
            self.records,
            trials=trials,
            privacy=PrivacyTarget(delta=1e-5),
            confidence=confidence,
            seed=seed,
            other_gradient=self.other_gradient,
        )


_PERMUTATION, _POISSON = (Batch(size=1, sampling=kind) for kind in ("permutation", "poisson"))
GALLERY: dict[str, GalleryEntry] = {
    "fresh noise per neighbour": GalleryEntry(FreshNoisePerNeighbour),
    "missing batch factor": GalleryEntry(MissingBatchFactor, records=4),
    "batch clipping": GalleryEntry(BatchClipping, records=4),
    "halved sensitivity": GalleryEntry(HalvedSensitivity, Batch(relation="replace-one")),
    "shuffled as Poisson": GalleryEntry(
        ShuffledAsPoisson, _PERMUTATION, 12, rounds=12, multiplier=0.25, correct_batch=_POISSON
    ),
    "realised batch size": GalleryEntry(RealisedBatchSize, Batch(size=9, sampling="poisson"), 10, other_gradient=-1.0),
    "unrecorded rounds": GalleryEntry(UnrecordedRounds),
    "resent with fresh noise": GalleryEntry(ResentWithFreshNoise),
    "shared seed": GalleryEntry(SharedSeed),
}
