"""ECL and DP-Norm: primal–dual learning over edges, with noise on the messages and a pull on the duals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm, algorithms, by_id
from tacit.algorithms.dpnorm_privacy import DPNormPrivacy
from tacit.algorithms.edges import OnEdges, at_start, degrees, gathered
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.networks.network import Edges
from tacit.privacy.bounded import Bounded
from tacit.privacy.ledger import Array
from tacit.tasks import Clip, Task


@dataclass(frozen=True)
class Normed(OnEdges):
    """Parameters x = w, received z, and the mean norm of each node's duals λ_i|j (n,) at the last exchange of a round,
    which is only watched."""

    dual: Tensor


@algorithms.register("dp-norm")
@dataclass(frozen=True, kw_only=True)
class DPNorm(Algorithm[Normed]):
    """DP-Norm: primal–dual learning with noised messages and normalised duals (Fukami et al.: Algorithm 1).

        η_i = 1/(μ E_i K),   γ_i = 1 + α η_i,   A_i|j = ±1 by the order of i and j
        K times   w ← γ/(γ + η μ E) · (w − μ g(w) + (μ η/γ) Σ_j A z_i|j)
        n ~ N(0, σ²) once a round,   y_i|j = ((1 − α η) z_i|j − 2A (w + n)) / (1 + α η),   z_i|j ← y_j|i

    μ is `lr`, K `local_steps`, G `clip` and L `smoothness`. α = 0 leaves the duals alone, and without noise is ECL.
    `step = "code"` takes η from the published ECL code, 1/(μ(KE + K − E)). `asynchronous` exchanges each edge at a
    random inner step; the same noise then covers different w, whose difference is told bare: nothing is guaranteed.
    `inner_noise` puts noise of the same σ into the w-update too, −(μη/γ) E n: "fresh" draws it anew in every inner
    step, as appendix B does, and touches no guarantee; "same" takes the n that Algorithm 1 draws for the round, whose
    effect on the models is then undone, round after round, and with it the privacy: nothing is guaranteed.

    Claim: Theorem 1. Formal guarantee: a round releases w + n, where a record moves w by Δ₂ at most, so R rounds are
    exactly √R Δ₂/σ-GDP. Lemma 1 has Δ₂ = 2cμG (K/d_i + 1/B) with c = 1 + 2(γ + 1). `bound = "contraction"` is
    proven in `DPNormPrivacy.sensitivity`; at the published settings it is a quarter of the lemma's. Clipping bounds
    every record's gradient by G; that every record's loss is L-smooth is taken for granted, so L must be stated where
    there is noise. For logistic regression it is known, ‖x‖²/2 without and (‖x‖² + 1)/2 with biases, and checked.
    """

    needs: ClassVar[tuple[str, ...]] = ("undirected", "connected", "static")

    lr: float = 0.03
    alpha: float = 0.2
    local_steps: int = 10
    clip: float = 1.0
    smoothness: float | None = None
    sigma: float | None = None
    step: Literal["paper", "code"] = "paper"
    bound: Literal["lemma", "contraction"] = "lemma"
    inner_noise: Literal["none", "fresh", "same"] = "none"
    asynchronous: bool = False
    scale: float | Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for key, value in {"lr": self.lr, "clip": self.clip}.items():
            if not 0 < value < math.inf:
                raise TacitError(f"DP-Norm: {key} must be positive and finite, not {value}")
        for key, size in {"alpha": self.alpha, "smoothness": self.smoothness, "sigma": self.sigma}.items():
            if size is not None and not 0 <= size < math.inf:
                raise TacitError(f"DP-Norm: {key} must be 0 or more and finite, not {size}")
        if self.local_steps < 1:
            raise TacitError(f"DP-Norm: local_steps must be at least 1, not {self.local_steps}")

    @property
    def title(self) -> str:
        if self.sigma == 0:
            return "ECL" if self.alpha == 0 else "DP-Norm without noise"
        return "DP-Norm" if self.alpha else "DP-Norm (α = 0)"

    @property
    def privacy(self) -> DPNormPrivacy:
        return DPNormPrivacy(self)

    def start(self, task: Task, graph: Graph) -> Normed:
        if self.sigma != 0:
            self.privacy.sensitivity(task, graph)  # what has none is refused now
        x = task.initial()
        return Normed(x, x.new_zeros(len(at_start(task, graph).row), task.d), x.new_zeros(task.n))

    def round(self, t: int, state: Normed, task: Task, network: Network) -> Normed:
        edges = network.edges(t)
        sign = torch.from_numpy(np.where(edges.source < edges.target, 1.0, -1.0)).to(state.x.dtype)[:, None]
        degree = degrees(edges, task.n, state.x)
        eta = self.eta(degree)
        gamma = 1 + self.alpha * eta
        w, z, exchanges = state.x, state.z, self._exchanges(t, edges, task, network.graph)
        noise = self._release(t, torch.zeros_like(w), task, network) if self.privacy.reuses_noise else None
        for k in range(self.local_steps):
            pull = self.lr * eta / gamma * gathered(sign * z, edges, task.n)
            step = t * self.local_steps + k
            g = task.gradient(w, step, Clip(self.clip), "descent").use_locally()
            if self.inner_noise != "none":
                added = noise if self.inner_noise == "same" else self._inner(w, step, task, network)
                pull = pull - self.lr * eta / gamma * degree * added
            w = gamma / (gamma + eta * self.lr * degree) * (w - self.lr * g + pull)
            if k in exchanges:
                noised = self._release(t, w.clone(), task, network) if noise is None else w + noise
                y = ((2 - gamma[edges.row]) * z - 2 * sign * noised[edges.row]) / gamma[edges.row]
                dual = eta[edges.row] / 2 * (y + z)  # λ, before z makes room for what the neighbours sent
                z = network.swap(t, torch.where(exchanges[k][:, None], y, z), exchanges[k])
        return Normed(w, z, gathered(dual.norm(dim=1, keepdim=True), edges, task.n)[:, 0] / degree[:, 0])

    def models(self, state: Normed) -> Tensor:
        return state.x

    def norms(self, state: Normed) -> dict[str, Tensor]:
        return {**super().norms(state), "dual_norm": state.dual}

    def bind(self, task: Task, graph: Graph) -> Self:
        if not self.sigma or self.scale is not None:
            return self
        return replace(self, scale=by_id(self.sigma / self.privacy.sensitivity(task, graph), task.nodes))

    def with_noise(self, scale: Array) -> Self:
        return super().with_noise(scale) if self.sigma == 0 else replace(self, scale=scale)

    def _release(self, t: int, value: Tensor, task: Task, network: Network) -> Tensor:
        """`value` (n, d) plus the round's noise."""
        known = self.bind(task, network.graph)
        bound = None if self.sigma == 0 else self.privacy.sensitivity(task, network.graph)
        bounded = Bounded(value, bound, "l2", self.privacy.sampling(task), t, "model", task.release_context)
        return known.privacy.mechanism(task.nodes).release(bounded)

    def _inner(self, w: Tensor, step: int, task: Task, network: Network) -> Tensor:
        """Noise of the release's deviation, for inner step number `step`."""
        noise = torch.zeros_like(w)
        if self.sigma != 0:
            known = self.bind(task, network.graph).privacy.mechanism(task.nodes)
            deviation = known.multipliers(task.n) * self.privacy.sensitivity(task, network.graph)
            task.noise.gaussian_(noise, deviation, "noise/inner", task.nodes, step)
        return noise

    def eta(self, degree: Any) -> Any:
        """η_i of a node with so many neighbours."""
        steps = self.local_steps
        return 1 / (self.lr * (degree * steps if self.step == "paper" else steps * degree + steps - degree))

    def _exchanges(self, t: int, edges: Edges, task: Task, graph: Graph) -> dict[int, Tensor]:
        """After which inner steps which edges are used: all after the last, or each after a random one.

        All nodes know when anybody's are, so that they count exchanges alike.
        """
        if not self.asynchronous:
            return {self.local_steps - 1: torch.ones(len(edges.row), dtype=torch.bool)}

        def when(source: Nodes, target: Nodes) -> Tensor:
            low, high = np.minimum(source, target), np.maximum(source, target)
            return task.public.words(f"exchange {t}", low, high, 1)[:, 0].remainder(self.local_steps)

        own = when(edges.source, edges.target)
        return {k: own == k for k in set(when(*graph.edges(t)).tolist())}


@algorithms.register("ecl")
def ecl(
    lr: float = 0.03,
    local_steps: int = 10,
    clip: float = 1e9,
    step: Literal["paper", "code"] = "paper",
    asynchronous: bool = False,
) -> DPNorm:
    """ECL: edge-consensus learning, without noise and without normalisation."""
    return DPNorm(lr=lr, local_steps=local_steps, clip=clip, step=step, asynchronous=asynchronous, alpha=0.0, sigma=0.0)
