"""ChaCha20 as operations on integer tensors, so that a device draws its own random bits.

The stream is a function of a key of 256 bits and of (node, step): the nonce of RFC 8439 is (node, step, 0), and its
counter is the number of the block. All nodes and blocks are computed in one pass of elementwise operations, the same
bits on every device. The cipher protects secret noise as AES in counter mode does on the CPU.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError

_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<i4")
_DOUBLE_ROUNDS = 10
WORDS = 16  # of 32 bits in a block

Ints = npt.NDArray[np.int64]


def chacha_words(key: bytes, nodes: Ints, steps: Ints, first: int, count: int, device: torch.device) -> Tensor:
    """Return `count` words per node, from word number `first` of its stream on, as int32 (n, count).

    Raises:
        TacitError: The stream of a node and step has no more blocks.
    """
    start, stop = first // WORDS, -(-(first + count) // WORDS)
    if stop > 2**32:
        raise TacitError(f"A node draws at most {WORDS << 32} random words per step, got {first + count}")
    blocks = torch.arange(start, stop, device=device).to(torch.int32)
    found = _blocks(key, _words_of(nodes, device), _words_of(steps, device), blocks)
    skipped = first - start * WORDS
    return found.flatten(1)[:, skipped : skipped + count]


def _words_of(numbers: Ints, device: torch.device) -> Tensor:
    """Return numbers below 2³² as int32 with the same bits."""
    return torch.from_numpy(numbers.astype(np.uint32).view(np.int32)).to(device)


def _blocks(key: bytes, nodes: Tensor, steps: Tensor, blocks: Tensor) -> Tensor:
    """Return the blocks (n, m, 16) of n nodes with these steps (n,), for m block numbers."""
    n, m = len(nodes), len(blocks)
    a, b, c = (
        torch.from_numpy(row.astype(np.int32)).to(blocks.device).view(4, 1, 1).repeat(1, n, m)
        for row in (_CONSTANTS, *np.frombuffer(key, "<i4").reshape(2, 4))
    )
    d = torch.zeros_like(a)
    d[0], d[1], d[2] = blocks, nodes[:, None], steps[:, None]
    start = torch.cat([a, b, c, d])
    for _ in range(_DOUBLE_ROUNDS):
        a, b, c, d = _quarter_rounds(a, b, c, d)
        a, b, c, d = _quarter_rounds(a, b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0))
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    return torch.cat([a, b, c, d]).add_(start).permute(1, 2, 0)


def _quarter_rounds(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four rows of the state after a quarter round of each column."""
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a.add_(b)
    d = _rotated(d.bitwise_xor_(a), 8)
    c.add_(d)
    return a, _rotated(b.bitwise_xor_(c), 7), c, d


def _rotated(x: Tensor, bits: int) -> Tensor:
    """Return x rotated to the left, as 32 bits; its memory is reused."""
    high = x << bits
    return x.bitwise_right_shift_(32 - bits).bitwise_and_((1 << bits) - 1).bitwise_or_(high)
