"""IGL, independent graph learning: every client learns its graph from its own signals only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from tacit.algorithms import Nodes
from tacit.errors import TacitError
from tacit.graph_learning.method import GraphMethod, graph_methods
from tacit.graph_learning.privacy_plan import GraphPrivacyPlan
from tacit.graph_learning.problem import ClientProblem
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.solver import solve
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Release, Sampling


@dataclass(frozen=True)
class IGLState:
    """The graphs w and the previous ones (n, p), z (n, p), and the residuals (n,)."""

    w: Tensor
    before: Tensor
    z: Tensor
    residual: Tensor


@graph_methods.register("igl")
@dataclass(frozen=True, kw_only=True)
class IGL(GraphMethod[IGLState]):
    """Independent graph learning: each client solves problem (7) by itself. No messages are sent.

    Without noise the graphs must stay with their clients: no ε covers the publication of a graph. With noise, the
    statistic is released once, and all graphs are post-processing of it.
    """

    title: ClassVar[str] = "IGL"
    exact_values_stay_local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.release != "once":
            raise TacitError('IGL sends no messages, so it cannot release graphs in rounds: use release="once"')

    @property
    def privacy(self) -> IGLPrivacy:
        return IGLPrivacy(self)

    def start(self, task: Signals, graph: Graph, z: Tensor | None = None) -> IGLState:
        z = self.prepare_z(task) if z is None else z
        w = self.initial_weights(task).expand_as(z).clone()
        return IGLState(w, w, z, z.new_full((task.n,), math.inf))

    def round(self, t: int, state: IGLState, task: Signals, network: Network) -> IGLState:
        problem = self._problem(state.z)
        if self.K is None:
            w = before = solve(problem).w
        else:
            w, before = self.gradient_steps(problem, state.w, state.before)
            w = w.clamp(min=0)
        return IGLState(w, before, state.z, problem.residual(w))

    def graphs(self, state: IGLState) -> Tensor:
        return state.w

    def consensus(self, state: IGLState) -> None:
        return None

    def residual(self, state: IGLState) -> Tensor:
        return state.residual

    def objective(self, state: IGLState, network: Network) -> float:
        fit = self._problem(state.z).objective(state.w)
        return float(network.mean(fit[:, None])) * network.graph.nodes

    @property
    def solves_in_one_round(self) -> bool:
        return self.K is None

    def _problem(self, z: Tensor) -> ClientProblem:
        return self.client_problem(z, z.new_zeros(len(z)), z.new_zeros(z.shape[1]))


@dataclass(frozen=True)
class IGLPrivacy(GraphPrivacyPlan):
    """With noise, one release of the statistic. Without noise nothing is released, but the graphs are not private."""

    method: IGL

    @property
    def unprotected_reason(self) -> str | None:
        if self.method.noise is not None:
            return None
        return "no message leaves a client, but its graph is computed from its signals without noise"

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> Iterable[Release]:
        return () if self.method.noise is None else super().releases(t, nodes, sampling)
