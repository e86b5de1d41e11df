"""Bounding a gradient's norm, so that one record (or one batch) can move the result only so far."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from tacit.errors import TacitError

_BLOCK = 64  # numbers whose squares are summed one by one
_SHORT = 72  # eps by which a bound is not used up; rounding errs by 17 of them at most for every factor 64 of length


@dataclass(frozen=True)
class Clip:
    """Scale g down to norm at most C = `bound`, one C for all nodes or one each (n,).

    `l2` and `l1` multiply by min(1, C/‖g‖) in that norm; `smooth` by C/(C + ‖g‖₂), which is never 1.
    `per` says what g is: the gradient of each record, or the weighted sum over the batch. C is a few eps short of the
    bound, so that no rounding takes g beyond it.

    >>> Clip(1.0).factor(torch.tensor([0.0, 0.5, 4.0]))
    tensor([1.0000, 1.0000, 0.2500])
    >>> Clip(1.0, "smooth").rows(torch.tensor([[3.0, 0.0]]))
    tensor([[0.7500, 0.0000]])
    """

    bound: float | Tensor
    norm: Literal["l2", "l1", "smooth"] = "l2"
    per: Literal["record", "batch"] = "record"

    def __post_init__(self) -> None:
        if self.norm not in ("l2", "l1", "smooth"):
            raise TacitError(f'clip norm must be "l2", "l1" or "smooth", not "{self.norm}"')
        if self.per not in ("record", "batch"):
            raise TacitError(f'clip per must be "record" or "batch", not "{self.per}"')
        bound = self.bound
        if isinstance(bound, Tensor):
            if bound.dim() != 1 or not bool(((bound > 0) & bound.isfinite()).all()):
                raise TacitError("clip bounds must be positive and finite, one a node")
        elif not (bound > 0 and math.isfinite(bound)):
            raise TacitError(f"clip bound must be positive and finite, not {bound}")

    @property
    def order(self) -> Literal["l1", "l2"]:
        """The norm that is bounded: that of the sensitivity."""
        return "l1" if self.norm == "l1" else "l2"

    @property
    def degree(self) -> Literal[1, 2]:
        """p of the Lp norm that is bounded."""
        return 1 if self.norm == "l1" else 2

    def factor(self, norms: Tensor) -> Tensor:
        """What to multiply by, given norms (n, …); NaN gives NaN, so that nothing broken looks sound."""
        bound = torch.as_tensor(self.bound, dtype=norms.dtype, device=norms.device)
        if bound.dim():
            bound = bound.view(-1, *[1] * (norms.dim() - 1))
        bound = bound * (1 - _SHORT * torch.finfo(norms.dtype).eps)
        return bound / (bound + norms) if self.norm == "smooth" else bound / torch.maximum(norms, bound)

    def rows(self, g: Tensor) -> Tensor:
        """Each row of g (n, d) clipped."""
        return g * self.factor(length(g, self.degree)).unsqueeze(-1)

    def at(self, nodes: slice) -> Clip:
        """The same for some of the nodes."""
        return replace(self, bound=self.bound[nodes]) if isinstance(self.bound, Tensor) else self


def length(g: Tensor, degree: Literal[1, 2]) -> Tensor:
    """L1 or L2 norms over the last axis, to a few eps.

    `vector_norm` adds one by one: of two million single-precision numbers it can lose 2 %, and a gradient that seems
    shorter than it is passes its clip. So squares are summed in blocks here, and absolute values by `sum`, which
    has blocks of its own.
    """
    if degree == 1:
        return g.abs().sum(-1)
    if g.shape[-1] <= _BLOCK:
        norms: Tensor = torch.linalg.vector_norm(g, dim=-1)
        return norms
    whole = g.shape[-1] // _BLOCK * _BLOCK
    blocks = torch.linalg.vector_norm(g[..., :whole].reshape(*g.shape[:-1], -1, _BLOCK), dim=-1)
    rest = torch.linalg.vector_norm(g[..., whole:], dim=-1, keepdim=True)
    return length(torch.cat([blocks, rest], -1), degree)
