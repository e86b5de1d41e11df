"""PPGL: every client's own graph and a consensus of all, learned together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import at_nodes
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graph_learning.method import GraphMethod, graph_methods
from tacit.graph_learning.problem import ClientProblem
from tacit.graph_learning.sensitivity import classical_noise_multiplier
from tacit.graph_learning.signals import Signals
from tacit.graph_learning.solver import initial_dual, solve
from tacit.graphs import Graph
from tacit.networks import Network


@dataclass(frozen=True)
class PPGLState:
    """The graphs w and those before (n, p), the consensus con (p,), the weights γ (n,), and z (n, p).

    The dual variables u (n, d) start the next solution; `residual` (n,) is how far from the minimum this is.
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
    """Privacy-preserving graph learning (Zhang, Algorithm 1; with noise, Eqs 21 to 23).

    Each round, every client takes K steps on its problem (9), or solves it (K = None), and sends γ_i w_i and γ_i;

        w_con = prox_{μ‖·‖₁}(Σ γ_i w_i / Σ γ_i),   μ = λ/(ρ Σ γ_i)                (15)
        γ_i   = 1/(2 ‖w_i − w_con‖ + ε_γ)                                         (16)

    of which only the two means are of all clients: there is a server, or none. `gamma` fixes the weights instead.

    What is minimised is convex, for adaptive weights too: (16) majorises ρ Σ h(‖w_i − w_con‖), h(r) = r/2 − (ε_γ/4)
    log(1 + 2r/ε_γ), in place of ρ/2 Σ γ_i ‖w_i − w_con‖².

    Formal guarantee: `release="once"` is one Gaussian release of z̄, of sensitivity √2 C/N_i (`Signals`). `"rounds"`
    are T Gaussian releases of graphs, of the sensitivity that `iterate_sensitivity` proves. Either is
    (√releases/noise)-GDP. The T
    graphs of K = 1 tell no more than T noisy z̄ would, and those no more than their mean, which is one z̄ with √T times
    less noise: at the same ε, "once" has at least as much to learn from.
    """

    title: ClassVar[str] = "PPGL"

    rho: float = 1.0
    lam: float = 0.1
    gamma: float | None = None
    gamma_epsilon: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("rho", "gamma_epsilon"):
            if not 0 < getattr(self, key) < math.inf:
                raise TacitError(f"PPGL: {key} must be positive and finite, not {getattr(self, key)}")
        if not 0 <= self.lam < math.inf:
            raise TacitError(f"PPGL: lam must be 0 or more, not {self.lam}")
        if self.gamma is not None and not 0 < self.gamma < math.inf:
            raise TacitError(f"PPGL: gamma must be positive and finite, not {self.gamma}")

    def check(self, task: Signals, graph: Graph | None = None) -> None:
        super().check(task, graph)
        if graph is not None and graph.nodes < 2:
            raise TacitError("one client has nobody to agree with: use IGL, or give the signals of several clients")

    def start(self, task: Signals, graph: Graph, z: Tensor | None = None) -> PPGLState:
        self.check(task, graph)
        z = self.prepare_z(task) if z is None else z
        gamma = torch.full((task.n,), self.gamma or 1 / graph.nodes, dtype=z.dtype)
        con = self.initial_weights(task, self.rho * (self.gamma or 1 / graph.nodes))
        w = con.expand_as(z).clone()
        guess = initial_dual(self._problem(z, gamma, con, task), z)
        return PPGLState(w, w, con, gamma, z, guess, z.new_full((task.n,), math.inf))

    def round(self, t: int, state: PPGLState, task: Signals, network: Network) -> PPGLState:
        problem = self._problem(state.z, state.gamma, state.con, task)
        w, before, u = self._local(problem, state)
        if self.noise is None or self.release == "rounds":
            w = self.release_graphs(t, w, problem, task)
        w = w.clamp(min=0)
        gamma = state.gamma[:, None]
        mean = network.mean(torch.cat([gamma * w, gamma], 1))
        con = prox(mean[:-1] / mean[-1], self.lam / (self.rho * network.graph.nodes * float(mean[-1])))
        gamma = state.gamma if self.gamma else 1 / (2 * (w - con).norm(dim=1) + self.gamma_epsilon)
        residual = self._problem(state.z, gamma, con, task).residual(w)
        return PPGLState(w, before if not self.noise_in_rounds else state.w, con, gamma, state.z, u, residual)

    def _local(self, problem: ClientProblem, state: PPGLState) -> tuple[Tensor, Tensor, Tensor]:
        if self.K is None:
            solution = solve(problem, state.u)
            return solution.w, state.w, solution.u
        return *self.gradient_steps(problem, state.w, state.before), state.u

    def _problem(self, z: Tensor, gamma: Tensor, con: Tensor, task: Signals | None) -> ClientProblem:
        """Problem (9); a step that is released may depend on what is public only, so its floor does."""
        row_mean_bound = task.row_mean_bound if task is not None and self.noise_in_rounds else None
        return self.problem(z, self.rho * gamma, con, row_mean_bound)

    def graphs(self, state: PPGLState) -> Tensor:
        return state.w

    def consensus(self, state: PPGLState) -> Tensor:
        return state.con

    def residual(self, state: PPGLState) -> Tensor:
        return state.residual

    def objective(self, state: PPGLState, network: Network) -> float:
        """Problem (8) with fixed weights; with adaptive ones, h(‖w_i − w_con‖) in place of γ_i/2 ‖w_i − w_con‖²."""
        fit = self.problem(state.z, torch.zeros_like(state.gamma), state.con).objective(state.w)
        r = (state.w - state.con).norm(dim=1)
        e = self.gamma_epsilon
        apart = self.gamma / 2 * r.square() if self.gamma else r / 2 - e / 4 * torch.log1p(2 * r / e)
        total = network.mean((fit + self.rho * apart)[:, None]) * network.graph.nodes
        return float(total) + self.lam * float(state.con.abs().sum())

    def with_paper_noise(self, epsilon: float, delta: float) -> Self:
        """The noise of Corollary 1 for (ε, δ) a *round*, with B_z = C: 2C √(2 ln(1.25/δ))/(ε N_i)."""
        if not epsilon > 0:
            raise TacitError(f"Corollary 1 needs ε > 0, not {epsilon}")
        return self.with_noise(math.sqrt(2) * classical_noise_multiplier(delta) / epsilon)

    def claim(self, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """Corollary 1 with Σδ = δ: T rounds of δ/T each, their ε added up. Theorem 2, for K > 1, needs a bound on ‖w‖
        that the paper does not give, so there is no claim to tell."""
        if self.release == "once" or self.noise is None or self.K != 1:
            return None
        multiplier = float(np.min(at_nodes(self.noise, nodes)))
        return rounds * math.sqrt(2) * classical_noise_multiplier(delta / rounds) / multiplier

    @property
    def notes(self) -> tuple[str, ...]:
        if self.noise is None:
            return ()
        if self.release == "once":
            return ("Each client's own graph is made of what it released, so it is as private as the consensus.",)
        return ("Each client's own graph is the one it sent, with its noise.",)


def prox(x: Tensor, mu: float) -> Tensor:
    """prox of μ‖·‖₁: soft thresholding.

    >>> prox(torch.tensor([3.0, 0.5, -2.0]), 1.0)
    tensor([ 2.,  0., -1.])
    """
    return x.sign() * (x.abs() - mu).clamp(min=0)
