"""The run of one cell, and what is saved of it."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tacit.errors import TacitError
from tacit.privacy import RecordedRun
from tacit.runs import Cell, Run, UserParts, batch_relation, from_config, run_saved, task_key, utility_on
from tacit.runs.metrics import Result, Utility, headline_metrics
from tacit.sweeps.cells import SweepCell
from tacit.sweeps.judging import Judge, load_data


class JudgedCell(NamedTuple):
    """A cell with the way it is judged: what one process needs."""

    cell: SweepCell
    judge: Judge


def run_cells(cells: Sequence[SweepCell], judge: Judge, folder: Path | None, workers: int) -> list[Result]:
    """Return the result of every cell. Results that are in `folder` are not computed again."""
    identities = {_data_key(cell): judge.identity(cell.config) for cell in {_data_key(c): c for c in cells}.values()}
    keys = [cell.key(identities[_data_key(cell)]) for cell in cells]
    items = {key: JudgedCell(cell, judge) for key, cell in zip(keys, cells, strict=True)}
    results = run_saved(
        run_cell,
        items,
        folder,
        workers,
        is_complete=_is_complete,
        describe=_describe,
        group=lambda item: task_key(item.cell.config),
        what="runs",
        around=_quietly_with_one_thread,
    )
    return [results[key] for key in keys]


def run_cell(item: JudgedCell, member: Cell) -> Result:
    """Run one cell, as a member of a group. A run that fails, because it diverges for example, is a result too."""
    cell, judge = item
    run = build_cell(cell)
    member.join(run)
    error: str | None = None
    try:
        run.go()
    except TacitError as failure:
        error = str(failure)
    if run.interrupted:
        raise KeyboardInterrupt
    judged, reported = (utility_on(run, *part) for part in judge.records(cell.config))
    if error is not None:  # the last finite model of a run that diverged is no result
        judged, reported = (Utility.unknown(run.task.head, each.trivial) for each in (judged, reported))
    reservation = run.task.ledger.reservation
    return {
        "title": cell.title,
        "judged": judged.metrics,
        "reported": reported.metrics,
        "trivial": {"judged": judged.trivial, "reported": reported.trivial},
        "main": list(judged.main),
        "privacy": run.privacy.as_dict(),
        "releases": _packed(run),
        "recorded_as": None if reservation is None else reservation.run,
        "seconds": round(member.clock(), 1),
        "error": error or run.stopped,
    }


def build_cell(cell: SweepCell) -> Run:
    """Return the run of a cell, before its first round. It evaluates at its end only.

    Raises:
        TacitError: The settings are not accepted, or the budget of the records refuses the run.
    """
    config = cell.config.model_copy(update={"evaluate_every": cell.config.rounds, "measure": ()})
    try:
        return from_config(config, UserParts(data=load_data(config)), secret_noise=True)
    except TacitError as error:
        raise type(error)(f"{cell.title}: {error}") from None


def simulated_run(cell: SweepCell) -> Run:
    """Return the run of a cell as a simulation, to plan and check it: it never uses the records ledger."""
    return build_cell(replace(cell, config=cell.config.model_copy(update={"noise": "simulated"})))


def recorded_run(result: Mapping[str, Any]) -> RecordedRun:
    """Return what a cell released."""
    packed = base64.b64decode(result["releases"])
    return RecordedRun.from_row(("", result["title"], "", True, packed, result["privacy"]["reason"]))


def _data_key(cell: SweepCell) -> tuple[str, str]:
    """Cells with the same key have the same records."""
    return cell.config.data.model_dump_json(), batch_relation(cell.config.batch)


def _packed(run: Run) -> str:
    made = RecordedRun("", "", "", True, list(run.task.ledger.releases()))
    return base64.b64encode(made.as_row()[4]).decode()


def _is_complete(result: Result) -> bool:
    return {"judged", "reported", "privacy", "releases", "recorded_as", "error"} <= set(result)


def _describe(item: JudgedCell, result: Result) -> str:
    judged = {name: result["judged"][name] for name in result["main"]}
    texts = [f"{each.short} {each.text(judged[each.name])}" for each in headline_metrics(judged)[:1]]
    stopped = ["stopped early"] if result["error"] else []
    return f"{result['title']}: {', '.join([*texts, *stopped])}, {result['seconds']:.0f} s"


@contextmanager
def _quietly_with_one_thread() -> Iterator[None]:
    """Use one thread, as parallel processes do. Warnings were shown when the settings were checked."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(threads)
