"""Results that are kept with the experiments: one small file per cell, from which the pages are made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tacit.errors import TacitError
from tacit.reproduce.cells import ExperimentCell, expand_cells
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.files import available_experiments
from tacit.reproduce.results import ResultRow, result_rows
from tacit.runs.metrics import Result


def kept_folder(name: str) -> Path:
    """The folder of the kept cells of an experiment, such as experiments/results/flagship."""
    return available_experiments()[name].parents[1] / "results" / name.partition("/")[0]


def kept_tuning_file(name: str) -> Path:
    """The file of the kept tries of an experiment."""
    return kept_folder(name) / "tuning" / f"{name.partition('/')[2]}.json"


def kept_estimate_file(name: str) -> Path:
    """The file of the kept estimate of an experiment's time and memory."""
    return kept_folder(name) / "estimates" / f"{name.partition('/')[2]}.json"


def kept_results(name: str, cells: list[ExperimentCell]) -> dict[str, Result]:
    """The kept result of every cell, by its key.

    Raises:
        TacitError: Some cells are not kept.
    """
    folder = kept_folder(name)
    missing = [cell for cell in cells if not _file(folder, cell).is_file()]
    if missing:
        raise TacitError(
            f"{len(missing)} of {len(cells)} results of {name} are not kept in {folder}, such as {missing[0].title}: "
            "run the experiment without --kept"
        )
    return {cell.key: _read(_file(folder, cell)) for cell in cells}


def kept_rows(name: str, experiment: Experiment) -> list[ResultRow]:
    """The table of an experiment from all kept results: with every seed, and of each row the longest runs that exist.

    A row without results has no summary. Without any result of the paper there are no rows.
    """
    folder = kept_folder(name)
    if not any(folder.glob("*.json")):
        return []
    cells = [cell for found in kept_cells(folder, experiment) for cell in found]
    files = {cell.key: _file(folder, cell) for cell in cells}
    return result_rows(experiment, cells, {key: _read(file) for key, file in files.items() if file.is_file()})


def kept_cells(folder: Path, experiment: Experiment) -> list[list[ExperimentCell]]:
    """For each row and calibration, the cells of the longest kept runs; one cell that is not kept if there are none."""
    keys = {path.stem for path in folder.glob("*.json")}
    runs = [_read(folder / f"{key}.json") for key in sorted(keys)]
    seeds = sorted({*experiment.seeds, *(run["config"]["seed"] for run in runs)})
    lengths = {run["config"]["rounds"] for run in runs if "rounds" in run["config"]}
    first = [cell for cell in expand_cells(experiment) if cell.seed == experiment.seeds[0]]
    own = {cell.key for cell in first}  # rows may differ in nothing but their rounds
    return [_longest(cell, seeds, lengths, keys, own - {cell.key}) for cell in first]


def _longest(
    cell: ExperimentCell, seeds: Iterable[int], lengths: Iterable[int], keys: set[str], others: set[str]
) -> list[ExperimentCell]:
    full = cell.full_rounds
    candidates = [cell] if full is None else [cell.with_rounds(each) for each in sorted({*lengths, full}, reverse=True)]
    for candidate in candidates:
        found = [each for seed in seeds if (each := candidate.with_seed(seed)).key in keys]
        if found and candidate.key not in others:
            return found
    return [cell]


def _file(folder: Path, cell: ExperimentCell) -> Path:
    return folder / f"{cell.key}.json"


def _read(path: Path) -> Result:
    result: Result = json.loads(path.read_text(encoding="utf-8"))
    return result
