"""Algorithms as a user writes them in a file of their own."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from tacit.algorithms import Algorithm, PrivacyPlan
from tacit.privacy import Gaussian, Release
from tacit.tasks import Clip


@dataclass(frozen=True)
class State:
    x: Tensor


@dataclass(frozen=True)
class Mine(Algorithm[State]):
    """Gossip and a noisy gradient; it does not plan its releases."""

    lr: float = 0.2
    noise: float = 1.0

    @property
    def title(self):
        return "Mine"

    def start(self, task, graph):
        return State(task.initial())

    def round(self, t, state, task, network):
        (x,) = network.mix(t, state.x - self.lr * self.gradient(t, state, task))
        return State(x)

    def gradient(self, t, state, task):
        return Gaussian(self.noise).release(task.gradient(state.x, t, Clip(1.0)))

    def models(self, state):
        return state.x


@dataclass(frozen=True)
class Planning(Mine):
    """The same, with a plan of its releases."""

    @property
    def privacy(self):
        return PlanningPrivacy(self)


class PlanningPrivacy(PrivacyPlan):
    def releases(self, t, nodes, sampling):
        return (Release(t, "gradient", Gaussian(self.algorithm.noise), sampling),)


@dataclass(frozen=True)
class Leaky(Mine):
    """Uses the value without releasing it."""

    def gradient(self, t, state, task):
        return task.gradient(state.x, t, Clip(1.0)).value


@dataclass(frozen=True)
class Bare(Mine):
    """Its state is not a dataclass."""

    def start(self, task, graph):
        return task.initial()

    def round(self, t, state, task, network):
        return super().round(t, State(state), task, network).x

    def models(self, state):
        return state


not_callable = Mine()


def not_an_algorithm() -> int:
    return 3
