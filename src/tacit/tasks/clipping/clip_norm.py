"""The contract of a clip norm, the registry of all of them, and accurate vector norms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from tacit.device import as_double, has_double
from tacit.registry import Registry

_BLOCK_SIZE = 64
_SMALL = 2.0**-50  # below, the squares of single-precision numbers lose digits or are 0


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
    """Return L1 or L2 norms over the last axis in double precision, accurate to a few units of g's machine precision.

    No norm is too small: an overflow gives ∞ (and the factor 0), and norms whose squares underflow are computed again.
    They are in double precision because a single-precision norm below 1e-38 has too few digits. If the device of g has
    no double precision, they are in main memory.

    `torch.linalg.vector_norm` adds the squares one by one. For two million single-precision numbers it can lose 2 %,
    and a gradient whose norm is underestimated exceeds its clipping bound. Squares are therefore summed in blocks;
    `Tensor.sum`, used for absolute values, does so itself.
    """
    if degree == 1:
        return as_double(g.abs().sum(-1))
    if not g.is_cpu and has_double(g.device):
        return _norms_on_device(g)
    norms = as_double(_root_sum_squares(g))
    small = norms < _SMALL
    if bool(small.any()):
        rows = as_double(g[small.to(g.device)])
        largest = torch.linalg.vector_norm(rows, torch.inf, dim=-1, keepdim=True)
        scale = largest.clamp(min=torch.finfo(torch.float64).smallest_normal)
        norms[small] = _root_sum_squares(rows / scale) * scale.squeeze(-1)
    return norms


def _norms_on_device(g: Tensor) -> Tensor:
    """Return L2 norms without a choice that depends on values, for which the computer would wait for the device."""
    norms = as_double(_root_sum_squares(g))
    if g.dtype != torch.float64:  # in double precision, the squares of other numbers do not underflow
        return torch.where(norms < _SMALL, torch.linalg.vector_norm(g, dim=-1, dtype=torch.float64), norms)
    scale = torch.linalg.vector_norm(g, torch.inf, dim=-1, keepdim=True)
    scale = scale.clamp(min=torch.finfo(torch.float64).smallest_normal)
    return torch.where(norms < _SMALL, _root_sum_squares(g / scale) * scale.squeeze(-1), norms)


def _root_sum_squares(g: Tensor) -> Tensor:
    """Return the roots of the sums of squares over the last axis."""
    if g.shape[-1] <= _BLOCK_SIZE:
        norms: Tensor = torch.linalg.vector_norm(g, dim=-1)
        return norms
    whole = g.shape[-1] // _BLOCK_SIZE * _BLOCK_SIZE
    blocks = torch.linalg.vector_norm(g[..., :whole].reshape(*g.shape[:-1], -1, _BLOCK_SIZE), dim=-1)
    rest = torch.linalg.vector_norm(g[..., whole:], dim=-1, keepdim=True)
    return _root_sum_squares(torch.cat([blocks, rest], -1))
