"""Keeping freed memory, which rounds ask for again."""

import ctypes
import sys
from functools import cache

_MMAP_MAX, _TRIM_THRESHOLD = -4, -1  # of mallopt(3)
_KEPT = 1 << 30  # bytes free at the top of the heap that are not given back


@cache
def keep() -> None:
    """Have the C library keep what is freed instead of giving it back to the system after every use.

    A round frees matrices (n, d) and allocates them again. Given back, every page must be faulted in anew, which
    takes longer than the work on it (measured: half of the round, at 1000 nodes of 50,000 parameters).
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_MAX, 0)
            mallopt(_TRIM_THRESHOLD, _KEPT)
