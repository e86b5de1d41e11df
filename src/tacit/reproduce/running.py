"""Cells run side by side in processes; what is finished is kept, and a rerun goes on from there."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tacit.errors import TacitError
from tacit.reproduce.cells import Cell
from tacit.reproduce.metrics import CURVE, Result
from tacit.runs import from_config, storage
from tacit.runs.build import Own
from tacit.tasks import Dataset, datasets


def run_cells(cells: Sequence[Cell], folder: Path, jobs: int = 1) -> dict[str, Result]:
    """The result of every cell, by its key. What is in `folder` is not run again."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TacitError(f"cannot make the folder {folder}: {error.strerror or error}") from None
    results = {cell.key: kept for cell in cells if (kept := _kept(folder / f"{cell.key}.json"))}
    left = list({cell.key: cell for cell in cells if cell.key not in results}.values())
    with _bar(len(cells), len(cells) - len(left)) as tell, closing(_finished(left, jobs)) as finished:
        for cell, result in finished:
            storage.write_json(folder / f"{cell.key}.json", result)
            results[cell.key] = result
            tell(cell, result)
    return results


def measure(cell: Cell) -> Result:
    """Run one cell. A run that fails while it goes on (it diverged, say) is a result too."""
    began = time.monotonic()
    data = _data(cell.config.data.name, json.dumps(cell.config.data.parameters), cell.held_out)
    run = from_config(cell.config, Own(data=data))
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
        "history": [{key: row[key] for key in CURVE if key in row} for row in run.history],
        "trace": run.trace,
        "seconds": round(time.monotonic() - began, 1),
        "error": error or run.stopped,
        "config": json.loads(cell.config.model_dump_json(exclude_none=True)),  # JSON has no infinity
        "held_out": cell.held_out,
    }


def _finished(cells: Sequence[Cell], jobs: int) -> Generator[tuple[Cell, Result], None, None]:
    """Each cell with its result, as they come."""
    if jobs == 1 or len(cells) <= 1:
        yield from ((cell, measure(cell)) for cell in cells)
        return
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes already fill the cores
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)
    )
    try:
        with _no_ctrl_c():
            futures = {pool.submit(measure, cell): cell for cell in cells}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        raise TacitError("a process was ended from outside, for want of memory perhaps: try --jobs 1") from None
    except BaseException:
        for child in multiprocessing.active_children():  # a half-done cell is of no use to anyone
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        os.environ.pop("OMP_NUM_THREADS")
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = threads


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Processes started in here never see Ctrl-C, not even while they start: it is the parent's to handle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


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
    return kept if isinstance(kept, dict) and {"accuracy", "privacy", "history"} <= set(kept) else None


@contextmanager
def _bar(total: int, done: int) -> Iterator[Any]:
    """A bar over the cells with the time left; without a terminal, a line a cell."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    task = progress.add_task("cells", total=total, completed=done)
    if done:
        console.print(f"{done} of {total} cells are there already", highlight=False)

    def tell(cell: Cell, result: Mapping[str, Any]) -> None:
        nonlocal done
        done += 1
        accuracy = "failed" if result["accuracy"] is None else f"accuracy {result['accuracy']:.1%}"
        line = f"{done}/{total}  {cell.title}: {accuracy}, {result['seconds']:.0f} s"
        progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
        progress.update(task, completed=done)

    with progress:
        yield tell
