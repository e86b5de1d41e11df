"""FedAvg for graph learning: one graph for the signals of all clients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
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
class FedAvgState:
    """The common graph con (p,), each client's z (n, p) and number of signals N_i (n,), and the residuals (n,)."""

    con: Tensor
    z: Tensor
    share: Tensor
    residual: Tensor


@graph_methods.register("fedavg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(GraphMethod[FedAvgState]):
    """One graph for the signals of all clients (Eq. 31), by federated averaging.

    In every round the clients start from the common graph, take K steps on their own problem (7), and average their
    graphs, weighted by N_i. If clients differ and K > 1, this converges near the minimum of (31), not to it. With
    K = None the clients average their z once instead, and (31) is solved exactly.
    """

    title: ClassVar[str] = "FedAvg"
    exact_values_stay_local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.K is None and self.release != "once":
            raise TacitError('FedAvg with K = None sends only one message: use release="once", or set K')

    @property
    def privacy(self) -> FedAvgPrivacy:
        return FedAvgPrivacy(self)

    def prepare_z(self, task: Signals) -> Tensor:
        if self.K is not None:
            return super().prepare_z(task)
        self.check(task)
        return self.release_z(task)  # it leaves the client, with or without noise

    def start(self, task: Signals, graph: Graph, z: Tensor | None = None) -> FedAvgState:
        z = self.prepare_z(task) if z is None else z
        share = torch.from_numpy(task.sizes).to(z.dtype)
        return FedAvgState(self.initial_weights(task), z, share, z.new_full((task.n,), math.inf))

    def round(self, t: int, state: FedAvgState, task: Signals, network: Network) -> FedAvgState:
        share = state.share[:, None]
        if self.K is None:
            z = self._average(state.z, share, network)
            z = z.clamp(min=0)  # after the average, which has less noise to cut off
            con, residual = solve(self._problem(z[None], None)).w[0], torch.zeros_like(state.residual)
            return FedAvgState(con, state.z, state.share, residual)
        problem = self._problem(state.z, task)
        begin = state.con.expand_as(state.z)
        w, _ = self.gradient_steps(problem, begin, begin)
        if self.noise is None or self.release == "rounds":
            w = self.release_graphs(t, w, problem, task, (begin, begin))
        con = self._average(w.clamp(min=0), share, network)
        residual = (con - state.con).norm().div(con.norm().clamp(min=1e-300)).expand_as(state.residual)
        return FedAvgState(con, state.z, state.share, residual)

    def graphs(self, state: FedAvgState) -> Tensor:
        return state.con.expand(len(state.z), -1)

    def consensus(self, state: FedAvgState) -> Tensor:
        return state.con

    def residual(self, state: FedAvgState) -> Tensor:
        """Return 0 for the exact solution, else the relative change of the graph in the last round."""
        return state.residual

    def objective(self, state: FedAvgState, network: Network) -> float:
        """Return the objective of problem (31)."""
        z = self._average(state.z, state.share[:, None], network).clamp(min=0)
        return float(self._problem(z[None], None).objective(state.con[None]))

    @property
    def solves_in_one_round(self) -> bool:
        return self.K is None

    def _average(self, x: Tensor, share: Tensor, network: Network) -> Tensor:
        mean = network.mean(torch.cat([share * x, share], 1))
        return mean[:-1] / mean[-1]

    def _problem(self, z: Tensor, task: Signals | None) -> ClientProblem:
        row_mean_bound = task.row_mean_bound if task is not None and self.noise_in_rounds else None
        return self.client_problem(z, z.new_zeros(len(z)), z.new_zeros(z.shape[1]), row_mean_bound)


@dataclass(frozen=True)
class FedAvgPrivacy(GraphPrivacyPlan):
    """With K = None, one release of the statistic in round 0; else the releases of the base class."""

    method: FedAvg

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> Iterable[Release]:
        if self.method.K is not None:
            return super().releases(t, nodes, sampling)
        return (Release(0, self.purpose, self.mechanism(nodes), sampling),) if t == 0 else ()
