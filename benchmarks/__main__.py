"""`python -m benchmarks`: measure all rows, and write the numbers and the measured part of docs/benchmarks.md.

Every finished cell is saved in benchmarks/results.json at once. The same command continues an interrupted run.
"""

from __future__ import annotations

import argparse
import os
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.arena import THREAD_VARIABLES
from benchmarks.formats import milliseconds
from benchmarks.page import page
from benchmarks.rows import ROWS, Cell
from benchmarks.store import Store

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


def main() -> None:
    options = parsed()
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(options.threads)))  # for the processes of the contenders
    name = "quick" if options.quick else "results"
    store = Store(HERE / f"{name}.json", {"quick": options.quick, "threads": options.threads})
    if options.new or not store.content or not (options.only or options.page or store.is_unfinished):
        store.begin()
    every = [cell for row in ROWS for cell in ROWS[row](options.quick)]
    if not options.page:
        chosen = [cell for cell in every if not options.only or cell.key.split("/")[0] in options.only]
        left = [cell for cell in chosen if options.only or not store.has(cell.key)]
        seconds = sum(store.predicted(cell.key, cell.cost) for cell in left)
        print(f"{len(left)} of {len(every)} cells to measure, about {seconds / 60:.0f} minutes", flush=True)
        if options.estimate:
            return
        measure(store, left)
    store.finish([cell.key for cell in every])
    write_page(store.content, change=not options.quick)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="ROW", help=f"measure these rows again: {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="fewer nodes and repetitions; does not change the page")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads per contender (default: all)")
    parser.add_argument("--new", action="store_true", help="begin a new run instead of continuing an unfinished one")
    parser.add_argument("--estimate", action="store_true", help="print the predicted time and stop")
    parser.add_argument("--page", action="store_true", help="write the page from the saved numbers, without measuring")
    options = parser.parse_args()
    if unknown := [row for row in options.only or [] if row not in ROWS]:
        parser.error(f"unknown row {', '.join(unknown)}; the rows are {', '.join(ROWS)}")
    return options


def measure(store: Store, cells: Sequence[Cell]) -> None:
    """Measure the cells and save each. A cell that fails is saved with its reason, and the page states it."""
    for cell in cells:
        print(f"{cell.key} (about {store.predicted(cell.key, cell.cost):.0f} s)", end=": ", flush=True)
        start = time.perf_counter()
        try:
            found = cell.measure()
        except Exception as error:
            traceback.print_exc()
            found = {"reason": str(error) or type(error).__name__}
        spent = time.perf_counter() - start
        store.save(cell.key, found, spent)
        print(f"{summary(found)}; {spent:.0f} s", flush=True)


def summary(found: dict[str, Any]) -> str:
    """Describe a finished cell in one line."""
    times = (f"{name} {milliseconds(each['seconds'])}" for name, each in found.get("measured", {}).items())
    return found.get("reason") or ", ".join(times) or "done"


def write_page(results: dict[str, Any], *, change: bool) -> None:
    """Print the tables and, after a full run, write them between the two marks of the page."""
    text = page(results)
    print(f"\n{text}")
    if change and PAGE.exists():
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
