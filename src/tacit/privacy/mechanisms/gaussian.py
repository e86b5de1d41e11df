"""Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy

from tacit.privacy.bounded import Bounded
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.mechanisms.base import AdditiveNoise, mechanisms
from tacit.privacy.mechanisms.loss import Array, PrivacyLoss

if TYPE_CHECKING:
    from torch import Tensor


class GaussianLoss(PrivacyLoss):
    """Q is N(0, 1) and P is N(μ, 1): the loss at the outcome x is μ x − μ²/2.

    Among all shifts of a given L2 norm, δ(ε) is the same in every direction, so that one dimension suffices.

    δ(ε) is convex in the total variation s = 2Φ(μ/2) − 1: ∂δ/∂μ = φ(ε/μ − μ/2), so that
    ∂δ/∂s ∝ exp(−ε²/2μ² + ε/2), which grows with μ.
    """

    name = "Gaussian"
    delta_is_convex = True
    is_attained = True

    def cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        x = y / mu + mu / 2
        tail = scipy.special.ndtr(-np.abs(x))
        return np.where(x < 0, tail, 1 - tail), np.where(x < 0, 1 - tail, tail)

    def shifted_cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        above, below = self.cdf(-y, mu)  # by symmetry; the loss has no atoms
        return below, above

    def reach(self, mu: float, tail: float) -> float:
        return mu * (mu / 2 - float(scipy.special.ndtri(tail)))

    def total_variation(self, mu: Array) -> Array:
        return np.asarray(scipy.special.erf(mu / math.sqrt(8)))

    def total_variation_complement(self, mu: Array) -> Array:
        return np.asarray(scipy.special.erfc(mu / math.sqrt(8)))

    def combine(self, multipliers: Sequence[float]) -> float | None:
        return float(sum(multiplier**-2 for multiplier in multipliers) ** -0.5)

    def compose(self, counts: Mapping[float, int]) -> float | None:
        return math.hypot(*(math.sqrt(count) * mu for mu, count in counts.items()))

    def epsilon(self, mu: float, delta: float) -> float | None:
        return mu_to_epsilon(mu, delta)

    def to_dp_event(self, dp_accounting: Any, multiplier: float) -> Any:
        return dp_accounting.GaussianDpEvent(multiplier)


@mechanisms.register("gaussian")
@dataclass(frozen=True, eq=False)
class Gaussian(AdditiveNoise):
    """Adds N(0, (noise_multiplier · sensitivity)²) to every coordinate.

    Formal guarantee: one release of a value with L2 sensitivity Δ is (1 / noise_multiplier)-GDP. A bound in L1
    suffices as well, because ‖v‖₂ ≤ ‖v‖₁.
    """

    name: ClassVar[str] = "gaussian"
    loss: ClassVar[PrivacyLoss] = GaussianLoss()

    def add_noise(self, value: Tensor, scale: Array, bounded: Bounded, *, strict: bool = True) -> None:
        noise, nodes = bounded.context.noise, bounded.context.nodes
        noise.gaussian_(value, scale, f"noise/{bounded.purpose}", nodes, bounded.step, strict=strict)
