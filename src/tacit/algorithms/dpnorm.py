"""ECL and DP-Norm: primal–dual learning with variables on edges, noised messages and normalised duals."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm, algorithms, check_non_negative, check_positive, scatter_nodes
from tacit.algorithms.dpnorm_privacy import DPNormPrivacy
from tacit.algorithms.edges import EdgeState, degrees, edge_signs, hosted_edges, sum_over_neighbours
from tacit.algorithms.mixing_options import NO_MIXING
from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Edges, Network
from tacit.privacy import Array, Bounded
from tacit.tasks import Clip, Task

StepSize = Literal["paper", "code", "common"]


@dataclass(frozen=True)
class DPNormState(EdgeState):
    """Parameters x = w, received z, and the mean norm of each node's duals λ_i|j (n,) at the round's last exchange.

    The norm is only reported.
    """

    dual: Tensor


@algorithms.register("dp-norm", example={"alpha": 0.0, "local_steps": 2, "lr": 0.01, "smoothness": 1.0})
@dataclass(frozen=True, kw_only=True)
class DPNorm(Algorithm[DPNormState]):
    """DP-Norm: primal–dual learning with noised messages and normalised duals.

        η_i = 1/(μ E_i K),   γ_i = 1 + α η_i,   A_i|j = ±1 by the order of i and j
        K times   w ← γ/(γ + η μ E) · (w − μ g(w) + (μ η/γ) Σ_j A z_i|j)
        n ~ N(0, σ²) once per round,   y_i|j = ((1 − α η) z_i|j − 2A (w + n)) / (1 + α η),   z_i|j ← y_j|i

    With α = 0 the duals are not normalised; with α = 0 and σ = 0 it is ECL.

    Args:
        lr: Step size μ.
        alpha: Normalisation α of the duals.
        local_steps: Local steps K per round.
        clip: Clipping bound G of a record's gradient.
        smoothness: L, a bound on the smoothness of every record's loss; required if there is noise. It is an
            assumption, except for logistic regression, where it is enforced: records with ‖x‖²/2 above L, with biases
            (‖x‖² + 1)/2, are scaled down.
        sigma: Standard deviation σ of the noise on w; privacy.epsilon sets it instead. 0 adds no noise.
        step: "paper" for the η above, "code" for η = 1/(μ(KE + K − E)) of the published ECL code. Where degrees differ,
            both minimise a loss that weights nodes by 1/η_i. "common" uses the mean degree for all nodes, which weights
            them equally.
        bound: How Δ₂ is bounded: by the paper's Lemma 1 ("lemma"), by its formula even where its condition on μ does
            not hold ("formula"), by `DPNormPrivacy.sensitivity` ("contraction"), or by the latter with noise and claim
            of Lemma 1 without its factor c ("without-c").
        inner_noise: Noise −(μη/γ) E n in the local steps. "fresh" draws it anew in every step (appendix B) and does not
            affect the guarantee. "same" uses the round's n, whose effect on the models then cancels over the rounds:
            nothing is guaranteed.
        asynchronous: Exchange each edge at a random local step. The same noise then covers different w, whose
            difference is revealed: nothing is guaranteed.
        scale: Noise multiplier σ/Δ₂, one for all nodes or one per node; set by `bind` or `with_noise`.
        claimed_ratio: Δ₂ of the claim divided by Δ₂ of the guarantee, one per node; set by `bind`.

    References:
        Fukami et al.: DP-Norm, Algorithm 1.
    """

    needs: ClassVar[tuple[str, ...]] = ("undirected", "connected", "static", "neighbours")
    noise_parameters: ClassVar[tuple[str, ...]] = ("sigma",)
    exact_values_stay_local: ClassVar[bool] = True
    refused_options: ClassVar[Mapping[str, str]] = {
        **NO_MIXING,
        "weights": "its bound on a step is that of gradients without weights",
    }

    lr: float = 0.03
    alpha: float = 0.2
    local_steps: int = 10
    clip: float = 1.0
    smoothness: float | None = None
    sigma: float | None = None
    step: StepSize = "paper"
    bound: Literal["lemma", "formula", "contraction", "without-c"] = "lemma"
    inner_noise: Literal["none", "fresh", "same"] = "none"
    asynchronous: bool = False
    scale: float | Array | None = field(default=None, compare=False)
    claimed_ratio: Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_positive("DP-Norm", lr=self.lr, clip=self.clip)
        check_non_negative("DP-Norm", alpha=self.alpha, smoothness=self.smoothness, sigma=self.sigma)
        if self.local_steps < 1:
            raise TacitError(f"DP-Norm: local_steps must be at least 1, got {self.local_steps}")

    @property
    def title(self) -> str:
        if self.sigma == 0:
            return "ECL" if self.alpha == 0 else "DP-Norm without noise"
        return "DP-Norm" if self.alpha else "DP-Norm (α = 0)"

    @property
    def privacy(self) -> DPNormPrivacy:
        return DPNormPrivacy(self)

    def start(self, task: Task, graph: Graph) -> DPNormState:
        self._warn_of_degrees(graph)
        if self.sigma != 0:
            self.privacy.sensitivity(task, graph)  # raises now if there is no bound
            task.limit_smoothness(self.smoothness or 0.0)
        x = task.initial()
        return DPNormState(x, x.new_zeros(len(hosted_edges(task, graph).row), task.d), x.new_zeros(task.n))

    def round(self, t: int, state: DPNormState, task: Task, network: Network) -> DPNormState:
        edges, n = network.edges(t), task.n
        sign = edge_signs(edges, state.x)
        degree = degrees(edges, n, state.x)
        eta = self.eta(degree, network.graph)
        gamma = 1 + self.alpha * eta
        w, z, exchanges = state.x, state.z, self._exchanges(t, edges, task, network.graph)
        noise = self._release(t, torch.zeros_like(w), task, network) if self.privacy.reuses_noise else None
        for k in range(self.local_steps):
            step = t * self.local_steps + k
            pull = self.lr * eta / gamma * sum_over_neighbours(sign * z, edges, n)
            g = task.gradient(w, step, Clip(self.clip), "descent").use_locally()
            if self.inner_noise != "none":
                inner = noise if self.inner_noise == "same" else self._fresh_noise(w, step, task, network)
                pull = pull - self.lr * eta / gamma * degree * inner
            w = gamma / (gamma + eta * self.lr * degree) * (w - self.lr * g + pull)
            if k in exchanges:
                noised = self._release(t, w.clone(), task, network) if noise is None else w + noise
                y = ((2 - gamma[edges.row]) * z - 2 * sign * noised[edges.row]) / gamma[edges.row]
                dual = eta[edges.row] / 2 * (y + z)  # λ
                z = network.swap(t, torch.where(exchanges[k].to(z.device)[:, None], y, z), exchanges[k])
        mean_norm = sum_over_neighbours(dual.norm(dim=1, keepdim=True), edges, n)[:, 0] / degree[:, 0]
        return DPNormState(w, z, mean_norm)

    def models(self, state: DPNormState) -> Tensor:
        return state.x

    def norms(self, state: DPNormState) -> dict[str, Tensor]:
        return {**super().norms(state), "dual_norm": state.dual}

    def bind(self, task: Task, graph: Graph) -> Self:
        scale, ratio = self.scale, self.claimed_ratio
        if self.sigma and scale is None:
            scale = scatter_nodes(self.sigma / self.privacy.sensitivity(task, graph), task.nodes)
        if self.sigma != 0 and self.bound == "without-c" and ratio is None:
            ratio = scatter_nodes(self.privacy.claimed_ratio(task, graph), task.nodes)
        return replace(self, scale=scale, claimed_ratio=ratio)

    def with_noise(self, scale: Array) -> Self:
        return super().with_noise(scale) if self.sigma == 0 else replace(self, scale=scale)

    def eta(self, degree: Any, graph: Graph) -> Any:
        """Return η_i of nodes with the given numbers of neighbours, as an array or tensor like `degree`."""
        if self.step == "common":
            degree = 0 * degree + float(graph.out_degrees(0).mean())
        steps = self.local_steps
        return 1 / (self.lr * (steps * degree + steps - degree if self.step == "code" else degree * steps))

    def _warn_of_degrees(self, graph: Graph) -> None:
        """Warn if 1/η_i, the weight of a node's loss, differs between nodes."""
        degrees = graph.out_degrees(0)
        if self.step != "common" and degrees.min() < degrees.max():
            weight = "E_i" if self.step == "paper" else "K E_i + K − E_i"
            warnings.warn(
                f"{self.title}: the numbers of neighbours E_i differ ({degrees.min()} to {degrees.max()}), so the run "
                f"minimises the weighted loss Σ ({weight}) f_i: "
                'set algorithm.step = "common" for Σ f_i, or use a regular graph',
                stacklevel=3,
            )

    def _release(self, t: int, value: Tensor, task: Task, network: Network) -> Tensor:
        """Return `value` (n, d) plus the round's noise."""
        mechanism = self.bind(task, network.graph).privacy.mechanism(task.nodes)
        bound = None if self.sigma == 0 else self.privacy.sensitivity(task, network.graph)
        return mechanism.release(
            Bounded(value, bound, "l2", self.privacy.sampling(task), t, "model", task.release_context)
        )

    def _fresh_noise(self, w: Tensor, step: int, task: Task, network: Network) -> Tensor:
        """Return noise like that of a release, drawn anew for local step number `step`."""
        noise = torch.zeros_like(w)
        if self.sigma != 0:
            mechanism = self.bind(task, network.graph).privacy.mechanism(task.nodes)
            sigma = mechanism.multipliers(task.n) * self.privacy.sensitivity(task, network.graph)
            task.noise.gaussian_(noise, sigma, "noise/inner", task.nodes, step)
        return noise

    def _exchanges(self, t: int, edges: Edges, task: Task, graph: Graph) -> dict[int, Tensor]:
        """Return after which local steps which edges exchange: all after the last, or each after a random one.

        The random steps are public, so all nodes take part in the same number of exchanges.
        """
        if not self.asynchronous:
            return {self.local_steps - 1: torch.ones(len(edges.row), dtype=torch.bool)}

        def random_steps(source: Nodes, target: Nodes) -> Tensor:
            low, high = np.minimum(source, target), np.maximum(source, target)
            return task.public.words(f"exchange {t}", low, high, 1)[:, 0].remainder(self.local_steps)

        own = random_steps(edges.source, edges.target)
        return {k: own == k for k in set(random_steps(*graph.edges(t)).tolist())}


@algorithms.register("ecl", example={"local_steps": 2})
def ecl(
    lr: float = 0.03,
    local_steps: int = 10,
    clip: float = 1e9,
    step: StepSize = "paper",
    asynchronous: bool = False,
) -> DPNorm:
    """ECL: edge-consensus learning, without noise and without normalisation. Parameters as in dp-norm."""
    return DPNorm(lr=lr, local_steps=local_steps, clip=clip, step=step, asynchronous=asynchronous, alpha=0.0, sigma=0.0)
