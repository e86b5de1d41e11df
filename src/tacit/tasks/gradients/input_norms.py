"""Norms of records, computed once: batches repeat, and every batch is taken from the same data."""

from collections.abc import MutableMapping
from typing import Literal

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from tacit.tasks.clipping import vector_norms

_NUMBERS = 1 << 22  # of records whose norms are computed at once
_NORMS: MutableMapping[Tensor, tuple[int, dict[int, Tensor]]] = (
    WeakTensorKeyDictionary()
)  # of tensors of records, as long as these exist
_ORIGINS: MutableMapping[Tensor, tuple[Tensor, int, Tensor, int]] = (
    WeakTensorKeyDictionary()
)  # of batches: the records that they were taken from


def taken(values: Tensor, index: Tensor) -> Tensor:
    """Return values[index], and remember that its norms are those of `values`.

    Plain indexing copies number by number, which was measured to be 3 times slower.
    """
    batch = values.index_select(0, index.flatten()).view(*index.shape, *values.shape[1:])
    _ORIGINS[batch] = values, values._version, index, batch._version
    return batch


def rearranged(batch: Tensor, index: Tensor) -> Tensor:
    """Return batch[i, index[i, b]] for a batch (n, B, …), with the known norms of its records."""
    if batch in _ORIGINS:
        values, data_version, positions, batch_version = _ORIGINS[batch]
        if (values._version, batch._version) == (data_version, batch_version):
            return taken(values, positions.gather(1, index))
    return batch[torch.arange(len(batch), device=batch.device)[:, None], index]


def record_norms(x: Tensor, order: Literal[1, 2], axes: int = 2) -> Tensor:
    """Return the norms of the records in x, whose first `axes` axes number them.

    They are computed again if x, or the data that it was taken from, was modified.
    """
    if x in _ORIGINS:
        values, data_version, index, batch_version = _ORIGINS[x]
        if (values._version, x._version) == (data_version, batch_version):
            norms = record_norms(values, order, axes=1)
            return norms[index.to(norms.device)]
    version, known = _NORMS.get(x, (None, {}))
    if version != x._version:
        known = {}
        _NORMS[x] = x._version, known
    if order not in known:
        flat = x.flatten(0, axes - 1).flatten(1)
        parts = torch.split(flat, max(1, _NUMBERS // max(1, flat.shape[1])))
        known[order] = torch.cat([vector_norms(part, order) for part in parts]).view(x.shape[:axes])
    return known[order]
