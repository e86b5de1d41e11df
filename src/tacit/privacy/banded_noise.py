"""Gaussian noise that is correlated in time: x = C⁻¹ Z for a banded lower triangular Toeplitz matrix C.

The noise of a step is a function of key, purpose, node and step, like all noise. A run that resumes computes the noise
of earlier steps once more from the key, so that checkpoints contain no noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.device import has_double
from tacit.privacy.noise import _NODE_SAMPLES, CPU, Noise, _log_uniform

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CHUNK_SAMPLES = 1 << 15  # of all nodes: the sums over earlier steps stay in the cache


@lru_cache(maxsize=64)
def coefficients(bandwidth: int) -> Array:
    """Return c_0 … c_{bandwidth−1} with c_k = Π_{j ≤ k} (2j − 1)/(2j), the Taylor coefficients of (1 − z)^(−1/2).

    The matrix of all of them is the square root of the matrix of prefix sums.

    >>> coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    j = np.arange(1, bandwidth)
    return np.concatenate([[1.0], np.cumprod((2 * j - 1) / (2 * j))])


def column_norms(bandwidths: Ints, remaining: int) -> Array:
    """Return the L2 norm (n,) of a column of C of which `remaining` rows are left until the end of the sequence.

    >>> column_norms(np.array([1, 2, 4]), 2).round(6).tolist()
    [1.0, 1.118034, 1.118034]
    """
    rows = np.minimum(bandwidths, remaining)
    return np.asarray(np.sqrt(np.cumsum(coefficients(int(rows.max())) ** 2)[rows - 1]))


class BandedNoise:
    """x_t = Z_t − Σ_{0<k<w} c_k x_{t−k} for all hosted nodes, one step after the other; x_t = 0 for t < 0.

    All sums are computed in double precision by separate multiplications and subtractions in a fixed order. A node
    therefore has the same noise, bit for bit, wherever it is hosted and whenever a run resumes. The recursion is
    stable: all zeros of Σ c_k z^k lie outside the unit circle, because c_k falls (Eneström and Kakeya).

    Z has a stream for each purpose, bandwidth and start: sequences that differ in any of them are independent.

    Args:
        purpose: The purpose of the noise.
        nodes: (n,) global ids of the hosted nodes.
        bandwidths: (n,) bandwidth w of each node.
        width: Number of coordinates.
        start: The first step.
        device: Draws the words. The sums are computed there, if it has double precision, else in main memory.

    Attributes:
        parameters: What else the noise depends on.
        next: The step of the next draw.
    """

    def __init__(
        self, purpose: str, nodes: Ints, bandwidths: Ints, width: int, start: int, device: torch.device = CPU
    ) -> None:
        self._device, where = device, device if has_double(device) else CPU
        self._nodes, self._start = nodes, start
        self._streams = [
            (torch.from_numpy(np.flatnonzero(bandwidths == bandwidth)), f"{purpose}/{bandwidth}/{start}")
            for bandwidth in np.unique(bandwidths).tolist()
        ]
        self._kept = int(bandwidths.max()) - 1
        lags = np.arange(1, self._kept + 1)[:, None]
        banded = np.where(lags < bandwidths, coefficients(self._kept + 1)[1:, None], 0.0)
        self._factors = torch.from_numpy(banded)[:, :, None].to(where)  # (lag, n, 1)
        self._past = torch.zeros(self._kept, len(nodes), width, dtype=torch.float64, device=where)
        self._width = width
        self.parameters = (bandwidths.tobytes(), start)
        self.next = start

    def draw(self, noise: Noise) -> Tensor:
        """Return the noise (n, width) of the next step, in double precision."""
        step = self.next
        x = torch.empty(len(self._nodes), self._width, dtype=torch.float64, device=self._past.device)
        for rows, stream in self._streams:
            x[rows.to(x.device)] = standard_gaussian(
                noise, stream, self._nodes[rows.numpy()], step, self._width, self._device
            )
        lags = range(1, min(self._kept, step - self._start) + 1)
        for columns in self._chunks():
            part, product = x[:, columns], torch.empty_like(x[:, columns])
            for lag in lags:
                torch.mul(self._past[(step - lag) % self._kept, :, columns], self._factors[lag - 1], out=product)
                part.sub_(product)
        if self._kept:
            self._past[step % self._kept] = x
        self.next = step + 1
        return x

    def _chunks(self) -> Iterator[slice]:
        width = max(1, _CHUNK_SAMPLES // len(self._nodes))
        for column in range(0, self._width, width):
            yield slice(column, min(column + width, self._width))


_sequences: WeakKeyDictionary[Noise, dict[tuple[object, ...], BandedNoise]] = WeakKeyDictionary()


def banded_noise(
    noise: Noise,
    purpose: str,
    nodes: Ints,
    step: int,
    width: int,
    bandwidths: Ints,
    start: int,
    device: torch.device = CPU,
) -> Tensor:
    """Return the noise (n, width) of `step` in the sequence that began in step `start`.

    The last steps are kept in memory, so that the next step needs no other. Any other step is computed from the start
    of its sequence.
    """
    sequences = _sequences.setdefault(noise, {})
    key = (purpose, nodes.tobytes(), width, device)
    parameters = (bandwidths.tobytes(), start)
    sequence = sequences.pop(key, None)  # one that fails in the middle is not used again
    if sequence is None or sequence.parameters != parameters or sequence.next > step:
        sequence = BandedNoise(purpose, nodes, bandwidths, width, start, device)
    while sequence.next < step:
        sequence.draw(noise)
    x = sequence.draw(noise)
    sequences[key] = sequence
    return x


def standard_gaussian(
    noise: Noise, purpose: str, nodes: Ints, step: int, width: int, device: torch.device = CPU
) -> Tensor:
    """Return N(0, 1) noise (n, width) in double precision, by Box–Muller and without rounding.

    Not for release: its last bits are those of the sampler. Whoever adds it to a value rounds the sum to a grid.
    """
    parts = []
    for first in range(0, width, _NODE_SAMPLES):
        columns = min(_NODE_SAMPLES, width - first)
        half = -(-columns // 2)
        words = noise.words(purpose, nodes, step, 3 * half, 3 * first // 8, device).view(-1, 3, half)
        words = words if has_double(device) else words.cpu()
        radius = _log_uniform(words[:, 0], words[:, 1], torch.float64).mul_(-2.0).sqrt_()
        angle = words[:, 2].double().mul_(math.pi * 2.0**-31)
        parts.append(torch.cat([radius * angle.cos(), radius * angle.sin()], 1)[:, :columns])
    return torch.cat(parts, 1) if parts else torch.zeros(len(nodes), 0, dtype=torch.float64)
