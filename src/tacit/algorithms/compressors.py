"""Compressors: smaller messages in place of whole vectors.

A compressor maps rows (n, d) to rows of the same shape, as the receiver reconstructs them. Its randomness depends on
node, step and purpose only, so the result is the same however the nodes are hosted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tacit.algorithms.privacy_plan import Nodes
from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.registry import Registry

_INDEX_BYTES = 4
_SEED_BYTES = 8


class Compressor(ABC):
    """C(x), an approximation of x that takes fewer bytes.

    Algorithms send the compression error in later rounds (error feedback).
    """

    @abstractmethod
    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        """Return what the receivers reconstruct from the rows x (n, d) of the given nodes."""

    @abstractmethod
    def row_bytes(self, x: Tensor) -> int:
        """Return the size of one compressed row in bytes."""


compressors: Registry[Compressor] = Registry("compressor")


@compressors.register("identity")
@dataclass(frozen=True)
class Identity(Compressor):
    """No compression."""

    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        return x

    def row_bytes(self, x: Tensor) -> int:
        return x[:1].nbytes


@dataclass(frozen=True)
class _Sparsifier(Compressor):
    """Keeps a `share` of the entries and sets the others to 0.

    Args:
        share: Share of the entries to keep, above 0 and at most 1.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise TacitError(f"the share of entries that a compressor keeps must be in (0, 1], got {self.share}")

    def entries(self, x: Tensor) -> int:
        """Return the number of entries of a row that are kept."""
        return max(1, math.ceil(self.share * x.shape[1]))


@compressors.register("top-k")
@dataclass(frozen=True)
class TopK(_Sparsifier):
    """The entries of largest magnitude, a `share` of them, with their indices.

    >>> import numpy as np
    >>> TopK(0.5)(torch.tensor([[3.0, -1.0, 0.5, -4.0]]), Noise.from_seed(0), np.array([0]), 0, "x")
    tensor([[ 3.,  0.,  0., -4.]])
    """

    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        indices = x.abs().topk(self.entries(x), 1).indices
        return torch.zeros_like(x).scatter_(1, indices, x.gather(1, indices))

    def row_bytes(self, x: Tensor) -> int:
        return self.entries(x) * (x.element_size() + _INDEX_BYTES)


@compressors.register("random-k")
@dataclass(frozen=True)
class RandomK(_Sparsifier):
    """A random `share` of the entries, not rescaled; the receiver derives the indices from a seed of 8 bytes."""

    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        words = noise.words(f"random-k/{purpose}", nodes, step, x.shape[1], device=x.device)
        indices = words.topk(self.entries(x), 1).indices
        return torch.zeros_like(x).scatter_(1, indices, x.gather(1, indices))

    def row_bytes(self, x: Tensor) -> int:
        return self.entries(x) * x.element_size() + _SEED_BYTES


@compressors.register("quantise")
@dataclass(frozen=True)
class Quantise(Compressor):
    """Unbiased random rounding of each entry to 2^(bits−1) − 1 levels per sign, relative to the row's largest entry.

    Args:
        bits: Bits per entry, 2 to 16.
    """

    bits: int = 8

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 16:
            raise TacitError(f"quantise: bits must be between 2 and 16, got {self.bits}")

    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        unit = x.abs().amax(1, keepdim=True) / (2 ** (self.bits - 1) - 1)
        words = noise.words(f"quantise/{purpose}", nodes, step, x.shape[1], device=x.device)
        uniform = words.to(x.dtype) * 2.0**-32 + 0.5
        levels = torch.where(unit > 0, x / unit, torch.zeros_like(x))
        rounded: Tensor = torch.floor(levels + uniform.clamp(0, 1 - 2.0**-24)) * unit
        return rounded

    def row_bytes(self, x: Tensor) -> int:
        return math.ceil(x.shape[1] * self.bits / 8) + x.element_size()
