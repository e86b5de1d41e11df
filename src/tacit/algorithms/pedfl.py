"""PEDFL (adapted), a baseline of the PartPSP paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from tacit.algorithms.algorithm import Mix, algorithms
from tacit.algorithms.dpps import DPPSState
from tacit.algorithms.dpps_algorithm import DPPSAlgorithm
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Bounded
from tacit.tasks import Task


@dataclass(frozen=True)
class PEDFLState(DPPSState):
    """State of DPPS, whose s is what a node received, and the node's parameters x (n, d) after its gradient step."""

    x: Tensor


@algorithms.register("pedfl", example={"clip": 0.1})
@dataclass(frozen=True, kw_only=True)
class PEDFL(DPPSAlgorithm[PEDFLState]):
    """PEDFL (adapted): Laplace noise on all parameters before the gradient step, no push-sum weights.

        x̃ = x + γ_n Laplace(S/b),   x ← Σ_j W_ij x̃_j − γ g(x)

    PEDFL's own paper transmits analog signals and has no public code; this is an adaptation. A node's message is the
    public result of the last mixing plus the last gradient step, so one round of DPPS sends the step of the round
    before. The parameters are those of `DPPSAlgorithm`.

    References:
        The baseline PEDFL in Zhou, Xue, Chen: PartPSP.
    """

    models_are_released: ClassVar[bool] = True
    exact_values_stay_local: ClassVar[bool] = True
    name: ClassVar[str] = "PEDFL (adapted)"

    def start(self, task: Task, graph: Graph) -> PEDFLState:
        self.check_shares_all(task)
        x = task.initial()
        return PEDFLState(**vars(self.protocol(0, task.nodes, graph).start(x)), x=x)

    def round(self, t: int, state: PEDFLState, task: Task, network: Network) -> PEDFLState:
        last_step = 2 * self.decayed(self.lr, max(t - 1, 0))
        bound = None if self.clip is None else np.full(task.n, last_step * self.clip)
        sampling, context = self.privacy.sampling(task), task.release_context
        e = Bounded(state.x - state.s, bound, "l1", sampling, t, "gradient", context, "node")
        received = self.protocol(t, task.nodes, network.graph).round(t, state, e, network)
        g = self.gradient(t, state.x, task, purpose="descent").use_locally()
        return replace(received, x=received.s.sub(g, alpha=self.decayed(self.lr, t)))

    def mix_models(self, state: PEDFLState, mix: Mix) -> PEDFLState:
        """Mix s only. The last gradient step in x, which has had no noise, stays as it is."""
        mixed = super().mix_models(state, mix)
        return replace(mixed, x=mixed.s + (state.x - state.s))

    def models(self, state: PEDFLState) -> Tensor:
        """Return s, not x: the last gradient step in x has had no noise yet."""
        return state.s
