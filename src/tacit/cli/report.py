"""`tacit report`: make the page of a run again, or lay several runs over each other in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import print_line


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs that have ended.", metavar="RUN...")],
    out: Annotated[
        Path | None,
        typer.Option(help="The page to write; by default report.html in the run's folder, or here for several runs."),
    ] = None,
) -> None:
    """Make the page of a run, or one page that compares several."""
    from tacit.reports import PAGE, write_page

    page = write_page(runs, out or (runs[0] / PAGE if len(runs) == 1 else Path(PAGE)))
    print_line(f"The page is {page}.")
