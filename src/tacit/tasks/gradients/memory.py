"""Keeps freed memory in the process, since every round allocates it again."""

import ctypes
import sys
from functools import cache

_MMAP_MAX, _TRIM_THRESHOLD = -4, -1  # of mallopt(3)
_MAX_KEPT_BYTES = 1 << 30  # at the top of the heap


@cache
def keep_freed_memory() -> None:
    """Make the C library keep freed memory instead of returning it to the operating system.

    A round frees matrices (n, d) and allocates them again. Every returned page causes a page fault, which takes longer
    than the computation on it (measured: half of the round, for 1000 nodes with 50,000 parameters).
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_MAX, 0)
            mallopt(_TRIM_THRESHOLD, _MAX_KEPT_BYTES)
