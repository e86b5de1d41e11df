"""Hyperparameter search with equal effort for every method, evaluated on records held out of the training data."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

from tacit.errors import TacitError
from tacit.reproduce.cell_runs import run_cells
from tacit.reproduce.cells import ExperimentCell, expand_cells
from tacit.reproduce.experiment import Experiment, TuningPlan
from tacit.reproduce.results import metric_value
from tacit.reproduce.settings import AxisValues, Settings, merge_settings, nested_setting, select_values
from tacit.runs import storage
from tacit.runs.metrics import Metric, Result

_TRY_AXIS = "try"
_ERROR = "error"


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
    """Run the search. Write all tries to tuning.json, and the best settings, as `[[adjust]]`, to tuned.toml.

    Tries are compared by the first metric of the experiment.
    """
    cells = tuning_cells(experiment)
    results = run_cells(cells, out / "cells", jobs)
    main = experiment.first_metric
    tries = [_try(cell, results[cell.key], main) for cell in cells]
    plan = _tuning_plan(experiment)
    best = [max(group, key=partial(_quality, main)) for group in _group_by_labels(tries, main)]
    adjust = [
        {"when": _labels(each, main), "set": _random_tries(plan, each[plan.over])[each[_TRY_AXIS]]} for each in best
    ]
    summary = {"tries": tries, "best": best, "adjust": adjust, "out": str(out)}
    storage.write_json(out / "tuning.json", summary)
    storage.write(out / "tuned.toml", tomli_w.dumps({"adjust": adjust}).encode())
    return summary


def _try(cell: ExperimentCell, result: Result, main: Metric) -> dict[str, Any]:
    value = metric_value(main.name, result)
    return {**cell.labels, main.name: None if value is None else round(value, 4), _ERROR: result[_ERROR]}


def _quality(main: Metric, line: dict[str, Any]) -> float:
    value: float | None = line[main.name]
    return -math.inf if value is None else value if main.higher_is_better else -value


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
        words = (f"{key.rpartition('.')[2]} {_word(value)}" for key, value in zip(grid, point, strict=True))
        tries[" ".join(words)] = settings
    return tries


def _word(value: Any) -> str:
    """
    >>> _word(128.0), _word({"mean": 0.03, "gradients": 0.97})
    ('128', 'mean 0.03 gradients 0.97')
    """
    if isinstance(value, Mapping):
        return " ".join(f"{key} {_word(each)}" for key, each in value.items())
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def _labels(line: dict[str, Any], main: Metric) -> dict[str, str]:
    return {key: value for key, value in line.items() if key not in (_TRY_AXIS, main.name, _ERROR)}


def _group_by_labels(lines: Sequence[dict[str, Any]], main: Metric) -> list[list[dict[str, Any]]]:
    groups: dict[tuple[tuple[str, str], ...], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(tuple(_labels(line, main).items()), []).append(line)
    return list(groups.values())
