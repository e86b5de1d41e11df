"""Splits work into chunks whose temporary tensors are small enough to be reused (measured: twice as fast)."""

from collections.abc import Iterator

from torch import Tensor

SMALL = 2_000_000  # parameters × batch up to which it is faster to process several nodes together (measured)


def slices(total: int, size: int) -> Iterator[slice]:
    """Yield slices of 0 … total of at most `size`, as even as possible.

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
    """Return the number of columns of weight (n, B) up to the last non-zero one. The others are padding.

    Weights are in main memory: on a device, the computer would wait for the answer.

    >>> import torch
    >>> width(torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]]))
    3
    """
    if weight.numel() and bool(weight[:, -1].any()):  # the usual case, and the cheapest to check
        return weight.shape[1]
    used = weight.count_nonzero(0).nonzero()
    return int(used[-1]) + 1 if len(used) else 0


def blocks(weight: Tensor, records: int) -> Iterator[tuple[slice, slice]]:
    """Yield blocks (nodes, records) of about `records` records: several nodes, or a part of one node's batch.

    >>> import torch
    >>> list(blocks(torch.ones(2, 3), 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    nodes, batch = weight.shape
    for group in slices(nodes, records // max(1, batch)):
        used = width(weight[group])
        for part in slices(used, used if group.stop - group.start > 1 else records):
            yield group, part
