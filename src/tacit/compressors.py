"""Messages made smaller: what a node sends instead of a vector, and how many bytes that takes.

A compressor maps rows (n, d) to rows of the same shape, as the receiver will read them. Its randomness is keyed by
node, step and purpose like all other, so it is the same however nodes are hosted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy.noise import Noise
from tacit.registry import Registry

Nodes = npt.NDArray[np.int64]
_INDEX = 4  # bytes that say where a number belongs


class Compressor(ABC):
    """C(x). Without compression ‖x − C(x)‖ is 0; with it the rest is sent in later rounds (error feedback)."""

    @abstractmethod
    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        """What the receivers read of the rows x (n, d), which belong to the given nodes."""

    @abstractmethod
    def row_bytes(self, x: Tensor) -> int:
        """How many bytes a row takes on the wire."""


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
class _Some(Compressor):
    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise TacitError(f"a compressor keeps a share between 0 and 1 of the numbers, not {self.share}")

    def kept(self, x: Tensor) -> int:
        return max(1, math.ceil(self.share * x.shape[1]))


@compressors.register("top-k")
@dataclass(frozen=True)
class TopK(_Some):
    """The numbers of greatest magnitude, a `share` of them, with their places.

    >>> TopK(0.5)(torch.tensor([[3.0, -1.0, 0.5, -4.0]]), Noise.from_seed(0), np.array([0]), 0, "x")
    tensor([[ 3.,  0.,  0., -4.]])
    """

    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        places = x.abs().topk(self.kept(x), 1).indices
        return torch.zeros_like(x).scatter_(1, places, x.gather(1, places))

    def row_bytes(self, x: Tensor) -> int:
        return self.kept(x) * (x.element_size() + _INDEX)


@compressors.register("random-k")
@dataclass(frozen=True)
class RandomK(_Some):
    """A random `share` of the numbers, as they are; the places follow from a seed of 8 bytes."""

    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        words = noise.words(f"random-k/{purpose}", nodes, step, x.shape[1])
        places = words.topk(self.kept(x), 1).indices
        return torch.zeros_like(x).scatter_(1, places, x.gather(1, places))

    def row_bytes(self, x: Tensor) -> int:
        return self.kept(x) * x.element_size() + 8


@compressors.register("quantise")
@dataclass(frozen=True)
class Quantise(Compressor):
    """Each number rounded at random, without bias, to one of 2^(bits−1) − 1 levels of either sign of the greatest."""

    bits: int = 8

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 16:
            raise TacitError(f"quantisation takes 2 to 16 bits a number, not {self.bits}")

    def __call__(self, x: Tensor, noise: Noise, nodes: Nodes, step: int, purpose: str) -> Tensor:
        unit = x.abs().amax(1, keepdim=True) / (2 ** (self.bits - 1) - 1)
        uniform = noise.words(f"quantise/{purpose}", nodes, step, x.shape[1]).to(x.dtype) * 2.0**-32 + 0.5
        levels = torch.where(unit > 0, x / unit, torch.zeros_like(x))
        rounded: Tensor = torch.floor(levels + uniform.clamp(0, 1 - 2.0**-24)) * unit
        return rounded

    def row_bytes(self, x: Tensor) -> int:
        return math.ceil(x.shape[1] * self.bits / 8) + x.element_size()
