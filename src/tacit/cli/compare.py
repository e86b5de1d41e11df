"""`tacit compare`: methods on one task at the same guaranteed ε."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import INTERRUPTED, app
from tacit.cli.output import aligned_table, err, print_json, print_line
from tacit.errors import TacitError


@app.command()
def compare(
    methods: Annotated[
        list[str], typer.Argument(help="TOML files, or names of algorithms on the example's task.", metavar="CONFIG...")
    ],
    epsilon: Annotated[float, typer.Option(help="The guaranteed ε that every private method gets.")],
    delta: Annotated[float | None, typer.Option(help="Its δ; by default that of the first config.")] = None,
    seeds: Annotated[int, typer.Option(help="Runs of each method; the table shows mean ± standard deviation.")] = 3,
    cost: Annotated[
        float | None, typer.Option(help="Seconds of the cost clock that each may spend, instead of its own rounds.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over every config.")] = None,
    out: Annotated[Path, typer.Option(help="The folder; what is there already is not run again.")] = Path(
        "runs/compare"
    ),
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one a core, at most 8.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Compare methods on one task, at the same guaranteed ε, on the same axis of cost."""
    from tacit.compare import compare as run
    from tacit.compare.compare import markdown

    if jobs is not None and jobs < 1:
        raise TacitError(f"--jobs must be at least 1, not {jobs}")
    try:
        result = run(
            methods,
            epsilon=epsilon,
            delta=delta,
            seeds=seeds,
            cost=cost,
            settings=set_ or [],
            out=out,
            jobs=jobs or min(os.cpu_count() or 1, 8),
        )
    except KeyboardInterrupt:
        err.print("Stopped; what is finished is kept, and the same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(result)
        return
    print_line(aligned_table(markdown(result["methods"])))
    if result["note"]:
        print_line(f"Mind that {result['note']}: the same ε does not mean the same there.")
    print_line(f"Everything is in {result['out']}; the page to look at is {result['out']}/report.html.")
