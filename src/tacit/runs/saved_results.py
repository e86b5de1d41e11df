"""Work in parallel whose results are saved one by one, so that a second call continues the first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from tacit.errors import TacitError
from tacit.runs import storage
from tacit.runs.metrics import Result
from tacit.runs.parallel import run_in_parallel
from tacit.runs.progress import progress_counter

T = TypeVar("T")


def run_saved(
    work: Callable[[T], Result],
    items: Mapping[str, T],
    folder: Path | None,
    jobs: int,
    *,
    is_complete: Callable[[Result], bool],
    describe: Callable[[T, Result], str],
    what: str = "cells",
) -> dict[str, Result]:
    """Return the result of every item, by its key. Results that are in `folder` are not computed again.

    Args:
        work: Returns the result of an item. With several jobs, it and the items must be picklable.
        items: The items by key. A key identifies what is computed, and names the file of its result.
        folder: Where the results are saved, one JSON file each; None saves nothing.
        jobs: Number of processes.
        is_complete: Whether a saved result can be used. One that cannot is computed again.
        describe: Returns the line that is printed for a finished item.
        what: What the items are called on the progress bar.
    """
    if folder is not None:
        ensure_folder(folder)
    saved = {} if folder is None else {key: _read_saved(folder / f"{key}.json") for key in items}
    results = {key: result for key, result in saved.items() if result is not None and is_complete(result)}
    missing = [key for key in items if key not in results]
    keys = {id(items[key]): key for key in missing}
    with (
        progress_counter(what, len(items), len(results)) as report,
        closing(run_in_parallel(work, [items[key] for key in missing], jobs)) as finished,
    ):
        for item, result in finished:
            key = keys[id(item)]
            if folder is not None:
                storage.write_json(folder / f"{key}.json", result)
            results[key] = result
            report(describe(item, result))
    return results


def ensure_folder(folder: Path) -> None:
    """Create the folder unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TacitError(f"cannot create the folder {folder}: {error.strerror or error}") from None


def _read_saved(path: Path) -> Result | None:
    """A saved result; None if there is none or it is damaged."""
    try:
        saved = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return saved if isinstance(saved, dict) else None
