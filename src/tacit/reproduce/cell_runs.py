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
from tacit.runs.metrics import Result, all_metrics, has_failed
from tacit.tasks import Dataset
from tacit.version import __version__


def run_cells(cells: Sequence[ExperimentCell], folder: Path, jobs: int = 1) -> dict[str, Result]:
    """The result of every cell, by its key. Results that are in `folder` are not computed again."""
    by_key = {cell.key: cell for cell in cells}
    return run_saved(run_cell, by_key, folder, jobs, is_complete=_is_complete, describe=_describe, group=_group)


def run_cell(cell: ExperimentCell, member: Cell | None = None) -> Result:
    """Run one cell, alone or as a member of a group. A run that fails, because it diverges for example, is a result too."""
    if isinstance(cell.config, GraphStudy):
        return {"title": cell.title, **measure_study(cell.config)}
    member = member or Cell()
    data = _data(cell.config.data.model_dump_json(), batch_relation(cell.config.batch), cell.held_out)
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
        "title": cell.title,
        **{key: last.get(key) for key in ("accuracy", "loss", "metrics", "privacy")},
        "history": run.evaluations,
        "trace": run.trace,
        "seconds": round(member.clock(), 1),
        "error": error or run.stopped,
        "config": json.loads(cell.config.model_dump_json(exclude_none=True)),  # JSON has no infinity
        "held_out": cell.held_out,
        "versions": {"tacit": __version__, "torch": torch.__version__},
    }


def _group(cell: ExperimentCell) -> Hashable | None:
    return None if isinstance(cell.config, GraphStudy) else (cell.held_out, task_key(cell.config))


def _is_complete(result: Result) -> bool:
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
def _data(part: str, relation: Relation, held_out: int | None) -> Dataset:
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
