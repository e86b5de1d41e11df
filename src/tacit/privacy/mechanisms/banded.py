"""Gaussian noise that is correlated in time, for batches that come again in the same order."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.bounded import Bounded
from tacit.privacy.mechanisms.base import AdditiveNoise, LedgerFields, Mechanism, mechanisms
from tacit.privacy.mechanisms.gaussian import Gaussian
from tacit.privacy.mechanisms.loss import Array, PrivacyLoss
from tacit.privacy.sampling import Sampling
from tacit.privacy.sampling.base import Ints

if TYPE_CHECKING:
    from torch import Tensor


@mechanisms.register("banded-gaussian")
@dataclass(frozen=True, eq=False)
class BandedGaussian(AdditiveNoise):
    """Adds noise that later steps partly take back: s_t x_t in step t, with x = C⁻¹ Z and Z standard Gaussian.

    C is lower triangular, banded and Toeplitz: C_{t, t−k} = c_k for k < w, with c_k = Π_{j ≤ k} (2j − 1)/(2j). Prefix
    sums of the noise, which are what gradient steps add to a model, are far smaller than those of independent noise at
    the same ε. The noise is a sequence of `steps` steps; a run with more steps begins a new sequence after them.

        y_t = v_t + s_t x_t,     s_t = m_t Δ_t n_t,     n_p = (Σ_{k < min(w, T − p)} c_k²)^½, the norm of column p of C

    m is `noise_multiplier`, Δ the sensitivity and T the end of the sequence. The bandwidth w of a node is the smaller
    one of `bandwidth` and the number of steps between two draws of the same record (`SamplingKind.spacing`). If that is
    1, as for Poisson sampling, w is 1 and the noise is independent.

    Formal guarantee: all releases of a run together are as private as independent Gaussian releases with the noise
    multipliers m_t would be. So they are accounted as such, with or without other releases.

    Proof:
        1. Let u_t = y_t / s_t and r = C u. C is lower triangular with a diagonal of ones, so y_0 … y_τ and r_0 … r_τ
           are functions of each other, and r_τ = Z_τ + Σ_{k<w} c_k v_{τ−k}/s_{τ−k}.
        2. Fix the order of the records, which does not depend on their values, and give it away. Fix the releases
           before τ. Then v_0 … v_τ are functions of the data (v_τ may depend on earlier releases in any way), and r_τ
           is a standard Gaussian around the sum. Only draws p that have the record change it, v_p by at most Δ_p.
        3. Draws of the same record are at least w steps apart, so at most one of them is in (τ − w, τ]. It moves the
           mean of r_τ by at most c_{τ−p} Δ_p / s_p = c_{τ−p} / (m_p n_p). This bound does not depend on earlier
           releases. So r_τ is one more adaptive Gaussian release, with μ = c_{τ−p} / (m_p n_p).
        4. Gaussian releases compose as the sum of μ². The rows that p moves add up to at most
           Σ_{k < min(w, T − p)} c_k² / (m_p n_p)² = 1/m_p²: the cost of one Gaussian release with multiplier m_p. ∎

        If the run ends before T, the columns are cut off and the cost is at most this; a step without a release counts
        as v = 0. Sequences have independent noise, so a new sequence, or a new noise key, may begin with another order
        of the records at the start of an epoch. Values are rounded and clamped after the noise is added, and only then
        used by later steps: both are functions of y.

    Args:
        noise_multiplier: m, one number for all nodes or one entry per node. It may change from step to step.
        bandwidth: The largest bandwidth, at least 1; infinity uses as many steps as an epoch has.
        steps: The length T of a sequence: the steps of a run as it is planned.

    References:
        Denisov et al.: Improved differential privacy for SGD via optimal private linear operators on adaptive streams,
        NeurIPS 2022. Choquette-Choo et al.: (Amplified) banded matrix factorization, NeurIPS 2023. Kalinin and Lampert:
        Banded square root matrix factorization, NeurIPS 2024.
    """

    name: ClassVar[str] = "banded-gaussian"
    loss: ClassVar[PrivacyLoss] = Gaussian.loss

    bandwidth: float = math.inf
    steps: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.bandwidth >= 1 or (math.isfinite(self.bandwidth) and self.bandwidth != int(self.bandwidth)):
            raise TacitError(f"bandwidth must be a whole number of at least 1, or infinite, got {self.bandwidth}")
        if self.steps < 1:
            raise TacitError(f"steps must be at least 1, got {self.steps}")

    def to_ledger(self, n: int) -> LedgerFields:
        return {**super().to_ledger(n), "bandwidth": str(self.bandwidth), "steps": str(self.steps)}

    @classmethod
    def from_ledger(cls, fields: LedgerFields) -> Self:
        multipliers, bandwidth, steps = fields["noise_multiplier"], fields["bandwidth"], fields["steps"]
        assert not isinstance(multipliers, str)
        assert isinstance(bandwidth, str)
        assert isinstance(steps, str)
        return cls(multipliers, float(bandwidth), int(steps))

    def is_same_kind(self, other: Mechanism) -> bool:
        return (
            isinstance(other, BandedGaussian)
            and super().is_same_kind(other)
            and (self.bandwidth, self.steps) == (other.bandwidth, other.steps)
        )

    def is_complete(self, steps: Collection[int]) -> bool:
        return len(steps) % self.steps == 0 and max(steps) < len(steps)

    def bandwidths(self, sampling: Sampling) -> Ints:
        """Return the bandwidth w (n,) of each node for records that are drawn like this."""
        spacing = [sampling.scheme.spacing(rate) for rate in sampling.rate.tolist()]
        return np.array([max(1, int(min(self.bandwidth, steps))) for steps in spacing], np.int64)

    def noise_scale(self, bounded: Bounded) -> Array:
        from tacit.privacy.banded_noise import column_norms

        remaining = self.steps - bounded.step % self.steps
        return super().noise_scale(bounded) * column_norms(self.bandwidths(bounded.sampling), remaining)

    def add_noise(self, value: Tensor, scale: Array, bounded: Bounded, *, strict: bool = True) -> None:
        import torch

        from tacit.privacy.banded_noise import banded_noise
        from tacit.privacy.noise import _rounded

        nodes, step, bandwidths = bounded.context.nodes, bounded.step, self.bandwidths(bounded.sampling)
        start = step - step % self.steps
        purpose = f"banded noise/{self.steps}/{bounded.purpose}"
        how = value.shape[1], bandwidths, start, value.device
        x = banded_noise(bounded.context.noise, purpose, nodes, step, *how)
        x.mul_(torch.from_numpy(scale).to(x.device)[:, None])
        for rows, columns, part in _rounded(value, scale, nodes, strict):
            part.add_(x[rows, columns].to(value.dtype).to(value.device))
