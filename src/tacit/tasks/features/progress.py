"""A progress bar for features that take long to compute. It shows the public number of records only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MIN_RECORDS = 5_000


@contextmanager
def feature_progress(records: int) -> Iterator[Callable[[int], object] | None]:
    """Yield the function that advances the bar on standard error; None if there is no terminal or little to do."""
    from rich.console import Console  # slow to import
    from rich.progress import Progress, TimeRemainingColumn

    console = Console(stderr=True)
    if records < _MIN_RECORDS or not console.is_terminal:
        yield None
        return
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("Features", total=records)
        yield lambda count: bar.advance(task, count)
