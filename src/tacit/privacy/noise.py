"""Noise as a function: the same (key, purpose, node, step) gives the same bits, wherever the node is hosted.

The bits are AES in counter mode. The counter of a block is (node, step, block number), so every node, step and purpose
has its own stream, no two streams overlap, and all nodes are drawn in one vectorised call.
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
from tacit.privacy.device_noise import device_words, rounded_on_device
from tacit.privacy.noise_grid import check_scale, grid

_CHUNK_SAMPLES = 1 << 19  # of several nodes per step: enough for all cores, few enough for the cache
_NODE_SAMPLES = 1 << 18  # of one node per step; unlike _CHUNK_SAMPLES, this number determines the noise
_LOW_31_BITS = 0x7FFFFFFF
CPU = torch.device("cpu")
_LOG_OFFSET = 2.0**-64  # keeps log away from 0; below the resolution of the 62 bits to which it is added


class Noise:
    """A keyed source of random words, Gaussian noise and Laplace noise.

    Noised values are rounded to a grid that depends on the scale of the noise alone (`grid`), so that the last bits of
    a float reveal nothing about the exact value; docs/floating-point.md states what this protects. Values that are so
    large that floats are coarser than the grid are clamped, unless `strict` is False.

    Attributes:
        digest_key: The key of `keyed_digest`, by default that of the noise. It may outlive the noise.
        shuffles: The source of shuffles, whose words are the same in all rounds until the next shuffle.

    >>> noise = Noise.from_seed(0)
    >>> x = torch.zeros(2, 3)
    >>> noise.gaussian_(x, np.array([1.0, 2.0]), "noise", np.array([0, 7]), step=5)
    >>> alone = torch.zeros(1, 3)
    >>> noise.gaussian_(alone, np.array([2.0]), "noise", np.array([7]), step=5)
    >>> bool((x[1] == alone[0]).all())
    True
    """

    def __init__(self, key: bytes, *, reproducible: bool = False, seed: int | None = None) -> None:
        if len(key) != 32:
            raise ValueError(f"a noise key must have 32 bytes, got {len(key)}")
        self._key = self.digest_key = key
        self.reproducible, self.seed = reproducible, seed
        self.shuffles: Noise = self

    @classmethod
    def from_seed(cls, seed: int) -> Noise:
        """Return the noise of a simulation: reproducible, and known to everybody who knows the seed."""
        key = hashlib.blake2b(f"tacit simulation {seed}".encode(), digest_size=32).digest()
        return cls(key, reproducible=True, seed=seed)

    @classmethod
    def from_key(cls, key: bytes) -> Noise:
        """Return the noise of a real run that can resume after a crash: only the holder of the key can repeat it."""
        return cls(key, reproducible=True)

    @classmethod
    def from_system(cls) -> Noise:
        """Return the noise of a real run, with a secret key from the operating system."""
        return cls(os.urandom(32))

    @property
    def fingerprint(self) -> str:
        """An identifier of the key, from which the key cannot be computed."""
        return hashlib.blake2b(key=self._key, digest_size=16, person=b"tacit run").hexdigest()

    @property
    def simulated(self) -> bool:
        """Whether the noise is derived from a seed, and so protects nobody."""
        return self.seed is not None

    @property
    def simulation_note(self) -> str | None:
        """The sentence that belongs to every statement about simulated noise; None for real noise."""
        if self.seed is None:
            return None
        return f"SIMULATION: the noise is derived from seed {self.seed}, so this run protects nobody."

    def keyed_digest(self, *parts: bytes | memoryview) -> str:
        """Return a digest of private data. Without the secret key, no guess of the data can be tested with it."""
        digest = hashlib.blake2b(key=self.digest_key, digest_size=32, person=b"tacit digest")
        for part in parts:
            digest.update(f"{memoryview(part).nbytes} ".encode())
            digest.update(part)
        return digest.hexdigest()

    def words(
        self,
        purpose: str,
        nodes: npt.NDArray[np.int64],
        step: int | npt.NDArray[np.int64],
        count: int,
        first: int = 0,
        device: torch.device = CPU,
    ) -> Tensor:
        """Return `count` uniform 32-bit words per node, from block `first` of its stream on, as int32 (n, count).

        `step` may be one number, or one per node. A block has 4 words. Other devices have words of their own.
        """
        steps = np.asarray(step)
        for what, numbers in (("node", nodes), ("step", steps)):
            if numbers.size and not (numbers.min() >= 0 and numbers.max() < 2**32):  # their noise would repeat
                raise TacitError(f"A {what} must be at least 0 and below 2³², got {numbers.max()}")
        if device != CPU:
            return device_words(self._key, purpose, nodes, steps, count, first, device)
        key = hashlib.blake2b(purpose.encode(), key=self._key, digest_size=16).digest()
        blocks = -(-count // 4)
        counters = np.empty((len(nodes), blocks, 2), np.uint64)
        counters[:, :, 0] = ((nodes.astype(np.uint64) << np.uint64(32)) | steps.astype(np.uint64))[:, None]
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
        grid_scale: float | None = None,
    ) -> None:
        """Add N(0, scale[i]²) to row i, by Box–Muller, and round to the grid, by default that of the row's own scale.

        The radius has 62 bits, so the tails reach beyond 9 standard deviations.
        """
        for rows, columns, part in _rounded(x, scale, nodes, strict, grid_scale):
            half = -(-part.shape[1] // 2)
            first = 3 * columns.start // 8
            words = self.words(purpose, nodes[rows], step, 3 * half, first, x.device).view(-1, 3, half)
            variance = torch.from_numpy(scale[rows, None] ** 2).to(x.dtype).to(x.device)
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
        """Add Laplace(0, scale[i]) to row i, and round to the grid: 62 bits for the size, one for the sign."""
        for rows, columns, part in _rounded(x, scale, nodes, strict):
            width = part.shape[1]
            words = self.words(purpose, nodes[rows], step, 2 * width, columns.start // 2, x.device).view(-1, 2, width)
            size = _log_uniform(words[:, 0], words[:, 1], x.dtype)
            sign = (words[:, 0] >> 31).mul_(2).add_(1).to(x.dtype)
            part.addcmul_(size.mul_(torch.from_numpy(-scale[rows, None]).to(x.dtype).to(x.device)), sign)


def _rounded(
    x: Tensor,
    scale: npt.NDArray[np.float64],
    nodes: npt.NDArray[np.int64],
    strict: bool = True,
    grid_scale: float | None = None,
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield parts of x for the caller to add noise to, and round each part to the grid while it is in the cache."""
    check_scale(scale, x.dtype, nodes)
    finest = scale if grid_scale is None else np.full_like(scale, grid_scale)
    if x.device != CPU:
        yield from rounded_on_device(x, grid(finest)[:, None], _NODE_SAMPLES, strict=strict)
        return
    steps = torch.from_numpy(grid(finest)[:, None]).to(x.dtype)
    # Around 1.5/eps steps floats are one step apart, so adding and subtracting that many rounds, ties to even. No
    # value becomes −0, whose sign would reveal more than the grid does.
    shifts = 1.5 / torch.finfo(x.dtype).eps * steps
    near = torch.where(steps > 0, shifts / 3, math.inf)
    for rows, columns in _chunks(x):
        part = x[rows, columns]
        yield rows, columns, part
        if _within(part, near[rows]):
            part.add_(shifts[rows]).sub_(shifts[rows])
        else:
            if strict and bool(part.isnan().any()):  # noise for a zero in place of it
                zeros = torch.zeros_like(part)
                yield rows, columns, zeros
                part.copy_(torch.where(part.isnan(), zeros, part))
            _round_far(part, steps[rows], 4 * near[rows], strict)


