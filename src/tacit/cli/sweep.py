"""`tacit sweep`: one config with many settings, with the cost of the tuning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, err, print_json, print_line
from tacit.cli.parallel import continue_later, job_count
from tacit.cli.privacy_lines import warn_if_weak

if TYPE_CHECKING:
    from tacit.sweeps import JudgeMode, SweepResult


_FOLDER = Path("runs/sweep")


@app.command()
def sweep(
    config: Annotated[Path | None, typer.Argument(help="Config file (TOML). Default: the embedded example.")] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(help="Setting to vary: lr=0.1,0.3 or batch.size=16,32; with --random also lr=0.01..1:log."),
    ] = None,
    random: Annotated[int | None, typer.Option(help="Try so many random points of the grid.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random points.")] = 0,
    seeds: Annotated[int, typer.Option(help="Runs per setting. The table shows mean ± standard deviation.")] = 1,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value, set in the config of all runs.")] = None,
    judge: Annotated[
        str | None, typer.Option(help="Records to judge on: held-out (half of the test records), test, or public.")
    ] = None,
    public: Annotated[
        str | None, typer.Option(help="Public records to judge on: a data set, or a file like that of the config.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="Metric to judge by. Default: the task's main metric.")] = None,
    charge: Annotated[
        bool, typer.Option("--charge", help="State ε of all runs together; a target ε is split over them.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Parallel processes. Default: one per core, at most 8.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results. Finished runs there are not repeated.")] = _FOLDER,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Try many settings of a config, and state what the tuning costs."""
    from tacit.reports import write_if_installed, write_sweep_page
    from tacit.sweeps import sweep as run_sweep

    with continue_later():
        result = run_sweep(
            config,
            grid or [],
            random=random,
            seed=seed,
            seeds=seeds,
            settings=set_ or [],
            judge=cast("JudgeMode | None", judge),
            public=public,
            metric=metric,
            charge=charge,
            workers=job_count(workers, "--workers"),
            out=out,
        )
    warn_if_weak(max((row.guaranteed or 0.0 for row in result.rows), default=None))
    page = write_if_installed(write_sweep_page, result)
    if as_json:
        print_json(result.as_dict())
    else:
        _print_result(result)
        report = "" if page is None else f". Report: {page}"
        print_line(f"Results: {out}. Best config: {out}/best.toml{report}")


def _print_result(result: SweepResult) -> None:
    print_line(aligned_table(result.markdown))
    for line in (result.reported_sentence, result.judged, result.privacy.sentence()):
        print_line(line)
    failed = [row for row in result.rows if row.mean is None]
    if failed:
        err.print(f"{len(failed)} settings failed: {failed[0].error}", highlight=False, markup=False, soft_wrap=True)
