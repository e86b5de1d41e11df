"""Automatic (normalised) clipping, which gives almost every gradient the same length."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor

from tacit.tasks.clipping.clip_norm import ClipNorm, clip_norms

STABILITY = 0.01
"""γ: gradients much shorter than this stay short, so that a record that is already learnt does not push the model."""


@clip_norms.register("automatic")
class Automatic(ClipNorm):
    """g · C/(‖g‖₂ + γ) with γ = 0.01 (AUTO-S), which also lengthens short gradients.

    The bound C then scales all gradients alike, so lr · C is one hyperparameter: only the step size is tuned.

    Privacy:
        ‖g · C/(‖g‖ + γ)‖ = C · ‖g‖/(‖g‖ + γ) ≤ C, because γ > 0 is a constant. So a record moves a sum of clipped
        gradients by at most C if it is added or removed, and by at most 2C if it is replaced, as with the "l2" norm.
        In floating point, `norms` may be rounded: an upper bound of ‖g‖ gives a smaller factor, and `Clip` lowers the
        bound by more than the rounding of a norm. The factor never exceeds C/γ, so that it cannot overflow.

    References:
        Bu, Wang, Zha, Karypis: Automatic clipping, NeurIPS 2023.
    """

    def factor(self, norms: Tensor, bound: Tensor) -> Tensor:
        return bound / (norms + STABILITY)


@clip_norms.register("automatic-l1")
class AutomaticL1(Automatic):
    """g · C/(‖g‖₁ + γ): automatic clipping for Laplace noise. The proof is that of "automatic", in the L1 norm."""

    degree: ClassVar[Literal[1, 2]] = 1
