"""`tacit tune`: search settings on public or synthetic records, or with every trial charged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line
from tacit.cli.parallel import continue_later, job_count

_FOLDER = Path("runs/tune")


@app.command()
def tune(
    config: Annotated[Path | None, typer.Argument(help="Config file (TOML). Default: the embedded example.")] = None,
    public: Annotated[
        str | None, typer.Option(help="Tune on public records: a data set, or a file like that of the config.")
    ] = None,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Tune on synthetic records with the same shape, classes and number.")
    ] = False,
    charge: Annotated[
        bool, typer.Option("--charge", help="Tune on the records themselves; the target ε is split over all trials.")
    ] = False,
    grid: Annotated[
        list[str] | None, typer.Option(help="Setting to vary, as for tacit sweep. Default: lr and clip.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Number of random points. Default without --grid: 8.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the points and of synthetic records.")] = 0,
    seeds: Annotated[int, typer.Option(help="Runs per setting.")] = 1,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, set in the config.")] = None,
    metric: Annotated[str | None, typer.Option(help="Metric to judge by. Default: the task's main metric.")] = None,
    workers: Annotated[int | None, typer.Option(help="Parallel processes. Default: one per core, at most 8.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = _FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Search good settings of a config, and state on which records and at which cost."""
    from tacit.runs import Config
    from tacit.sweeps import tune as run_tune

    with continue_later():
        result = run_tune(
            Config.load(config, set_ or []),
            grid or (),
            out=out,
            public=public,
            synthetic=synthetic,
            charge=charge,
            trials=trials,
            seed=seed,
            seeds=seeds,
            metric=metric,
            workers=job_count(workers, "--workers"),
        )
    if as_json:
        print_json(result.as_dict())
        return
    print_line(aligned_table(result.found.markdown))
    print_line(result.found.reported_sentence)
    print_line(result.sentence)
    print_line(f"Results: {out}. Best config: {out}/best.toml")
