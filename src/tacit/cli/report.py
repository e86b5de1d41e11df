"""`tacit report`: the page of a run, or of several runs, and the PDF of a run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import print_line
from tacit.errors import TacitError


class ReportFormat(StrEnum):
    """The formats of a report."""

    HTML = "html"
    PDF = "pdf"


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.", metavar="RUN...")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write. Default: report.html or .pdf in the run folder; here for several runs."),
    ] = None,
    format_: Annotated[
        ReportFormat,
        typer.Option("--format", help="html: a page. pdf: a document of one run to file and sign; needs Chromium."),
    ] = ReportFormat.HTML,
    purpose: Annotated[str, typer.Option(help="With --format pdf: what the training is for, for the first page.")] = "",
) -> None:
    """Write the report of a run, or one page that compares several runs. Every run is verified first."""
    from tacit.reports import PDF_FILE, REPORT_FILE, require_report_extra, write_run_page, write_run_pdf

    require_report_extra()
    if format_ is ReportFormat.PDF:
        if len(runs) > 1:
            raise TacitError(f"--format pdf is for one run, got {len(runs)}: write one document per run")
        print_line(f"Report: {write_run_pdf(runs[0], out or runs[0] / PDF_FILE, purpose)}")
        return
    if purpose:
        raise TacitError("--purpose is for the first page of a document: add --format pdf")
    page = write_run_page(runs, out or (runs[0] / REPORT_FILE if len(runs) == 1 else Path(REPORT_FILE)))
    print_line(f"Report: {page}")
