"""Hyperparameter search with equal effort for every method, evaluated on records held out of the training data."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from tacit.errors import TacitError
from tacit.reproduce.cell_runs import run_cells
from tacit.reproduce.cells import ExperimentCell, expand_cells
from tacit.reproduce.experiment import Experiment, TuningPlan
from tacit.reproduce.settings import AxisValues, Settings, merge_settings, nested_setting, select_values
from tacit.runs import storage

_TRY_AXIS = "try"
_OUTCOME_KEYS = ("accuracy", "error")


def tuning_cells(experiment: Experiment) -> list[ExperimentCell]:
    """One cell per try of each method; its last label is the hyperparameters of the try."""
    plan = _tuning_plan(experiment)
    cells: list[ExperimentCell] = []
    for label in experiment.axes[plan.over]:
        if label not in plan.grid:
            continue
        axes = select_values(experiment.axes, {**plan.axes, plan.over: [label]})
        search = experiment.model_copy(
            update={
                "base": merge_settings(experiment.base, plan.base),
                "axes": {**axes, _TRY_AXIS: _random_tries(plan, label)},
                "adjust": [],
                "seeds": [plan.seed],
                "calibrations": [plan.calibration],
            }
        )
        cells += expand_cells(search, held_out=plan.held_out)
    return cells


def tune_experiment(experiment: Experiment, out: Path, jobs: int) -> dict[str, Any]:
    """Run the search. Write all tries to tuning.json, and the best settings, as `[[adjust]]`, to tuned.toml."""
    cells = tuning_cells(experiment)
    results = run_cells(cells, out / "cells", jobs)
    tries = [{**cell.labels, **{key: results[cell.key][key] for key in _OUTCOME_KEYS}} for cell in cells]
    plan = _tuning_plan(experiment)
    best = [max(group, key=lambda each: each["accuracy"] or 0.0) for group in _group_by_labels(tries)]
    adjust = [{"when": _labels(each), "set": _random_tries(plan, each[plan.over])[each[_TRY_AXIS]]} for each in best]
    summary = {"tries": tries, "best": best, "adjust": adjust, "out": str(out)}
    storage.write_json(out / "tuning.json", summary)
    storage.write(out / "tuned.toml", tomli_w.dumps({"adjust": adjust}).encode())
    return summary


def _tuning_plan(experiment: Experiment) -> TuningPlan:
    if experiment.tune is None:
        raise TacitError(f'"{experiment.title}" cannot be tuned: its file has no [tune] section')
    return experiment.tune


def _random_tries(plan: TuningPlan, label: str) -> AxisValues:
    """Distinct random points of a method's grid, the same in every call."""
    grid = plan.grid[label]
    points = list(itertools.product(*grid.values()))
    chosen = random.Random(plan.seed).sample(points, min(plan.tries, len(points)))
    tries: AxisValues = {}
    for point in chosen:
        settings: Settings = {}
        for key, value in zip(grid, point, strict=True):
            settings = merge_settings(settings, nested_setting(key, value))
        words = (f"{key.rpartition('.')[2]} {value:g}" for key, value in zip(grid, point, strict=True))
        tries[" ".join(words)] = settings
    return tries


def _labels(line: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in line.items() if key not in (_TRY_AXIS, *_OUTCOME_KEYS)}


def _group_by_labels(lines: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: dict[tuple[tuple[str, str], ...], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(tuple(_labels(line).items()), []).append(line)
    return list(groups.values())
