"""Clipping in the L1 norm, for Laplace noise."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from tacit.tasks.clipping.clip_norm import ClipNorm, clip_norms


@clip_norms.register("l1")
class L1(ClipNorm):
    """g · min(1, C/‖g‖₁)."""

    degree: ClassVar[Literal[1, 2]] = 1

    def factor(self, norms: Tensor, bound: Tensor) -> Tensor:
        return bound / torch.maximum(norms, bound)
