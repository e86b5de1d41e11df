"""Mechanisms broken on purpose, each beside its sound twin: mistakes that have been made, and are found here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm
from tacit.algorithms.dpsgd import Parameters
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.audit.audit import Audit, attacked
from tacit.audit.worlds import NOTHING
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Bounded, Sampling
from tacit.privacy.mechanism import Gaussian
from tacit.privacy.release import Release
from tacit.runs import Batch, PrivacyTarget
from tacit.tasks import Clip, Task

_LR = 0.1


@dataclass(frozen=True, kw_only=True)
class Gossip(Algorithm[Parameters]):
    """x ← Σ_j W_ij (x_j − μ ĝ_j), ĝ the clipped mean with Gaussian noise: sound. The broken ones change one step."""

    title: ClassVar[str] = "gossip"
    multiplier: float = 2.0

    def start(self, task: Task, graph: Graph) -> Parameters:
        return Parameters(task.initial())

    def round(self, t: int, state: Parameters, task: Task, network: Network) -> Parameters:
        noised = self.noised(self.computed(t, state.x, task), task)
        return Parameters(self.sent(t, state.x - _LR * noised, task, network))

    def computed(self, t: int, x: Tensor, task: Task) -> Bounded:
        return task.gradient(x, t, Clip(1.0))

    def noised(self, gradient: Bounded, task: Task) -> Tensor:
        return Gaussian(self.multiplier).release(gradient)

    def sent(self, t: int, x: Tensor, task: Task, network: Network) -> Tensor:
        return network.mix(t, x)[0]

    def models(self, state: Parameters) -> Tensor:
        return state.x

    @property
    def privacy(self) -> GossipPrivacy:
        return GossipPrivacy(self)


@dataclass(frozen=True)
class GossipPrivacy(PrivacyPlan):
    """One noised gradient per round and node."""

    algorithm: Gossip

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        return [Release(t, "gradient", Gaussian(self.algorithm.multiplier), sampling)]


class NoiseForEachNeighbour(Gossip):
    """The noise is drawn anew for every neighbour, and booked once: their messages together have less of it."""

    def sent(self, t: int, x: Tensor, task: Task, network: Network) -> Tensor:
        edges = network.edges(t)
        scale = _LR * self.multiplier * task.sensitivity(Clip(1.0))
        fresh = torch.zeros(len(edges.source), x.shape[1], dtype=x.dtype)
        task.noise.gaussian_(fresh, scale[edges.row.numpy()], "neighbours", np.arange(len(fresh)), t)
        received = network.swap(t, x[edges.row] + fresh)
        return (x + x.new_zeros(x.shape).index_add_(0, edges.row, received)) / 3

    def noised(self, gradient: Bounded, task: Task) -> Tensor:
        exact = gradient.value.clone()
        super().noised(gradient, task)
        return exact


class WithoutTheBatchFactor(Gossip):
    """Noise meant for the mean, of deviation σC/B, is put on the sum, which is divided by B afterwards."""

    def noised(self, gradient: Bounded, task: Task) -> Tensor:
        assert gradient.sensitivity is not None
        return super().noised(replace(gradient, sensitivity=gradient.sensitivity / task.sampler.batch), task)


class BatchClipped(Gossip):
    """The mean of a batch is clipped, and accounted as if every record had been."""

    def computed(self, t: int, x: Tensor, task: Task) -> Bounded:
        return replace(task.gradient(x, t, Clip(1.0, per="batch")), sensitivity=task.sensitivity(Clip(1.0)))


class HalfTheSensitivity(Gossip):
    """Replacing a record moves the sum by 2C; noise is scaled to C."""

    def noised(self, gradient: Bounded, task: Task) -> Tensor:
        assert gradient.sensitivity is not None
        return super().noised(replace(gradient, sensitivity=gradient.sensitivity / 2), task)


class RealisedBatchSize(Gossip):
    """The sum of a Poisson batch is divided by the number drawn instead of the number expected."""

    def computed(self, t: int, x: Tensor, task: Task) -> Bounded:
        gradient, drawn = task.gradient(x, t, Clip(1.0)), task.sampler.draw(t)
        counted = torch.from_numpy(np.stack(task.shards) != NOTHING).gather(1, drawn.records)
        size = (counted * drawn.weight).sum(1, keepdim=True).clamp(min=1).to(x.dtype)
        return replace(gradient, value=gradient.value * task.sampler.batch[0] / size)


class ForgottenRound(Gossip):
    """Every second round is released with noise that nobody books."""

    def noised(self, gradient: Bounded, task: Task) -> Tensor:
        if gradient.step % 2 == 0:
            return super().noised(gradient, task)
        scale = self.multiplier * task.sensitivity(Clip(1.0))
        task.noise.gaussian_(gradient.use_locally(), scale, "unbooked", task.nodes, gradient.step)
        return gradient.value


class SentAgainWithFreshNoise(Gossip):
    """A message is sent a second time, as if it had been lost, with noise of its own."""

    def round(self, t: int, state: Parameters, task: Task, network: Network) -> Parameters:
        gradient = self.computed(t, state.x, task)
        again = gradient.value.clone()
        x = state.x - _LR * self.noised(gradient, task)
        task.noise.gaussian_(again, self.multiplier * task.sensitivity(Clip(1.0)), "again", task.nodes, t)
        network.mix(t, state.x - _LR * again)
        return Parameters(self.sent(t, x, task, network))


class SharedSeed(Gossip):
    """All nodes draw their noise from one seed: who knows its own noise knows everyone's."""

    def noised(self, gradient: Bounded, task: Task) -> Tensor:
        exact = gradient.value.clone()
        super().noised(gradient, task)
        trial = task.nodes // 3
        noise = torch.zeros_like(exact)
        task.noise.gaussian_(noise, self.multiplier * task.sensitivity(Clip(1.0)), "one seed", trial, gradient.step)
        return exact + noise


