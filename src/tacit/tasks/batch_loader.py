"""Copies the records of a draw into batches, a few nodes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.privacy import Draw
from tacit.tasks.data import Dataset
from tacit.tasks.gradients.chunks import slices, width
from tacit.tasks.gradients.input_norms import taken

_NUMBERS_PER_COPY = 1 << 20  # small enough for the copy to stay in cache
_CACHE_BYTES = 1 << 29

NodeBatch = tuple[slice, Tensor, Tensor]
"""Rows (nodes), and their records x (rows, B, …) and y (rows, B)."""


class BatchLoader:
    """Loads batches from the hosted nodes' shards. It caches the batches of draws that recur, since copying is slow.

    On a device it has a copy of the records there. Draws are in main memory; their positions are copied to the device.
    """

    def __init__(self, data: Dataset, shards: Sequence[npt.NDArray[np.int64]], device: torch.device) -> None:
        self._x, self._y = data.x.to(device), data.y.to(device)
        padded = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(shard) for shard in shards], batch_first=True)
        self.records = padded.to(device)
        self._cache: dict[int, tuple[Tensor, list[NodeBatch]]] = {}

    def equals(self, other: BatchLoader) -> bool:
        """Whether both loaders have the same records at the same nodes, on the same device."""
        pairs = [(self.records, other.records), (self._y, other._y), (self._x, other._x)]
        return all(a is b or _is_same(a, b) for a, b in pairs)

    def batches(self, drawn: Draw, distinct: int | None = None) -> Iterator[NodeBatch]:
        """Yield the drawn records, some nodes at a time.

        Args:
            drawn: Indices of the drawn records in each node's shard, and their weights.
            distinct: How many different draws recur; None if no draw recurs.
        """
        cached = self._cache.get(id(drawn.records))
        if cached is not None:
            yield from cached[1]
            return
        record = self._x[0]
        cacheable = distinct is not None and distinct * drawn.records.numel() * record.nbytes <= _CACHE_BYTES
        if cacheable and len(self._cache) >= (distinct or 0):
            self._cache.clear()  # batches of an earlier permutation
        records = self.records.gather(1, drawn.records.to(self.records.device))
        batches = []
        for rows in slices(len(records), _NUMBERS_PER_COPY // max(1, records.shape[1] * record.numel())):
            longest = width(drawn.weight[rows])
            x, y = (taken(values, records[rows, :longest]) for values in (self._x, self._y))
            if cacheable:
                batches.append((rows, x, y))
            yield rows, x, y
        if cacheable:
            self._cache[id(drawn.records)] = drawn.records, batches  # a reference keeps the id unique


def _is_same(a: Tensor, b: Tensor) -> bool:
    return (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a, b)
