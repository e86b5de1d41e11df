"""PEDFL (adapted), a baseline of the PartPSP paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from tacit.algorithms.algorithm import algorithms
from tacit.algorithms.dpps import Consensus
from tacit.algorithms.over_dpps import OverDPPS
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Bounded
from tacit.tasks import Task


@dataclass(frozen=True)
class Descended(Consensus):
    """What was received, s, and the node's parameters x (n, d) after the descent."""

    x: Tensor


@algorithms.register("pedfl")
@dataclass(frozen=True, kw_only=True)
class PEDFL(OverDPPS[Descended]):
    """PEDFL (adapted): Laplace noise on all parameters before the descent, no push-sum weights.

        x̃ = x + γ_n Laplace(S/b),   x ← Σ_j W_ij x̃_j − γ g(x)

    Its own paper transmits analog signals and has no public code; this is an adaptation, and says so. What a node
    sends is what it received, which everyone may know, plus the last descent: DPPS carries it, one round late.
    """

    name: ClassVar[str] = "PEDFL (adapted)"

    def start(self, task: Task, graph: Graph) -> Descended:
        self.shares_all(task)
        x = task.initial()
        return Descended(**vars(self.protocol(0, task.nodes, graph).start(x)), x=x)

    def round(self, t: int, state: Descended, task: Task, network: Network) -> Descended:
        last = 2 * self.rate(self.lr, max(t - 1, 0))
        bound = None if self.clip is None else np.full(task.n, last * self.clip)
        context, sampling = task.release_context, self.privacy.sampling(task)
        descent = Bounded(state.x - state.s, bound, "l1", sampling, t, "gradient", context)
        received = self.protocol(t, task.nodes, network.graph).round(t, state, descent, network)
        g = self.gradient(t, state.x, task, purpose="descent").use_locally()
        return replace(received, x=received.s.sub(g, alpha=self.rate(self.lr, t)))

    def models(self, state: Descended) -> Tensor:
        """What was received: x has the last descent on it, which has had no noise yet."""
        return state.s
