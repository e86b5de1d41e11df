"""What PPGL is compared with: every client alone (IGL), and one graph for all (FedAvg)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graph_learning.method import GraphMethod, graph_methods
from tacit.graph_learning.problem import ClientProblem
from tacit.graph_learning.signals import PURPOSE, Signals
from tacit.graph_learning.solver import solve
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Sampling
from tacit.privacy.release import Release


@dataclass(frozen=True)
class IGLState:
    """The graphs w and those before (n, p), z (n, p), and how far from the minimum this is (n,)."""

    w: Tensor
    before: Tensor
    z: Tensor
    residual: Tensor


@graph_methods.register("igl")
@dataclass(frozen=True, kw_only=True)
class IGL(GraphMethod[IGLState]):
    """Independent graph learning: problem (7) of each client by itself. Nothing is sent.

    Without noise the graphs stay where they are: publishing one is a release that no ε covers. With noise z̄ is
    released once, and all graphs are post-processing of it.
    """

    title: ClassVar[str] = "IGL"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.release != "once":
            raise TacitError('IGL has no messages to release round by round: use release = "once"')

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

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> Iterable[Release]:
        return () if self.noise is None else super().releases(t, nodes, sampling)

    def graphs(self, state: IGLState) -> Tensor:
        return state.w

    def consensus(self, state: IGLState) -> None:
        return None

    def residual(self, state: IGLState) -> Tensor:
        return state.residual

    def objective(self, state: IGLState, network: Network) -> float:
        fit = self._problem(state.z).objective(state.w)
        return float(network.mean(fit[:, None])) * network.graph.nodes

    def _problem(self, z: Tensor) -> ClientProblem:
        return self.problem(z, z.new_zeros(len(z)), z.new_zeros(z.shape[1]))

    @property
    def solves_in_one_round(self) -> bool:
        return self.K is None

    @property
    def unprotected_reason(self) -> str | None:
        if self.noise is not None:
            return None
        return "no message leaves a client, but its graph is made without noise, and tells about its signals"


@dataclass(frozen=True)
class FedAvgState:
    """The one graph con (p,), each client's z (n, p) and N_i (n,), and how far from the minimum this is (n,)."""

    con: Tensor
    z: Tensor
    share: Tensor
    residual: Tensor


@graph_methods.register("fedavg")
@dataclass(frozen=True, kw_only=True)
class FedAvg(GraphMethod[FedAvgState]):
    """One graph for the signals of all (Eq. 31), by federated averaging.

    Every round the clients start from the common graph, take K steps on their own problem (7), and average their
    graphs, weighted by N_i. Where clients differ and K > 1, that ends near the minimum of (31), not at it. K = None
    averages the z̄ instead, once, and solves (31) exactly.
    """

    title: ClassVar[str] = "FedAvg"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.K is None and self.release != "once":
            raise TacitError('FedAvg without K needs one message only: use release = "once", or set K')

    def prepare_z(self, task: Signals) -> Tensor:
        if self.K is not None:
            return super().prepare_z(task)
        self.check(task)
        return self.mechanism(task.nodes).release(task.mean(0))  # it leaves, with noise or without

    def start(self, task: Signals, graph: Graph, z: Tensor | None = None) -> FedAvgState:
        z = self.prepare_z(task) if z is None else z
        share = torch.from_numpy(task.sizes).to(z.dtype)
        return FedAvgState(self.initial_weights(task), z, share, z.new_full((task.n,), math.inf))

    def round(self, t: int, state: FedAvgState, task: Signals, network: Network) -> FedAvgState:
        share = state.share[:, None]
        if self.K is None:
            z = self._averaged(state.z, share, network)
            z = z.clamp(min=0)  # after the mean, where there is less noise to cut off
            con, residual = solve(self._problem(z[None], None)).w[0], torch.zeros_like(state.residual)
            return FedAvgState(con, state.z, state.share, residual)
        problem = self._problem(state.z, task)
        begin = state.con.expand_as(state.z)
        w, _ = self.gradient_steps(problem, begin, begin)
        if self.noise is None or self.release == "rounds":
            w = self.release_graphs(t, w, problem, task)
        con = self._averaged(w.clamp(min=0), share, network)
        residual = (con - state.con).norm().div(con.norm().clamp(min=1e-300)).expand_as(state.residual)
        return FedAvgState(con, state.z, state.share, residual)

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> Iterable[Release]:
        if self.K is not None:
            return super().releases(t, nodes, sampling)
        return [Release(0, PURPOSE, self.mechanism(nodes), sampling)] if t == 0 else []

    def graphs(self, state: FedAvgState) -> Tensor:
        return state.con.expand(len(state.z), -1)

    def consensus(self, state: FedAvgState) -> Tensor:
        return state.con

    @property
    def solves_in_one_round(self) -> bool:
        return self.K is None

    def residual(self, state: FedAvgState) -> Tensor:
        return state.residual

    def objective(self, state: FedAvgState, network: Network) -> float:
        """(31)."""
        z = self._averaged(state.z, state.share[:, None], network).clamp(min=0)
        return float(self._problem(z[None], None).objective(state.con[None]))

    def _averaged(self, x: Tensor, share: Tensor, network: Network) -> Tensor:
        mean = network.mean(torch.cat([share * x, share], 1))
        return mean[:-1] / mean[-1]

    def _problem(self, z: Tensor, task: Signals | None) -> ClientProblem:
        row_mean_bound = task.row_mean_bound if task is not None and self.noise_in_rounds else None
        return self.problem(z, z.new_zeros(len(z)), z.new_zeros(z.shape[1]), row_mean_bound)
