"""Work in parallel whose results are saved one by one, so that a second call continues the first."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from tacit.errors import TacitError
from tacit.runs import storage
from tacit.runs.cell_group import Cell
from tacit.runs.data_part import loading_once
from tacit.runs.grouped import Surroundings, run_grouped
from tacit.runs.metrics import Result
from tacit.runs.progress import ProgressCounter

T = TypeVar("T")


def run_saved(
    work: Callable[[T, Cell], Result],
    items: Mapping[str, T],
    folder: Path | None,
    jobs: int,
    *,
    is_complete: Callable[[Result], bool],
    describe: Callable[[T, Result], str],
    group: Callable[[T], Hashable | None],
    what: str = "cells",
    around: Surroundings = loading_once,
) -> dict[str, Result]:
    """Return the result of every item, by its key. Results that are in `folder` are not computed again.

    Args:
        work: Returns the result of an item, and gives its run to `Cell.join`. With several jobs, it and the items must
            be picklable.
        items: The items by key. A key identifies what is computed, and names the file of its result.
        folder: Where the results are saved, one JSON file each; None saves nothing.
        jobs: Number of processes.
        is_complete: Whether a saved result can be used. One that cannot is computed again.
        describe: Returns the line that is printed for a finished item.
        group: Items with the same value run together (`run_grouped`); None: the item runs alone.
        what: What the items are called on the progress bar.
        around: Entered in the process in which items run.
    """
    if folder is not None:
        ensure_folder(folder)
    saved = {} if folder is None else {key: _read_saved(folder / f"{key}.json") for key in items}
    results = {key: result for key, result in saved.items() if result is not None and is_complete(result)}
    missing = [key for key in items if key not in results]
    saving = _SavedWork(work, folder)
    with (
        ProgressCounter(what, len(items), len(results)) as counter,
        closing(
            run_grouped(
                saving,
                [_Keyed(key, items[key]) for key in missing],
                jobs,
                group=lambda keyed: group(keyed.item),
                around=around,
                on_progress=counter.show,
            )
        ) as finished,
    ):
        for keyed, result in finished:
            results[keyed.key] = result
            counter(describe(keyed.item, result))
    return results


@dataclass(frozen=True)
class _Keyed(Generic[T]):
    key: str
    item: T


@dataclass(frozen=True)
class _SavedWork(Generic[T]):
    """Saves each result in the process that has computed it, as soon as it is there."""

    work: Callable[[T, Cell], Result]
    folder: Path | None

    def __call__(self, keyed: _Keyed[T], cell: Cell) -> Result:
        result = self.work(keyed.item, cell)
        if self.folder is not None:
            storage.write_json(self.folder / f"{keyed.key}.json", result)
        return result


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
