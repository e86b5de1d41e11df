"""Clipping in the L2 norm."""

from __future__ import annotations

import torch
from torch import Tensor

from tacit.tasks.clipping.clip_norm import ClipNorm, clip_norms


@clip_norms.register("l2")
class L2(ClipNorm):
    """g · min(1, C/‖g‖₂)."""

    def factor(self, norms: Tensor, bound: Tensor) -> Tensor:
        return bound / torch.maximum(norms, bound)
