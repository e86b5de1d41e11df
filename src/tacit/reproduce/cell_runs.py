"""Runs the cells of an experiment in parallel and saves each result, so that a second call continues the first."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.reproduce.cells import ExperimentCell
from tacit.reproduce.graph_measurement import measure_study
from tacit.reproduce.graph_study import GraphStudy
from tacit.runs import (
    Cell,
    NamedPart,
    UserParts,
    batch_relation,
    build_data,
    from_config,
    run_saved,
    task_key,
)
from tacit.runs.metrics import Result, all_metrics, has_failed, metric
from tacit.tasks import Dataset
from tacit.version import __version__

_KEPT_TRACE = 100  # rounds: charts of sensitivities show fewer
_TRACE_METRICS = ("ras", "violations", "peak")


def run_cells(cells: Sequence[ExperimentCell], folder: Path, jobs: int = 1, *, keep: bool = False) -> dict[str, Result]:
    """The result of every cell, by its key. Results that are in `folder` are not computed again.

    With `keep`, results are small enough to be committed (`small_result`).
    """
    by_key = {cell.key: cell for cell in cells}
    work = _run_small_cell if keep else run_cell
    return run_saved(work, by_key, folder, jobs, is_complete=is_complete, describe=_describe, group=cell_group)


def unfinished_cells(cells: Sequence[ExperimentCell], folder: Path) -> list[ExperimentCell]:
    """The cells whose results are not in the folder."""
    return [cell for cell in cells if not _is_saved(folder / f"{cell.key}.json")]


def _is_saved(path: Path) -> bool:
    try:
        return is_complete(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return False


def _run_small_cell(cell: ExperimentCell, member: Cell) -> Result:
    return small_result(run_cell(cell, member))


def small_result(result: Result) -> Result:
    """The result with the first rounds of its trace only, and with the metrics that were computed from all of it.

    >>> trace = [{"round": k, "real": 1.0 / k} for k in range(1, 300)]
    >>> small = small_result({"accuracy": 0.5, "trace": trace})
    >>> len(small["trace"]), small["trace"][2], small["summary"]["peak"]
    (100, {'round': 3, 'real': 0.333333}, 1.0)
    """
    trace = result.get("trace")
    if not trace:
        return result
    summary = {name: metric(name).summarise(result) for name in _TRACE_METRICS}
    short = [{key: None if v is None else float(f"{v:.6g}") for key, v in row.items()} for row in trace[:_KEPT_TRACE]]
    return {**result, "trace": [{**row, "round": round(row["round"] or 0)} for row in short], "summary": summary}


def run_cell(cell: ExperimentCell, member: Cell | None = None) -> Result:
    """Run one cell, alone or as a member of a group. A run that fails, such as one that diverges, is a result too."""
    if isinstance(cell.config, GraphStudy):
        return {**_identity(cell), **measure_study(cell.config)}
    member = member or Cell()
    data = experiment_data(cell.config.data.model_dump_json(), batch_relation(cell.config.batch), cell.held_out)
    run = from_config(cell.config, UserParts(data=data))
    member.join(run)
    error: str | None = None
    try:
        run.go()
    except TacitError as failure:
        error = str(failure)
    if run.interrupted:
        raise KeyboardInterrupt
    last = run.result() if error is None else {"privacy": run.planned().as_dict()}
    return {
        **_identity(cell),
        **{key: last.get(key) for key in ("accuracy", "loss", "metrics", "privacy")},
        "history": run.evaluations,
        "trace": run.trace,
        "rounds": run.t,
        "seconds": round(member.clock(), 1),
        "error": error or run.stopped,
        "config": json.loads(cell.config.model_dump_json(exclude_none=True)),  # JSON has no infinity
        "held_out": cell.held_out,
    }


def _identity(cell: ExperimentCell) -> Result:
    """What a result is a result of: `digest` identifies the config, and `planned_rounds` is the length of the run."""
    return {
        "title": cell.title,
        "digest": cell.key,
        "seed": cell.seed,
        "planned_rounds": cell.rounds,
        "published_rounds": cell.published_rounds,
        "versions": {"tacit": __version__, "torch": torch.__version__},
    }


def cell_group(cell: ExperimentCell) -> Hashable | None:
    """Cells with the same value share task, draws and graph size, and run together; None: the cell runs alone."""
    return None if isinstance(cell.config, GraphStudy) else (cell.held_out, task_key(cell.config))


def is_complete(result: Result) -> bool:
    """Whether a saved result can be used."""
    return {"error", "privacy", "history"} <= set(result)


def _describe(cell: ExperimentCell, result: Result) -> str:
    return f"{cell.title}: {_outcome(result)}, {result['seconds']:.0f} s"


def _outcome(result: Result) -> str:
    if has_failed(result):
        return "failed"
    measured: Mapping[str, float | None] = result.get("scores") or result.get("metrics") or result
    first = next(each for each in all_metrics() if measured.get(each.name) is not None)
    return f"{first.short} {first.text(measured[first.name])}"


@lru_cache(maxsize=2)
def experiment_data(part: str, relation: Relation, held_out: int | None) -> Dataset:
    """The data set, loaded once per process; with `held_out`, that many training records are the test set.

    They are chosen by their position, which is no constant if records of a user's file are added or removed.
    """
    data = build_data(NamedPart.model_validate_json(part), relation)
    if held_out is None:
        return data
    if not 0 < held_out < len(data.y):
        raise TacitError(f"held_out must be below {len(data.y)}, the training records of {data.name}, got {held_out}")
    if data.split == "content":
        raise TacitError(
            f'held_out chooses records of {data.name} by their position, which does not fit the relation "add-remove": '
            'set batch.relation = "replace-one", or use a published data set'
        )
    order = np.random.default_rng(0).permutation(len(data.y))
    test, train = torch.from_numpy(order[:held_out]), order[held_out:]
    name = f"{data.name}, {held_out} held out"
    return replace(data.subset(train), name=name, test_x=data.x[test], test_y=data.y[test])
