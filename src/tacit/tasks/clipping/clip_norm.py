"""The contract of a clip norm, the registry of all of them, and accurate vector norms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tacit.registry import Registry

_BLOCK_SIZE = 64


class ClipNorm(ABC):
    """A way to scale a gradient g down to norm at most C.

    Attributes:
        degree: p of the Lp norm that is bounded, which is also the norm of the sensitivity.
    """

    degree: ClassVar[Literal[1, 2]] = 2

    @abstractmethod
    def factor(self, norms: Tensor, bound: Tensor) -> Tensor:
        """Return the factors by which gradients of these norms are multiplied.

        A factor times its norm must be at most `bound`. A norm of NaN must give NaN, so that an invalid gradient
        stays visible.
        """


clip_norms: Registry[ClipNorm] = Registry("clip norm")


def vector_norms(g: Tensor, degree: Literal[1, 2]) -> Tensor:
    """Return L1 or L2 norms over the last axis, accurate to a few units of the machine precision.

    `torch.linalg.vector_norm` adds the squares one by one. For two million single-precision numbers it can lose 2 %,
    and a gradient whose norm is underestimated exceeds its clipping bound. Squares are therefore summed in blocks;
    `Tensor.sum`, used for absolute values, does so itself.
    """
    if degree == 1:
        return g.abs().sum(-1)
    if g.shape[-1] <= _BLOCK_SIZE:
        norms: Tensor = torch.linalg.vector_norm(g, dim=-1)
        return norms
    whole = g.shape[-1] // _BLOCK_SIZE * _BLOCK_SIZE
    blocks = torch.linalg.vector_norm(g[..., :whole].reshape(*g.shape[:-1], -1, _BLOCK_SIZE), dim=-1)
    rest = torch.linalg.vector_norm(g[..., whole:], dim=-1, keepdim=True)
    return vector_norms(torch.cat([blocks, rest], -1), degree)
