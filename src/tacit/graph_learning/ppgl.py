"""PPGL: a graph per client and a consensus of all, learned together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms import Nodes, select_nodes
from tacit.errors import TacitError
from tacit.graph_learning.method import GraphMethod, graph_methods
from tacit.graph_learning.privacy_plan import GraphPrivacyPlan
from tacit.graph_learning.private_solver import solution_bound, solve_within
from tacit.graph_learning.problem import ClientProblem
from tacit.graph_learning.sensitivity import classical_noise_multiplier
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.solver import initial_dual, solve
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Sampling


@dataclass(frozen=True)
class PPGLState:
    """The state of PPGL.

    Attributes:
        w: The clients' graphs, (n, p).
        before: The graphs before them, for the momentum, (n, p).
        con: The consensus w_con, (p,).
        gamma: The weights γ, (n,).
        z: The z̄ of the clients, or the released one, (n, p).
        u: The dual variables of the last exact solution, from which the next one starts, (n, d).
        residual: The clients' distances from the minimum, (n,).
    """

    w: Tensor
    before: Tensor
    con: Tensor
    gamma: Tensor
    z: Tensor
    u: Tensor
    residual: Tensor


@graph_methods.register("ppgl")
@dataclass(frozen=True, kw_only=True)
class PPGL(GraphMethod[PPGLState]):
    """Privacy-preserving graph learning (Zhang et al., Algorithm 1; with noise, Eqs 21 to 23).

    In each round every client takes K steps on its problem (9), or solves it (K = None), and sends γ_i w_i and γ_i:

        w_con = prox_{μ‖·‖₁}(Σ γ_i w_i / Σ γ_i),   μ = λ/(ρ Σ γ_i)                (15)
        γ_i   = 1/(2 ‖w_i − w_con‖ + ε_γ)                                         (16)

    Only the two sums involve all clients. A server can compute them, or the clients without one.

    The minimised function is convex, also with adaptive weights: (16) majorises ρ Σ h(‖w_i − w_con‖) with
    h(r) = r/2 − (ε_γ/4) log(1 + 2r/ε_γ), which replaces ρ/2 Σ γ_i ‖w_i − w_con‖².

    Attributes:
        rho: ρ, the weight of the distance to the consensus.
        lam: λ, the weight of the sparsity of the consensus.
        gamma: A fixed γ for all clients, or None for adaptive weights (16).
        gamma_epsilon: ε_γ.

    Privacy:
        `release="once"` is one Gaussian release of z̄ with sensitivity √2 C/N_i (see `Signals`), or of a Gram matrix
        with sensitivity √2 (see `bounded_gram`). `release="rounds"` is T Gaussian releases of graphs with the
        sensitivity that `iterate_sensitivity` or, for exact solutions, `solution_sensitivity` proves. All are
        (√releases/noise)-GDP. With K = 1, the T graphs reveal no more than T noisy z̄ would, and those no more than
        their mean, which is one z̄ with √T times less noise. At the same ε, "once" therefore gives the rounds a z that
        is at least as accurate.
    """

    title: ClassVar[str] = "PPGL"
    exact_values_stay_local: ClassVar[bool] = True

    rho: float = 1.0
    lam: float = 0.1
    gamma: float | None = None
    gamma_epsilon: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("rho", "gamma_epsilon"):
            self._require(key, 0 < getattr(self, key) < math.inf, "positive and finite")
        self._require("lam", 0 <= self.lam < math.inf, "at least 0 and finite")
        self._require("gamma", self.gamma is None or 0 < self.gamma < math.inf, "positive and finite")

    @property
    def privacy(self) -> PPGLPrivacy:
        return PPGLPrivacy(self)

    def check(self, task: Signals, graph: Graph | None = None) -> None:
        super().check(task, graph)
        if graph is not None and graph.nodes < 2:
            raise TacitError("PPGL needs at least 2 clients, got 1: add clients, or use the method igl")

    def start(self, task: Signals, graph: Graph, z: Tensor | None = None) -> PPGLState:
        self.check(task, graph)
        z = self.prepare_z(task) if z is None else z
        gamma = torch.full((task.n,), self.gamma or 1 / graph.nodes, dtype=z.dtype)
        con = self.initial_weights(task, self.rho * (self.gamma or 1 / graph.nodes))
        w = con.expand_as(z).clone()
        u = initial_dual(self._problem(z, gamma, con, task), z)
        return PPGLState(w, w, con, gamma, z, u, z.new_full((task.n,), math.inf))

    def round(self, t: int, state: PPGLState, task: Signals, network: Network) -> PPGLState:
        problem = self._problem(state.z, state.gamma, state.con, task)
        w, before, u = self._local_update(problem, state, task)
        if self.noise is None or self.release == "rounds":
            w = self.release_graphs(t, w, problem, task, (state.w, state.before))
        w = w.clamp(min=0)
        gamma = state.gamma[:, None]
        mean = network.mean(torch.cat([gamma * w, gamma], 1))
        con = prox(mean[:-1] / mean[-1], self.lam / (self.rho * network.graph.nodes * float(mean[-1])))
        gamma = state.gamma if self.gamma else 1 / (2 * (w - con).norm(dim=1) + self.gamma_epsilon)
        residual = self._problem(state.z, gamma, con, task).residual(w)
        return PPGLState(w, state.w if self.noise_in_rounds else before, con, gamma, state.z, u, residual)

    def graphs(self, state: PPGLState) -> Tensor:
        return state.w

    def consensus(self, state: PPGLState) -> Tensor:
        return state.con

    def residual(self, state: PPGLState) -> Tensor:
        return state.residual

    def objective(self, state: PPGLState, network: Network) -> float:
        """Return the objective of problem (8).

        With adaptive weights, h(‖w_i − w_con‖) replaces γ_i/2 ‖w_i − w_con‖².
        """
        fit = self.client_problem(state.z, torch.zeros_like(state.gamma), state.con).objective(state.w)
        r = (state.w - state.con).norm(dim=1)
        e = self.gamma_epsilon
        apart = self.gamma / 2 * r.square() if self.gamma else r / 2 - e / 4 * torch.log1p(2 * r / e)
        total = network.mean((fit + self.rho * apart)[:, None]) * network.graph.nodes
        return float(total) + self.lam * float(state.con.abs().sum())

    def with_paper_noise(self, epsilon: float, delta: float) -> Self:
        """Return the method with the noise of Corollary 1, 2C √(2 ln(1.25/δ))/(ε N_i), for (ε, δ) per *round*."""
        if not epsilon > 0:
            raise TacitError(f"epsilon must be positive, got {epsilon}")
        return self.with_noise(math.sqrt(2) * classical_noise_multiplier(delta) / epsilon)

    def _local_update(self, problem: ClientProblem, state: PPGLState, task: Signals) -> tuple[Tensor, Tensor, Tensor]:
        if self.K is not None:
            return *self.gradient_steps(problem, state.w, state.before), state.u
        if self.noise_in_rounds:
            solution = solve_within(problem, solution_bound(problem, *task.bounds), state.u)
        else:
            solution = solve(problem, state.u)
        return solution.w, state.w, solution.u

    def _problem(self, z: Tensor, gamma: Tensor, con: Tensor, task: Signals | None) -> ClientProblem:
        """Problem (9). The step of a released iterate may depend on public values only, and so does its floor."""
        row_mean_bound = task.row_mean_bound if task is not None and self.noise_in_rounds else None
        return self.client_problem(z, self.rho * gamma, con, row_mean_bound)


@dataclass(frozen=True)
class PPGLPrivacy(GraphPrivacyPlan):
    """One release of the statistic, or one graph per round."""

    method: PPGL

    @property
    def notes(self) -> tuple[str, ...]:
        if self.method.noise is None:
            return ()
        if self.method.release == "once":
            own = "Each client's graph is computed from its noisy release, so it is as private as the consensus."
            return (*super().notes, own)
        return ("Each client's graph is the one that it sent, with its noise.",)

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """Return the claim of Corollary 1 at Σδ = δ: T rounds at δ/T each, with their ε added up.

        For K > 1 there is no claim: Theorem 2 needs a bound on ‖w‖ that the paper does not give.
        """
        method = self.method
        if method.release == "once" or method.noise is None or method.K != 1:
            return None
        multiplier = float(np.min(select_nodes(method.noise, nodes)))
        return rounds * math.sqrt(2) * classical_noise_multiplier(delta / rounds) / multiplier


def prox(x: Tensor, mu: float) -> Tensor:
    """Return the proximal operator of μ‖·‖₁, soft thresholding.

    >>> prox(torch.tensor([3.0, 0.5, -2.0]), 1.0)
    tensor([ 2.,  0., -1.])
    """
    return x.sign() * (x.abs() - mu).clamp(min=0)
