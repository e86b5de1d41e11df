"""From the name of an experiment to its results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.reproduce.cell_runs import run_cells, unfinished_cells
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.estimate import estimate_cells
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.files import load_experiment
from tacit.reproduce.kept import kept_estimate_file, kept_folder, kept_results, kept_tuning_file
from tacit.reproduce.lengths import table_note
from tacit.reproduce.results import ResultRow, result_rows
from tacit.reproduce.tables import csv_table, markdown_table
from tacit.reproduce.tuning import tune_experiment
from tacit.runs import ensure_folder, storage

_RUNS = Path("runs/reproduce")


@dataclass(frozen=True)
class ExperimentResults:
    """The results of an experiment, with `seconds` of computing time and the folder `out` of its files."""

    name: str
    experiment: Experiment
    quick: bool
    rows: list[ResultRow]
    seconds: float
    out: Path

    @property
    def table(self) -> str:
        """The results as a Markdown table."""
        return markdown_table(self.experiment, self.rows)

    @property
    def note(self) -> str:
        """Seeds and lengths of the runs, in a sentence or two."""
        return table_note(self.rows)

    def as_dict(self) -> dict[str, Any]:
        """The content of results.json, which `--json` prints."""
        return {
            "experiment": self.name,
            "title": self.experiment.title,
            "measures": self.experiment.table_title,
            "quick": self.quick,
            "seeds": self.experiment.seeds,
            "note": self.note,
            "seconds": self.seconds,
            "rows": [asdict(row) for row in self.rows],
            "out": str(self.out),
        }


def reproduce(
    name: str,
    *,
    quick: bool = False,
    out: Path | None = None,
    jobs: int = 1,
    keep: bool = False,
    kept: bool = False,
    seeds: int | None = None,
    rounds: int | None = None,
) -> ExperimentResults:
    """Run an experiment and write table.md, table.csv and results.json.

    Cells that have been run before are not repeated, even for another figure of the same paper.

    Args:
        name: Name of the experiment, such as dyn-d2p/table2.
        quick: Run its small version.
        out: Folder of the results; by default runs/reproduce/NAME.
        jobs: Number of processes.
        keep: Save the cells beside the experiments, in experiments/results, and not in `out`.
        kept: Run nothing: use the results that are kept there.
        seeds: Number of seeds; by default those of the experiment.
        rounds: Number of rounds of the longest cells; the others are shortened or extended in proportion.
    """
    if quick and keep:
        raise TacitError("Results of the quick version are not kept: use rounds and seeds for a smaller experiment")
    experiment = load_version(name, quick, seeds)
    cells = expand_cells(experiment, rounds=rounds)
    folder = out or _RUNS / f"{name}{'-quick' if quick else ''}{f'-{rounds}-rounds' if rounds else ''}"
    ensure_folder(folder)
    results = kept_results(name, cells) if kept else run_cells(cells, cells_folder(name, out, keep), jobs, keep=keep)
    rows = result_rows(experiment, cells, results)
    seconds = round(sum(result["seconds"] for result in results.values()), 1)
    done = ExperimentResults(name, experiment, quick, rows, seconds, folder)
    heading = f"# {experiment.title}{' (quick)' if quick else ''}\n\n{experiment.about}\n\n"
    storage.write(folder / "table.md", f"{heading}{done.table}\n\n{done.note}\n".encode())
    storage.write(folder / "table.csv", csv_table(experiment, rows).encode())
    storage.write_json(folder / "results.json", done.as_dict())
    return done


def tune(
    name: str, *, quick: bool = False, out: Path | None = None, jobs: int = 1, keep: bool = False
) -> dict[str, Any]:
    """Search the hyperparameters of every method of an experiment (arguments as for `reproduce`).

    With `keep`, all tries are saved beside the experiments too.
    """
    folder = out or _RUNS / f"{name}-tune{'-quick' if quick else ''}"
    summary = tune_experiment(load_version(name, quick), folder, jobs)
    if keep:
        file = kept_tuning_file(name)
        ensure_folder(file.parent)
        storage.write_json(file, summary["tries"])
    return summary


def estimate(
    name: str,
    *,
    quick: bool = False,
    out: Path | None = None,
    jobs: int = 1,
    keep: bool = False,
    seeds: int | None = None,
    rounds: int | None = None,
) -> dict[str, Any]:
    """Time and memory of what `reproduce` with the same arguments would still run, from short trials.

    With `keep`, the estimate is saved beside the experiments, and pages show it until results are kept.
    """
    cells = list({cell.key: cell for cell in expand_cells(load_version(name, quick, seeds), rounds=rounds)}.values())
    missing = unfinished_cells(cells, cells_folder(name, out, keep))
    found = {"experiment": name, "finished": len(cells) - len(missing), **estimate_cells(missing, jobs)}
    if keep:
        file = kept_estimate_file(name)
        ensure_folder(file.parent)
        storage.write_json(file, found)
    return found


def cells_folder(name: str, out: Path | None = None, keep: bool = False) -> Path:
    """Where the results of an experiment's cells are saved."""
    return kept_folder(name) if keep else (out or (_RUNS / name).parent) / "cells"


def load_version(name: str, quick: bool = False, seeds: int | None = None) -> Experiment:
    """An experiment or its quick version, with as many seeds."""
    experiment = load_experiment(name)
    experiment = experiment.quick_version() if quick else experiment
    return experiment if seeds is None else experiment.with_seeds(seeds)
