"""From the name of an experiment to its table, files and page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.reproduce import columns, table
from tacit.reproduce.cells import expand
from tacit.reproduce.files import load
from tacit.reproduce.page import page
from tacit.reproduce.running import ready, run_cells
from tacit.reproduce.tuning import tune
from tacit.runs import storage

PAGE = "report.html"


def reproduce(
    name: str, *, quick: bool = False, out: Path | None = None, jobs: int = 1, tuning: bool = False
) -> dict[str, Any]:
    """Run what is left of an experiment and write table.md, table.csv, results.json and report.html.

    With `tuning`, search the parameters of every method instead; what comes out is for the experiment's file.
    """
    experiment = load(name)
    if quick:
        experiment = experiment.quickly()
    folder = out or Path("runs/reproduce") / f"{name}{'-tune' if tuning else ''}{'-quick' if quick else ''}"
    if tuning:
        return tune(experiment, folder, jobs)
    cells = expand(experiment)
    ready(folder)
    # Figures of one paper show the same runs in different ways: what one has run, the others find.
    results = run_cells(cells, (out or folder.parent) / "cells", jobs)
    rows = table.rows(experiment, cells, results)
    text = columns.markdown(experiment, rows)
    summary = {
        "experiment": name,
        "title": experiment.title,
        "measures": experiment.measures,
        "quick": quick,
        "seeds": experiment.seeds,
        "seconds": round(sum(result["seconds"] for result in results.values()), 1),
        "rows": columns.as_list(rows),
        "out": str(folder),
    }
    heading = f"# {experiment.title}{' (quick)' if quick else ''}\n\n{experiment.about}\n\n"
    storage.write(folder / "table.md", (heading + text + "\n").encode())
    storage.write(folder / "table.csv", columns.as_csv(experiment, rows).encode())
    storage.write_json(folder / "results.json", summary)
    storage.write(folder / PAGE, page(experiment, rows, name, quick).encode())
    return {**summary, "table": text}
