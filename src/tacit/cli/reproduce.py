"""`tacit reproduce`: a table or figure of a paper, run again beside the published numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import INTERRUPTED, app
from tacit.cli.output import aligned_table, err, print_json, print_line
from tacit.errors import TacitError


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="PAPER/TABLE, such as dyn-d2p/table2; tacit list shows all.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small version: seconds to minutes.")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Search each method's parameters instead.")] = False,
    out: Annotated[Path | None, typer.Option(help="The folder; by default runs/reproduce/PAPER/TABLE.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one a core, at most 8.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Run a paper's experiment again: published, at the claimed ε, at the guaranteed ε."""
    from tacit.reproduce import reproduce as run

    if jobs is not None and jobs < 1:
        raise TacitError(f"--jobs must be at least 1, not {jobs}")
    try:
        result = run(experiment, quick=quick, out=out, jobs=jobs or min(os.cpu_count() or 1, 8), tuning=tune)
    except KeyboardInterrupt:
        err.print("Stopped; what is finished is kept, and the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    table = result.pop("table", "")
    if as_json:
        print_json(result)
    elif tune:
        for line in result["best"]:
            print_line("  ".join(str(value) for value in line.values() if value is not None))
        print_line(f"All tries are in {result['out']}/tuning.json, the best for the experiment's file in tuned.toml.")
    else:
        small = " (quick: smaller in every way, so not the experiment's numbers)" if quick else ""
        print_line(f"{result['title']}: {result['measures']}{small}")
        print_line(aligned_table(table))
        print_line(f"Everything is in {result['out']}; the page to look at is {result['out']}/report.html.")
