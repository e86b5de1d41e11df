"""Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.bounded import Bounded
from tacit.privacy.mechanisms.base import AdditiveNoise, mechanisms
from tacit.privacy.mechanisms.loss import Array, PrivacyLoss

if TYPE_CHECKING:
    from torch import Tensor


class LaplaceLoss(PrivacyLoss):
    """Q is Laplace(0, 1) and P is Laplace(μ, 1): the loss lies in [−μ, μ], with atoms at both ends.

    In one dimension nothing is lost: the noise p is log-concave, so the overlap ∫ min(p(x − v), e^ε p(x)) dx is
    log-concave in the shift v (Prékopa). Among all shifts of a given L1 norm, δ(ε) is greatest at one along an axis.

    δ(ε) = max(0, 1 − e^{ε/2} (1 − s)) is convex in the total variation s = 1 − e^{−μ/2}.
    """

    name = "Laplace"
    delta_is_convex = True
    is_attained = True

    def cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        above = np.where(y < -mu, 1.0, np.where(y < mu, np.exp(-(np.clip(y, -mu, mu) + mu) / 2) / 2, 0.0))
        return 1 - above, above

    def shifted_cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        below = np.where(y < -mu, 0.0, np.where(y < mu, np.exp((np.clip(y, -mu, mu) - mu) / 2) / 2, 1.0))
        return below, 1 - below

    def reach(self, mu: float, tail: float) -> float:
        return mu

    def total_variation(self, mu: Array) -> Array:
        return np.asarray(-np.expm1(-mu / 2))

    def total_variation_complement(self, mu: Array) -> Array:
        return np.asarray(np.exp(-mu / 2))

    def max_loss(self, mu: float) -> float:
        return mu

    def to_dp_event(self, dp_accounting: Any, multiplier: float) -> Any:
        return dp_accounting.LaplaceDpEvent(multiplier)


@mechanisms.register("laplace")
@dataclass(frozen=True, eq=False)
class Laplace(AdditiveNoise):
    """Adds Laplace(0, noise_multiplier · sensitivity) to every coordinate.

    Formal guarantee: one release of a value with L1 sensitivity Δ is (1 / noise_multiplier, 0)-DP.
    """

    name: ClassVar[str] = "laplace"
    loss: ClassVar[PrivacyLoss] = LaplaceLoss()

    def noise_scale(self, bounded: Bounded) -> Array:
        if bounded.norm != "l1":
            raise TacitError('Laplace noise needs a value bounded in L1, got one bounded in L2: clip with norm = "l1"')
        return super().noise_scale(bounded)

    def add_noise(self, value: Tensor, scale: Array, bounded: Bounded, *, strict: bool = True) -> None:
        noise, nodes = bounded.context.noise, bounded.context.nodes
        noise.laplace_(value, scale, f"noise/{bounded.purpose}", nodes, bounded.step, strict=strict)
