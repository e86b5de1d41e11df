"""Cells run side by side in processes; what is finished is kept, and a rerun goes on from there."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from tacit.errors import TacitError
from tacit.reproduce.cells import Cell
from tacit.reproduce.graph_measurement import measure_study
from tacit.reproduce.graph_study import GraphStudy
from tacit.runs import UserParts, from_config, progress_counter, run_in_parallel, storage
from tacit.runs.metrics import Result, all_metrics, has_failed
from tacit.tasks import Dataset, datasets


def run_cells(cells: Sequence[Cell], folder: Path, jobs: int = 1) -> dict[str, Result]:
    """The result of every cell, by its key. What is in `folder` is not run again."""
    ready(folder)
    results = {cell.key: kept for cell in cells if (kept := _kept(folder / f"{cell.key}.json"))}
    each = {cell.key: cell for cell in cells}
    left = [cell for key, cell in each.items() if key not in results]
    with (
        progress_counter("cells", len(each), len(each) - len(left)) as tell,
        closing(run_in_parallel(measure, left, jobs)) as finished,
    ):
        for cell, result in finished:
            storage.write_json(folder / f"{cell.key}.json", result)
            results[cell.key] = result
            tell(f"{cell.title}: {_word(result)}, {result['seconds']:.0f} s")
    return results


def _word(result: Result) -> str:
    if has_failed(result):
        return "failed"
    measured: Mapping[str, float | None] = result.get("scores") or result
    first = next(each for each in all_metrics() if measured.get(each.name) is not None)
    return f"{first.short} {first.text(measured[first.name])}"


def ready(folder: Path) -> None:
    """Make the folder if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TacitError(f"cannot make the folder {folder}: {error.strerror or error}") from None


def measure(cell: Cell) -> Result:
    """Run one cell. A run that fails while it goes on (it diverged, say) is a result too."""
    if isinstance(cell.config, GraphStudy):
        return {"title": cell.title, **measure_study(cell.config)}
    began = time.monotonic()
    data = _data(cell.config.data.name, json.dumps(cell.config.data.parameters), cell.held_out)
    run = from_config(cell.config, UserParts(data=data))
    error: str | None = None
    try:
        run.go()
    except TacitError as failure:
        error = str(failure)
    if run.interrupted:
        raise KeyboardInterrupt
    last = run.result() if error is None else {"accuracy": None, "loss": None, "privacy": run.planned().as_dict()}
    return {
        "title": cell.title,
        "accuracy": last["accuracy"],
        "loss": last["loss"],
        "privacy": last["privacy"],
        "history": run.history,
        "trace": run.trace,
        "seconds": round(time.monotonic() - began, 1),
        "error": error or run.stopped,
        "config": json.loads(cell.config.model_dump_json(exclude_none=True)),  # JSON has no infinity
        "held_out": cell.held_out,
    }


@lru_cache(maxsize=2)
def _data(name: str, parameters: str, held_out: int | None) -> Dataset:
    """The data set, read once a process; with `held_out`, tested on that many of its training records."""
    data = datasets.build(name, json.loads(parameters))
    if held_out is None:
        return data
    if not 0 < held_out < len(data.y):
        raise TacitError(f"held_out = {held_out} must be below the {len(data.y)} training records of {name}")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(data.y)))
    test, train = order[:held_out], order[held_out:]
    return Dataset(
        f"{name}, {held_out} held out", data.x[train], data.y[train], data.x[test], data.y[test], data.classes
    )


def _kept(path: Path) -> Result | None:
    """A result of before; a damaged one is made again."""
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and {"error", "privacy", "history"} <= set(kept) else None
