"""Clipping: bounding the norm of gradients, so that one record (or one batch) moves a result by a bounded amount."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from tacit.device import as_double
from tacit.errors import TacitError
from tacit.tasks.clipping import ClipNorm, clip_norms, vector_norms

_MARGIN = 72  # machine epsilons below the bound; rounding adds at most 17 of them per factor 64 of the vector's length


Clipping = Literal["method", "automatic"]
"""How gradients are clipped: as the method asks, or automatically, to the same bound."""


@cache
def _clip_norm(name: str) -> ClipNorm:
    return clip_norms.build(name)


@dataclass(frozen=True)
class Clip:
    """Scales g down to norm at most C.

    The bound used is a few machine epsilons below C, so that rounding never takes g beyond C.

    Args:
        bound: C, one for all nodes or one per node (n,).
        norm: Name of a clip norm: "l2" and "l1" multiply by min(1, C/‖g‖) in that norm, "smooth" by C/(C + ‖g‖₂),
            "automatic" and "automatic-l1" by C/(‖g‖ + 0.01).
        per: What g is: the gradient of each "record", or the weighted sum over the "batch".

    >>> Clip(1.0).factor(torch.tensor([0.0, 0.5, 4.0]))
    tensor([1.0000, 1.0000, 0.2500])
    >>> Clip(1.0, "smooth").clip_rows(torch.tensor([[3.0, 0.0]]))
    tensor([[0.7500, 0.0000]])
    """

    bound: float | Tensor
    norm: str = "l2"
    per: Literal["record", "batch"] = "record"

    def __post_init__(self) -> None:
        _clip_norm(self.norm)  # raises if there is no such norm
        if self.per not in ("record", "batch"):
            raise TacitError(f'clip per must be "record" or "batch", got "{self.per}"')
        bound = self.bound
        if isinstance(bound, Tensor):
            if bound.dim() != 1 or not bool(((bound > 0) & bound.isfinite()).all()):
                raise TacitError("clip bounds must be positive and finite, one per node")
        elif not (bound > 0 and math.isfinite(bound)):
            raise TacitError(f"clip bound must be positive and finite, got {bound}")

    @property
    def order(self) -> Literal["l1", "l2"]:
        """The norm of the sensitivity."""
        return "l1" if self.degree == 1 else "l2"

    @property
    def degree(self) -> Literal[1, 2]:
        """p of the Lp norm that is bounded."""
        return _clip_norm(self.norm).degree

    def factor(self, norms: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Return the factors for gradients of the given norms (n, …); NaN for a norm of NaN.

        `dtype` is that of the gradients, which decides how far below C the bound is; None: that of the norms.
        """
        bound = torch.as_tensor(self.bound, dtype=norms.dtype, device=norms.device)
        if bound.dim():
            bound = bound.view(-1, *[1] * (norms.dim() - 1))
        bound = bound * (1 - _MARGIN * torch.finfo(dtype or norms.dtype).eps)
        return _clip_norm(self.norm).factor(norms, bound)

    def scaled(self, weight: Tensor, norms: Tensor) -> Tensor:
        """Return weight · factor in the dtype of the weights, for weights (n, …) of gradients of the given norms.

        A product below the smallest normal number has few digits and could be rounded up, so 0 replaces it.
        """
        norms = as_double(norms)
        exact = weight.to(norms.device) * self.factor(norms, weight.dtype)
        least = torch.finfo(weight.dtype).smallest_normal
        return torch.where(exact.abs() < least, 0.0, exact).to(weight.dtype).to(weight.device)

    def clip_rows(self, g: Tensor) -> Tensor:
        """Return g (n, d) with each row clipped."""
        return g * self.scaled(g.new_ones(g.shape[:-1]), vector_norms(g, self.degree)).unsqueeze(-1)

    def automatic(self) -> Clip:
        """Return the automatic clip with the same bound, in the same norm: the sensitivity is the same.

        >>> Clip(2.0, "smooth").automatic(), Clip(2.0, "l1").automatic().norm
        (Clip(bound=2.0, norm='automatic', per='record'), 'automatic-l1')
        """
        return replace(self, norm="automatic" if self.degree == 2 else "automatic-l1")

    def for_nodes(self, nodes: slice) -> Clip:
        """Return the clip of some of the nodes."""
        return replace(self, bound=self.bound[nodes]) if isinstance(self.bound, Tensor) else self


def used_clip(clipping: Clipping, clip: Clip | None, *, differences: bool = False) -> Clip | None:
    """Return the clip to use for a method's own `clip`.

    Differences of gradients keep the method's clip: they get smaller as the run converges, and normalising would undo
    this.

    Raises:
        TacitError: `clipping` is "automatic", and the method does not clip.
    """
    if clipping == "method" or (clip is not None and differences):
        return clip
    if clip is None:
        raise TacitError('batch.clipping = "automatic" needs a method that clips: set algorithm.clip, or remove it')
    return clip.automatic()
