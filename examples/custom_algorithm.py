"""An algorithm of your own: gossip SGD with Gaussian noise, its privacy plan, and a check that it leaks nothing else.

    python examples/custom_algorithm.py                            # trains it with ε = 2: about 5 s
    tacit check examples/custom_algorithm.py:GossipSGD             # no value leaves a node other than by a release: 4 s
    tacit train --set algorithm.name=examples/custom_algorithm.py:GossipSGD --set graph.name=ring --epsilon 2

`round` is the update of the method. `task.gradient` returns a clipped gradient with its sensitivity, and only
`Mechanism.release` turns it into a number that can be sent. The privacy plan lists the same releases before the run, so
that the noise can be calibrated to a target ε.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

import tacit
from tacit.algorithms import PrivacyPlan, select_nodes
from tacit.privacy import Release


@dataclass(frozen=True)
class GossipState:
    x: torch.Tensor  # one row per node


@dataclass(frozen=True, kw_only=True)
class GossipSGD(tacit.Algorithm[GossipState]):
    """Gossip SGD: a private gradient step, then the average over the neighbours."""

    title = "Gossip SGD"
    needs: ClassVar[tuple[str, ...]] = ("doubly-stochastic", "connected")  # of the graph; others are refused
    noise_parameters: ClassVar[tuple[str, ...]] = ("noise_multiplier",)  # set by a target ε
    models_are_released: ClassVar[bool] = True  # `models` returns functions of released values only

    lr: float = 0.5
    clip: float = 1.0
    noise_multiplier: float = 4.0

    @property
    def privacy(self):
        return GossipPrivacy(self)

    def with_noise(self, scale):
        return replace(self, noise_multiplier=scale)

    def start(self, task, graph):
        return GossipState(task.initial())

    def round(self, t, state, task, network):
        gradient = task.gradient(state.x, t, tacit.Clip(self.clip))
        released = self.privacy.mechanism(task.nodes).release(gradient)  # writes the ledger, then adds noise
        (x,) = network.mix(t, state.x - self.lr * released)
        return GossipState(x)

    def models(self, state):
        return state.x


@dataclass(frozen=True)
class GossipPrivacy(PrivacyPlan):
    """One Gaussian release per round."""

    algorithm: GossipSGD

    def mechanism(self, nodes):
        return tacit.Gaussian(select_nodes(self.algorithm.noise_multiplier, nodes))

    def releases(self, t, nodes, sampling):
        return [Release(t, "gradient", self.mechanism(nodes), sampling)]


def main(rounds: int = 100) -> None:
    run = tacit.train(algorithm=GossipSGD(), graph="ring", nodes=8, rounds=rounds, epsilon=2.0, delta=1e-4)
    print(run.utility.headline)
    print(run.privacy.sentence())


if __name__ == "__main__":
    main()