class ShuffledAsPoisson(Gossip):
    """Batches are dealt from a shuffled deck, and accounted as if every record were drawn by a coin of its own."""

    @property
    def privacy(self) -> GossipPrivacy:
        return ShuffledAsPoissonPrivacy(self)

    def computed(self, t: int, x: Tensor, task: Task) -> Bounded:
        gradient = task.gradient(x, t, Clip(1.0))
        return replace(gradient, sampling=self.privacy.sampling(task), sensitivity=1.0 / task.sampler.batch)


class ShuffledAsPoissonPrivacy(GossipPrivacy):
    """Permutation batches, accounted as Poisson samples."""

    def sampling(self, task: Task) -> Sampling:
        return Sampling("poisson", task.sampling.rate, "add-remove")


class Exhibit(NamedTuple):
    """A broken mechanism, and where its mistake tells: how batches are drawn (in the sound twin, if it differs there),
    records of a node, what the gradients of all but one are, rounds, noise."""

    broken: type[Gossip]
    draws: Batch = Batch()
    size: int = 2
    others: float = 0.0
    rounds: int = 4
    multiplier: float = 2.0
    sound: Batch | None = None

    def examine(self, *, broken: bool, trials: int = 20_000, confidence: float = 0.95, seed: int = 0) -> Audit:
        """Audit the exhibit, or its sound twin on the same data."""
        method = (self.broken if broken else Gossip)(multiplier=self.multiplier).with_rounds(self.rounds)
        return attacked(
            method,
            self.draws if broken or self.sound is None else self.sound,
            self.size,
            trials=trials,
            privacy=PrivacyTarget(delta=1e-5),
            confidence=confidence,
            seed=seed,
            others=self.others,
        )


_DEALT, _DRAWN = (Batch(size=1, sampling=kind) for kind in ("permutation", "poisson"))
GALLERY: dict[str, Exhibit] = {
    "noise for each neighbour": Exhibit(NoiseForEachNeighbour),
    "without the batch factor": Exhibit(WithoutTheBatchFactor, size=4),
    "batch clipped": Exhibit(BatchClipped, size=4),
    "half the sensitivity": Exhibit(HalfTheSensitivity, Batch(relation="replace-one")),
    "shuffled as Poisson": Exhibit(ShuffledAsPoisson, _DEALT, 12, rounds=12, multiplier=0.25, sound=_DRAWN),
    "realised batch size": Exhibit(RealisedBatchSize, Batch(size=9, sampling="poisson"), 10, others=-1.0),
    "forgotten round": Exhibit(ForgottenRound),
    "sent again with fresh noise": Exhibit(SentAgainWithFreshNoise),
    "shared seed": Exhibit(SharedSeed),
}
