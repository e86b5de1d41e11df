"""`tacit report`: the page of a run, or of several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import print_line


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.", metavar="RUN...")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: report.html in the run folder; here for several runs."),
    ] = None,
) -> None:
    """Write the report of a run, or one page that compares several runs. Every run is verified first."""
    from tacit.reports import REPORT_FILE, write_run_page

    page = write_run_page(runs, out or (runs[0] / REPORT_FILE if len(runs) == 1 else Path(REPORT_FILE)))
    print_line(f"Report: {page}")
