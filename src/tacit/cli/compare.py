"""`tacit compare`: several methods on one task at the same guaranteed ε."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line, results_line
from tacit.cli.parallel import continue_later, job_count
from tacit.cli.privacy_lines import warn_if_weak
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.comparisons import Comparison


class TableFormat(StrEnum):
    """The format in which the table is printed."""

    text = "text"
    latex = "latex"
    markdown = "markdown"
    csv = "csv"


@app.command()
def compare(
    methods: Annotated[
        list[str],
        typer.Argument(help="Config files, or names of algorithms to run on the example's task.", metavar="CONFIG..."),
    ],
    epsilon: Annotated[float, typer.Option(help="Guaranteed ε of every private method.")],
    delta: Annotated[float | None, typer.Option(help="δ of all methods. Default: that of the first config.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs per method. The table shows mean ± standard deviation.")] = 3,
    cost: Annotated[
        float | None,
        typer.Option(help="Simulated seconds per run. Default: the number of rounds in each config."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override a setting of every config: key=value.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results. Finished runs there are not repeated.")] = Path(
        "runs/compare"
    ),
    jobs: Annotated[int | None, typer.Option(help="Parallel processes. Default: one per core, at most 8.")] = None,
    form: Annotated[
        TableFormat, typer.Option("--format", help="Format of the table. All but text print nothing else.")
    ] = TableFormat.text,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare methods on one task at the same guaranteed ε."""
    from tacit.comparisons import run_comparison
    from tacit.reports import comparison_observers, write_comparison_page, write_if_installed

    if as_json and form is not TableFormat.text:
        raise TacitError(f"--json and --format {form} are two formats: choose one")
    warn_if_weak(epsilon)
    with continue_later():
        comparison = run_comparison(
            methods,
            epsilon=epsilon,
            delta=delta,
            seeds=seeds,
            cost=cost,
            settings=set_ or [],
            out=out,
            jobs=job_count(jobs),
            observers=comparison_observers,
        )
    page = write_if_installed(write_comparison_page, comparison)
    if as_json:
        print_json(comparison.as_dict())
    else:
        _print(comparison, form, page)


def _print(comparison: Comparison, form: TableFormat, page: Path | None) -> None:
    from tacit.tables import FORMATS

    if form is not TableFormat.text:
        sys.stdout.write(FORMATS[form](comparison.frame) + "\n")
        return
    print_line(aligned_table(comparison.table))
    if comparison.note:
        print_line(f"WARNING: {comparison.note} Their ε cannot be compared.")
    print_line(results_line(comparison.out, page))
