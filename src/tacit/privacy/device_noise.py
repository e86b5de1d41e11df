"""What differs for noise on a device other than the CPU: the generator, and rounding without waiting for the device."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.privacy.chacha import chacha_words

_SAMPLES = 1 << 24  # of several nodes at once
BLOCK_WORDS = 4  # words of a block of `Noise.words`
CPU_GENERATOR = "AES in counter mode"
DEVICE_GENERATOR = "ChaCha20"
"""The generator of random bits for values on any device but the CPU."""


def generator_of(device: torch.device) -> str:
    """Return the name of the generator of noise for values on a device.

    >>> generator_of(torch.device("cpu")), generator_of(torch.device("cuda", 1))
    ('AES in counter mode', 'ChaCha20')
    """
    return CPU_GENERATOR if device.type == "cpu" else DEVICE_GENERATOR


def device_words(
    key: bytes,
    purpose: str,
    nodes: npt.NDArray[np.int64],
    steps: npt.NDArray[np.int64],
    count: int,
    first: int,
    device: torch.device,
) -> Tensor:
    """Return `count` words per node (n, count) on a device, from block `first` of 4 words on.

    The key of a purpose has a person of its own, so these words are independent of those of `Noise.words` on the CPU.
    """
    own = hashlib.blake2b(purpose.encode(), key=key, digest_size=32, person=b"tacit ChaCha20").digest()
    return chacha_words(own, nodes, np.broadcast_to(steps, nodes.shape), first * BLOCK_WORDS, count, device)


def rounded_on_device(
    x: Tensor, steps: npt.NDArray[np.float64], columns: int, *, strict: bool
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield parts of x for the caller to add noise to, and round each part to the grid with these steps (n, 1).

    The result is that of `noise._rounded`, but no value decides what is computed: the computer would have to wait for
    it. NaN counts as 0, and with `strict` values are limited to those around which floats are as fine as the grid.
    Dividing by a step, which is a power of two, is exact. Values beyond 2/ε steps are on the grid already.

    Args:
        x: The values (n, d).
        steps: (n, 1) the step of the grid of each row; 0: no grid.
        columns: How many columns of a node are drawn at once. This number determines the noise.
        strict: Whether values that are too large are limited.
    """
    n, d = x.shape
    step = torch.from_numpy(steps).to(x.dtype).to(x.device)
    limit = torch.where(step > 0, 2 / torch.finfo(x.dtype).eps * step, torch.inf)
    rows = max(1, _SAMPLES // max(1, d))
    for row in range(0, n, rows):
        for column in range(0, d, columns):
            place = slice(row, row + rows), slice(column, min(column + columns, d))
            part = x[place]
            if strict:
                part.nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
            yield *place, part
            if strict:
                part.clamp_(-limit[place[0]], limit[place[0]])
            counts = part / step[place[0]]
            near = counts.abs() <= 2 / torch.finfo(x.dtype).eps  # False for NaN and without a grid
            part.copy_(torch.where(near, counts.round_().mul_(step[place[0]]), part).add_(0.0))
