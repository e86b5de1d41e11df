"""From the name of an experiment to its results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit.reproduce.cell_runs import run_cells
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.files import load_experiment
from tacit.reproduce.kept import kept_folder, kept_results, kept_tuning_file
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

    def as_dict(self) -> dict[str, Any]:
        """The content of results.json, which `--json` prints."""
        return {
            "experiment": self.name,
            "title": self.experiment.title,
            "measures": self.experiment.table_title,
            "quick": self.quick,
            "seeds": self.experiment.seeds,
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
    """
    experiment = _load(name, quick)
    cells = expand_cells(experiment)
    folder = out or _RUNS / f"{name}{'-quick' if quick else ''}"
    ensure_folder(folder)
    if kept:
        results = kept_results(name, cells)
    else:
        results = run_cells(cells, kept_folder(name) if keep else (out or folder.parent) / "cells", jobs)
    rows = result_rows(experiment, cells, results)
    seconds = round(sum(result["seconds"] for result in results.values()), 1)
    done = ExperimentResults(name, experiment, quick, rows, seconds, folder)
    heading = f"# {experiment.title}{' (quick)' if quick else ''}\n\n{experiment.about}\n\n"
    storage.write(folder / "table.md", (heading + done.table + "\n").encode())
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
    summary = tune_experiment(_load(name, quick), folder, jobs)
    if keep:
        file = kept_tuning_file(name)
        ensure_folder(file.parent)
        storage.write_json(file, summary["tries"])
    return summary


def _load(name: str, quick: bool) -> Experiment:
    experiment = load_experiment(name)
    return experiment.quick_version() if quick else experiment
