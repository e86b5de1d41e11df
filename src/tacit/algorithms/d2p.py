"""SGP and the Dyn-D²P family: stochastic gradient push, with private gradients in the family's case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm, algorithms, check_positive
from tacit.algorithms.d2p_privacy import D2PPrivacy
from tacit.algorithms.schedules import Geometric, Listed, Schedule
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy import Array
from tacit.tasks import Clip, Task, join

ClipPer = Literal["record", "batch"]


@dataclass(frozen=True)
class PushSumState:
    """Numerator x (n, d_s), push-sum weight w (n,), and the `local` parameters (n, d − d_s) that stay at their node.

    A directed graph biases x and w alike, so z = x / w is unbiased.
    """

    x: Tensor
    w: Tensor
    local: Tensor

    @property
    def z(self) -> Tensor:
        return self.x / self.w[:, None]


@dataclass(frozen=True, kw_only=True)
class D2P(Algorithm[PushSumState]):
    """Differentially private stochastic gradient push with any clipping bounds C_k and any noise multipliers.

        x½ = x − γ (clip(g(z); C_k) + N(0, σ_k²)),   σ_k = multiplier_k · sensitivity
        x, w ← Σ_j P_ij (x½_j, w_j),   z = x / w

    This is Algorithm 2 of the Dyn-D²P paper; `dyn_d2p`, `dyn_c_d2p`, `dyn_mu_d2p` and `const_d2p` choose the schedules.
    Without clipping and noise it is SGP. A batch of B records with per-record clipping replaces the paper's single
    record: the noise σ_k is added to the sum of the clipped gradients, which is then divided by B. With
    `clip_per = "batch"` the mean gradient of the batch takes the place of the paper's single gradient: it is clipped,
    and σ_k is added to it. One record then moves it by up to 2C_k.

    With `share`, nodes mix only the shared parameters. The local parameters' gradients get the same clip and noise by
    default, although they are never sent: an exact local layer would memorise records, and the shared gradients of all
    later rounds would depend on it. `local = "exact"` is accounted for that.

    Args:
        name: Title of the variant.
        lr: Step size γ.
        clip: Schedule of the clipping bound C_k; None does not clip.
        clip_per: Whether each record's gradient is clipped ("record") or the mean of the batch ("batch").
        noise: Schedule of the noise multiplier up to a constant; None adds no noise.
        scale: The constant, one for all nodes or one per node of the network; a target ε sets it.

    References:
        Zhu, Huang, Wang, Ji, Xu: Dyn-D²P, IJCAI 2025. Assran et al.: Stochastic gradient push, ICML 2019.
    """

    models_are_released: ClassVar[bool] = True
    exact_values_stay_local: ClassVar[bool] = True
    mixes_only: ClassVar[bool] = True
    mixed: ClassVar[tuple[str, ...]] = ("x", "w")
    refused_options: ClassVar[Mapping[str, str]] = {}
    sums_gradients: ClassVar[bool] = True
    partial: ClassVar[bool] = True
    noise_parameters: ClassVar[tuple[str, ...]] = ("noise_multiplier",)

    name: str = "D²P"
    lr: float = 0.1
    clip: Schedule | None = None
    clip_per: ClipPer = "record"
    noise: Schedule | None = None
    scale: float | Array | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.lr <= torch.finfo(torch.float32).max:
            raise TacitError(f"{self.title}: lr must be positive and finite, got {self.lr}")

    @property
    def title(self) -> str:
        return self.name

    @property
    def privacy(self) -> D2PPrivacy:
        return D2PPrivacy(self)

    @property
    def tolerates_dropout(self) -> bool:
        return True

    def with_rounds(self, rounds: int) -> Self:
        for schedule in (self.clip, self.noise):
            if schedule is not None:
                schedule(rounds - 1, rounds)  # raises now if the schedule has too few values
        return super().with_rounds(rounds)

    def check_extension(self, rounds: int) -> None:
        for key, schedule in {"clip": self.clip, "noise_multiplier": self.noise}.items():
            if isinstance(schedule, Listed) and len(schedule.values) < rounds:
                raise TacitError(
                    f"{self.title}: algorithm.{key} has {len(schedule.values)} values, so the run cannot be extended "
                    f"to {rounds} rounds"
                )

    def start(self, task: Task, graph: Graph) -> PushSumState:
        x, local = task.split(task.initial())
        return PushSumState(x, x.new_ones(task.n), local)

    def round(self, t: int, state: PushSumState, task: Task, network: Network) -> PushSumState:
        g = task.gradient(self.models(state), t, self.gradient_clip(t))
        noised = self.privacy.mechanism(t, task.nodes).release(g)
        shared, local = task.split(join(noised, g.local))
        x, w = network.mix(t, state.x.sub(shared, alpha=self.lr), state.w)
        return PushSumState(x, w, state.local.sub(local, alpha=self.lr))

    def models(self, state: PushSumState) -> Tensor:
        return join(state.z, state.local)

    def with_noise(self, scale: Array) -> Self:
        return replace(self, scale=scale) if self.noise is not None else super().with_noise(scale)

    def gradient_clip(self, t: int) -> Clip | None:
        """Return the clip of round t; None if gradients are not clipped."""
        return None if self.clip is None else Clip(self.clip(t, self.rounds), per=self.clip_per)


@algorithms.register("non-private")
@algorithms.register("sgp")
def sgp(lr: float = 0.1) -> D2P:
    """SGP: stochastic gradient push, without privacy. Dyn-D²P calls it Non-Private.

    Args:
        lr: Step size γ.
    """
    return D2P(name="SGP", lr=lr)


@algorithms.register("dyn-d2p")
def dyn_d2p(
    lr: float = 0.1,
    clip: float = 1.0,
    rho_c: float = 2.0,
    rho_mu: float = 2.0,
    noise_multiplier: float | None = None,
    clip_per: ClipPer = "record",
    name: str = "Dyn-D²P",
) -> D2P:
    """Dyn-D²P: the clipping bound C₀ρ_c^(−k/K) shrinks and the per-step budget μ₀ρ_μ^(k/K) grows over the rounds.

    The class `D2P` describes the update.

    Args:
        lr: Step size γ.
        clip: Clipping bound C₀ of the first round.
        rho_c: By which factor ρ_c the clipping bound shrinks over the run.
        rho_mu: By which factor ρ_μ the budget per step grows over the run.
        noise_multiplier: The first round's noise divided by its sensitivity, 1/μ₀ (1/2μ₀ with `clip_per = "batch"`);
            privacy.epsilon sets it instead.
        clip_per: Clip each record's gradient ("record") or the batch's mean ("batch"), which a record moves by 2C_k.
    """
    check_positive(name, clip=clip, rho_c=rho_c, rho_mu=rho_mu, noise_multiplier=noise_multiplier)
    bounds, multipliers = Geometric(clip, 1 / rho_c), Geometric(1.0, 1 / rho_mu)
    return D2P(name=name, lr=lr, clip=bounds, clip_per=clip_per, noise=multipliers, scale=noise_multiplier)


@algorithms.register("dyn-c-d2p")
def dyn_c_d2p(
    lr: float = 0.1,
    clip: float = 1.0,
    rho_c: float = 2.0,
    noise_multiplier: float | None = None,
    clip_per: ClipPer = "record",
) -> D2P:
    """Dyn[C]-D²P: only the clipping bound changes; the budget per step is constant. Parameters as in dyn-d2p."""
    return dyn_d2p(lr, clip, rho_c, 1.0, noise_multiplier, clip_per, "Dyn[C]-D²P")


@algorithms.register("dyn-mu-d2p")
def dyn_mu_d2p(
    lr: float = 0.1,
    clip: float = 1.0,
    rho_mu: float = 2.0,
    noise_multiplier: float | None = None,
    clip_per: ClipPer = "record",
) -> D2P:
    """Dyn[μ]-D²P: only the budget per step changes; the clipping bound is constant. Parameters as in dyn-d2p."""
    return dyn_d2p(lr, clip, 1.0, rho_mu, noise_multiplier, clip_per, "Dyn[μ]-D²P")


@algorithms.register("const-d2p")
def const_d2p(
    lr: float = 0.1, clip: float = 1.0, noise_multiplier: float | None = None, clip_per: ClipPer = "record"
) -> D2P:
    """Const-D²P: constant clipping bound and constant noise, the usual baseline. Parameters as in dyn-d2p."""
    return dyn_d2p(lr, clip, 1.0, 1.0, noise_multiplier, clip_per, "Const-D²P")


@algorithms.register("d2p", example={"clip": [1.0] * 200, "noise_multiplier": [6.0] * 200})
def d2p(clip: list[float], noise_multiplier: list[float], lr: float = 0.1, clip_per: ClipPer = "record") -> D2P:
    """D²P in its general form (Algorithm 2): a list of clipping bounds and of noise multipliers, one value per round.

    With privacy.epsilon, the multipliers are relative: the target ε sets the constant σ̃ by which all are multiplied.

    Args:
        clip: Clipping bounds C_k.
        noise_multiplier: Noise divided by sensitivity: σ_k / C_k, or σ_k / 2C_k with `clip_per = "batch"`.
        lr: Step size γ.
        clip_per: Clip each record's gradient ("record") or the batch's mean ("batch").
    """
    multipliers = Listed(noise_multiplier)
    return D2P(name="D²P (general)", lr=lr, clip=Listed(clip), clip_per=clip_per, noise=multipliers, scale=1.0)
