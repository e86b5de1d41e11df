"""Smooth clipping in the L2 norm, as LT-ADMM-DP and PORTER use it."""

from __future__ import annotations

from torch import Tensor

from tacit.tasks.clipping.clip_norm import ClipNorm, clip_norms


@clip_norms.register("smooth")
class Smooth(ClipNorm):
    """g · C/(C + ‖g‖₂), which shortens every gradient."""

    def factor(self, norms: Tensor, bound: Tensor) -> Tensor:
        return bound / (bound + norms)
