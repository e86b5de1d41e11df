"""Randomness as a function: the same (key, purpose, node, step) gives the same bits, wherever the node is hosted.

The bits are AES in counter mode. A block's counter is (node, step, block number), so every node, step and purpose has
a stream of its own, no two streams overlap, and all nodes are drawn in one vectorised call.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from tacit.errors import TacitError

_CHUNK = 1 << 19  # samples of several nodes worked on at once: enough for all cores, few enough for the cache
_CUT = 1 << 18  # samples of one node worked on at once; unlike the other, it decides which noise a node gets
_LOW31 = 0x7FFFFFFF
_TINY = 2.0**-64  # keeps log away from 0; below the resolution of the 62 bits it is added to
_FINER = 6  # bits by which the grid of what is released is finer than the noise: 2^17 floats share a cell in float32


class Noise:
    """A keyed source of words, Gaussian and Laplace noise.

    What noise is added to ends on a grid that follows from the noise's scale alone (`grid`), so that the last bits of a
    float say nothing about what it was before; docs/floating-point.md says what that protects and what it does not.
    Values beside which floats are coarser than the grid are refused, unless `strict` is False.

    >>> noise = Noise.from_seed(0)
    >>> x = torch.zeros(2, 3)
    >>> noise.gaussian_(x, np.array([1.0, 2.0]), "noise", np.array([0, 7]), step=5)
    >>> alone = torch.zeros(1, 3)
    >>> noise.gaussian_(alone, np.array([2.0]), "noise", np.array([7]), step=5)
    >>> bool((x[1] == alone[0]).all())
    True
    """

    def __init__(self, key: bytes, *, reproducible: bool = False, simulated: bool = False) -> None:
        if len(key) != 32:
            raise ValueError("a noise key has 32 bytes")
        self._key = key
        self.reproducible, self.simulated = reproducible, simulated

    @classmethod
    def from_seed(cls, seed: int) -> Noise:
        """For simulation: reproducible, and no secret to anyone who knows the seed."""
        key = hashlib.blake2b(f"tacit simulation {seed}".encode(), digest_size=32).digest()
        return cls(key, reproducible=True, simulated=True)

    @classmethod
    def from_key(cls, key: bytes) -> Noise:
        """For real runs that go on after a crash: who keeps the secret key can repeat the noise, and nobody else."""
        return cls(key, reproducible=True)

    @classmethod
    def from_system(cls) -> Noise:
        """For real runs: a secret key from the operating system's generator."""
        return cls(os.urandom(32))

    def words(
        self, purpose: str, nodes: npt.NDArray[np.int64], step: int | npt.NDArray[np.int64], count: int, first: int = 0
    ) -> Tensor:
        """`count` uniform 32-bit words for each node, from block `first` of its stream on, as int32 (n, count).

        `step` may differ from node to node; a block has 4 words.
        """
        key = hashlib.blake2b(purpose.encode(), key=self._key, digest_size=16).digest()
        blocks = -(-count // 4)
        counters = np.empty((len(nodes), blocks, 2), np.uint64)
        counters[:, :, 0] = ((nodes.astype(np.uint64) << np.uint64(32)) | np.asarray(step, np.uint64))[:, None]
        counters[:, :, 1] = np.arange(first, first + blocks, dtype=np.uint64)
        # ECB over distinct counters *is* counter mode, for all nodes in one call.
        bits = np.empty(counters.nbytes + 15, np.uint8)
        encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        encryptor.update_into(counters.data.cast("B"), bits.data)
        words = torch.frombuffer(bits, dtype=torch.int32, count=len(nodes) * blocks * 4)
        return words.view(len(nodes), blocks * 4)[:, :count]

    def gaussian_(
        self,
        x: Tensor,
        scale: npt.NDArray[np.float64],
        purpose: str,
        nodes: npt.NDArray[np.int64],
        step: int,
        *,
        strict: bool = True,
    ) -> None:
        """x[i] += N(0, scale[i]²) by Box–Muller, rounded to the grid. The radius has 62 bits, so tails reach beyond 9
        deviations."""
        for rows, columns, part in _rounded(x, scale, nodes, strict):
            half = -(-part.shape[1] // 2)
            words = self.words(purpose, nodes[rows], step, 3 * half, 3 * columns.start // 8).view(-1, 3, half)
            variance = torch.from_numpy(scale[rows, None] ** 2).to(x.dtype)
            radius = _log_uniform(words[:, 0], words[:, 1], x.dtype).mul_(-2 * variance).sqrt_()
            angle = words[:, 2].to(x.dtype).mul_(math.pi * 2.0**-31)
            part[:, :half].addcmul_(radius, angle.cos())
            rest = part.shape[1] - half
            part[:, half:].addcmul_(radius[:, :rest], angle.sin_()[:, :rest])

    def laplace_(
        self,
        x: Tensor,
        scale: npt.NDArray[np.float64],
        purpose: str,
        nodes: npt.NDArray[np.int64],
        step: int,
        *,
        strict: bool = True,
    ) -> None:
        """x[i] += Laplace(0, scale[i]), rounded to the grid: an exponential from 62 bits, its sign from one more."""
        for rows, columns, part in _rounded(x, scale, nodes, strict):
            width = part.shape[1]
            words = self.words(purpose, nodes[rows], step, 2 * width, columns.start // 2).view(-1, 2, width)
            size = _log_uniform(words[:, 0], words[:, 1], x.dtype)
            sign = (words[:, 0] >> 31).mul_(2).add_(1).to(x.dtype)
            part.addcmul_(size.mul_(torch.from_numpy(-scale[rows, None]).to(x.dtype)), sign)


def grid(scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The step of the grid on which values with noise of this scale are released: a power of two, 64 to 128 times
    smaller. Rounding adds step²/12 to the variance, at most 0.00002 of a Gaussian's. Without noise there is no grid.

    >>> grid(np.array([1.0, 3.0, 0.01, 0.0])).tolist()
    [0.015625, 0.03125, 0.0001220703125, 0.0]
    """
    return np.where(scale > 0, np.ldexp(1.0, np.frexp(scale)[1] - 1 - _FINER), 0.0)


def _rounded(
    x: Tensor, scale: npt.NDArray[np.float64], nodes: npt.NDArray[np.int64], strict: bool = True
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Parts of x for the caller to add noise to; what it has made of one is rounded to the grid while in the cache."""
    _check_scale(scale, x.dtype, nodes)
    steps = torch.from_numpy(grid(scale)[:, None]).to(x.dtype)
    # Next to 1.5/eps steps floats are one step apart, so adding and subtracting that many rounds, ties to even; and no
    # value becomes −0, whose sign would tell more than the grid does.
    shifts = 1.5 / torch.finfo(x.dtype).eps * steps
    near = torch.where(steps > 0, shifts / 3, math.inf)
    for rows, columns in _chunks(x):
        part = x[rows, columns]
        yield rows, columns, part
        if _within(part, near[rows]):
            part.add_(shifts[rows]).sub_(shifts[rows])
        else:
            _round_far(part, steps[rows], nodes[rows], strict)


def _within(part: Tensor, most: Tensor) -> bool:
    """Whether |part| < most everywhere. One norm, which is quick, says so of all but large values."""
    if bool(torch.linalg.vector_norm(part) < most.min() / 2):
        return True
    return bool(((part.amin(1, keepdim=True) > -most) & (part.amax(1, keepdim=True) < most)).all())


def _round_far(part: Tensor, step: Tensor, nodes: npt.NDArray[np.int64], strict: bool) -> None:
    """The same, slower, for values of any size. What is not finite stays so: no network takes it."""
    most = torch.where(step > 0, 2 / torch.finfo(part.dtype).eps * step, math.inf)
    wrong = (part.isfinite() & (part.abs() >= most)).nonzero()
    if strict and len(wrong):
        row, column = wrong[0].tolist()
        raise TacitError(
            f"node {nodes[row]} is to release {float(part[row, column]):.3g}, and its noise is too small to hide more "
            f"than {float(most[row]):.3g} in {8 * part.element_size()} bits: add more noise, or keep values small"
        )
    exact = part.double()
    part.copy_(torch.where(step > 0, (exact / step).round_().mul_(step).add_(0.0), exact))


def _check_scale(scale: npt.NDArray[np.float64], dtype: torch.dtype, nodes: npt.NDArray[np.int64]) -> None:
    """Beyond these, squares and logarithms of the noise no longer fit: it would vanish, or be infinite."""
    most = 2.0 ** (50 if dtype == torch.float32 else 400)
    wrong = np.flatnonzero(~((scale >= 1 / most) & (scale <= most) | (scale == 0)))
    if len(wrong):
        raise TacitError(
            f"node {nodes[wrong[0]]} is to add noise of scale {scale[wrong[0]]:.3g}, which must lie between "
            f"{1 / most:.1g} and {most:.1g}: give data or clip bounds in other units"
        )


def _chunks(x: Tensor) -> Iterator[tuple[slice, slice]]:
    """Several whole rows, or a part of one. Where columns are cut depends on their number alone, so that a node's
    noise does not depend on who is hosted beside it."""
    n, d = x.shape
    rows = max(1, _CHUNK // max(1, d))
    for row in range(0, n, rows):
        for column in range(0, d, _CUT):
            yield slice(row, row + rows), slice(column, min(column + _CUT, d))


def _log_uniform(high: Tensor, low: Tensor, dtype: torch.dtype) -> Tensor:
    """ln u for u in (0, 1] with 62 random bits: floats keep them all when u is small, where they matter."""
    u = (high & _LOW31).to(dtype)
    u.add_((low & _LOW31).to(dtype), alpha=2.0**-31)
    return torch.add(torch.tensor(_TINY, dtype=dtype), u, alpha=2.0**-31, out=u).log_()  # one pass less
