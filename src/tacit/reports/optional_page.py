"""Pages that are written only if the extra `report` is installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec

from tacit.errors import MissingExtra

P = ParamSpec("P")


def write_if_installed(write: Callable[P, Path], *args: P.args, **kwargs: P.kwargs) -> Path | None:
    """Call a function that writes a page. Without the extra `report`, warn and return None.

    A command uses it after long work: the results are already saved, and a missing page must not look like a failure.
    """
    try:
        return write(*args, **kwargs)
    except MissingExtra as missing:
        warnings.warn(str(missing), stacklevel=2)
        return None
