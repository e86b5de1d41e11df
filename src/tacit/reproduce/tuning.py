"""Equal effort for every method: the same number of random tries, judged on records held out of the training data."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from tacit.errors import TacitError
from tacit.reproduce.cells import Cell, expand
from tacit.reproduce.experiment import Axis, Experiment, Tuning, chosen, merged, nested
from tacit.reproduce.running import run_cells
from tacit.runs import storage

TRY = "try"


def tries(experiment: Experiment) -> list[Cell]:
    """A cell for every try of every method, with the settings that are tried as its last label."""
    tuning = _tuning(experiment)
    cells: list[Cell] = []
    for label in experiment.axes[tuning.over]:
        if label not in tuning.grid:
            continue
        axes = chosen(experiment.axes, {**tuning.axes, tuning.over: [label]})
        search = experiment.model_copy(
            update={
                "base": merged(experiment.base, tuning.base),
                "axes": {**axes, TRY: _drawn(tuning, label)},
                "adjust": [],
                "seeds": [tuning.seed],
                "calibrations": [tuning.calibration],
            }
        )
        cells += expand(search, held_out=tuning.held_out)
    return cells


def tune(experiment: Experiment, out: Path, jobs: int) -> dict[str, Any]:
    """Run the tries; keep all of them in tuning.json, and the best, ready for the experiment's file, in tuned.toml."""
    cells = tries(experiment)
    results = run_cells(cells, out / "cells", jobs)
    lines = [
        {**cell.labels, "accuracy": results[cell.key]["accuracy"], "error": results[cell.key]["error"]}
        for cell in cells
    ]
    tuning = _tuning(experiment)
    best = [max(group, key=lambda line: line["accuracy"] or 0.0) for group in _groups(lines)]
    adjust = [{"when": _when(line), "set": _drawn(tuning, line[tuning.over])[line[TRY]]} for line in best]
    summary = {"tries": lines, "best": best, "adjust": adjust, "out": str(out)}
    storage.write_json(out / "tuning.json", summary)
    storage.write(out / "tuned.toml", tomli_w.dumps({"adjust": adjust}).encode())
    return summary


def _tuning(experiment: Experiment) -> Tuning:
    if experiment.tune is None:
        raise TacitError(f"{experiment.title} says nothing of tuning: there is no [tune] in its file")
    return experiment.tune


def _drawn(tuning: Tuning, label: str) -> Axis:
    """So many different points of the grid of a method, at random but always the same."""
    grid = tuning.grid[label]
    points = list(itertools.product(*grid.values()))
    picked = random.Random(tuning.seed).sample(points, min(tuning.tries, len(points)))
    drawn: Axis = {}
    for point in picked:
        settings: dict[str, Any] = {}
        for key, value in zip(grid, point, strict=True):
            settings = merged(settings, nested(key, value))
        words = (f"{key.rpartition('.')[2]} {value:g}" for key, value in zip(grid, point, strict=True))
        drawn[" ".join(words)] = settings
    return drawn


def _when(line: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in line.items() if key not in (TRY, "accuracy", "error")}


def _groups(lines: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(tuple(_when(line).items()), []).append(line)  # type: ignore[arg-type]
    return list(groups.values())
