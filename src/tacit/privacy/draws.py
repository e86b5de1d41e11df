"""Batches of record numbers for all hosted nodes, and the tensor operations that sampling kinds draw them with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.privacy.sampling import Population

_LOW_31_BITS = 0x7FFFFFFF


class Draw(NamedTuple):
    """One draw: positions of records in each node's shard, padded to the longest row.

    Attributes:
        records: (n, B) positions in each node's shard.
        weight: (n, B), 1 for a record and 0 for padding.
    """

    records: Tensor
    weight: Tensor


def in_shard(sizes: npt.NDArray[np.int64]) -> Tensor:
    """Return (n, largest size): whether a position lies within the node's shard."""
    return torch.arange(int(sizes.max()))[None, :] < torch.from_numpy(sizes)[:, None]


def filled(records: Tensor) -> Draw:
    """Return the batch of these positions, all of them records."""
    return Draw(records, torch.ones(records.shape))


def padded(drawn: Tensor) -> Draw:
    """Return the batch of the True entries of each row, moved to the left and padded to the longest row."""
    node, position = drawn.nonzero(as_tuple=True)
    counts = drawn.sum(1)
    column = torch.arange(len(node)) - (counts.cumsum(0) - counts)[node]
    records = torch.zeros(len(counts), max(1, int(counts.max())), dtype=torch.long)
    weight = torch.zeros(records.shape)
    records[node, column] = position
    weight[node, column] = 1.0
    return Draw(records, weight)


def random_keys(population: Population, step: int | npt.NDArray[np.int64], *, shuffle: bool = False) -> Tensor:
    """Return (n, largest size): 62 random bits per record to sort by. Positions beyond a shard's end sort last.

    With `shuffle`, `step` is the number of a shuffle, which is drawn again in other rounds.
    """
    widest = int(population.sizes.max())
    noise = population.noise.shuffles if shuffle else population.noise
    words = noise.words("batch", population.nodes, step, 2 * widest).view(-1, widest, 2)
    keys = ((words[..., 0] & _LOW_31_BITS).long() << 31) | (words[..., 1] & _LOW_31_BITS).long()
    return keys.masked_fill_(~in_shard(population.sizes), torch.iinfo(torch.int64).max)
