"""What commands with parallel runs have in common."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tacit.cli.interrupt import INTERRUPTED
from tacit.cli.output import err
from tacit.errors import TacitError

_MAX_DEFAULT_JOBS = 8


def job_count(jobs: int | None, option: str = "--jobs") -> int:
    """The number of processes: that of the option, or one per core."""
    if jobs is not None and jobs < 1:
        raise TacitError(f"{option} must be at least 1, got {jobs}")
    return jobs or min(os.cpu_count() or 1, _MAX_DEFAULT_JOBS)


@contextmanager
def continue_later() -> Iterator[None]:
    """On Ctrl-C, print how to resume and exit."""
    try:
        yield
    except KeyboardInterrupt:
        err.print("Interrupted. Finished runs are saved. Run the same command again to resume.", highlight=False)
        raise typer.Exit(INTERRUPTED) from None