def _within(part: Tensor, most: Tensor) -> bool:
    """Return whether |part| < most everywhere. One fast norm decides it unless values are large."""
    if bool(torch.linalg.vector_norm(part) < most.min() / 2):
        return True
    return bool(((part.amin(1, keepdim=True) > -most) & (part.amax(1, keepdim=True) < most)).all())


def _round_far(part: Tensor, step: Tensor, limit: Tensor, strict: bool) -> None:
    """Round values of any size, which is slower.

    From `limit` on, floats are coarser than the grid, so that the noise does not protect a value. With `strict`, such
    values are replaced by the limit. A refusal would reveal that a value was so large.
    """
    if strict:
        part.clamp_(-limit, limit)
    exact = part.double()
    part.copy_(torch.where(step > 0, (exact / step).round_().mul_(step).add_(0.0), exact))


def _chunks(x: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield several whole rows, or a part of one.

    Where columns are cut depends on their number alone, so that the noise of a node does not depend on the other
    nodes that are hosted with it.
    """
    n, d = x.shape
    rows = max(1, _CHUNK_SAMPLES // max(1, d))
    for row in range(0, n, rows):
        for column in range(0, d, _NODE_SAMPLES):
            yield slice(row, row + rows), slice(column, min(column + _NODE_SAMPLES, d))


def _log_uniform(high: Tensor, low: Tensor, dtype: torch.dtype) -> Tensor:
    """Return ln u for u in (0, 1] with 62 random bits. Floats keep all of them where u is small and they matter."""
    u = (high & _LOW_31_BITS).to(dtype)
    u.add_((low & _LOW_31_BITS).to(dtype), alpha=2.0**-31)
    return torch.add(torch.tensor(_LOG_OFFSET, dtype=dtype), u, alpha=2.0**-31, out=u).log_()  # one pass less
