"""`tacit reproduce`: repeat an experiment of a paper and compare it with the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.output import aligned_table, print_json, print_line, results_line
from tacit.cli.parallel import continue_later, job_count
from tacit.errors import TacitError


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="PAPER/TABLE, such as dyn-d2p/table2. `tacit list` shows all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Run a small version: seconds to minutes.")] = False,
    tune: Annotated[bool, typer.Option("--tune", help="Search the hyperparameters of each method instead.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results. Default: runs/reproduce/PAPER/TABLE.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Parallel processes. Default: one per core, at most 8.")] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Save the results of the cells in experiments/results, to commit them.")
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Run nothing: show the results that are kept in experiments/results.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds. Default: the seeds of the experiment. More are added to it.")
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(help="Rounds of the longest runs; others in proportion. Shorter runs than published are marked."),
    ] = None,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Measure a few rounds of each kind of run, print time and memory, and stop."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Repeat an experiment of a paper, at the claimed ε and at the guaranteed ε.

    An interrupted experiment resumes with the same command: finished runs are not repeated.
    """
    if keep and kept:
        raise TacitError("--keep runs the experiment and --kept does not: give one of them")
    if tune and (estimate or seeds or rounds):
        raise TacitError("--tune does not accept --seeds, --rounds or --estimate: the [tune] section sets its length")
    if estimate:
        _estimate(
            experiment, as_json, quick=quick, out=out, jobs=job_count(jobs), keep=keep, seeds=seeds, rounds=rounds
        )
        return
    if tune:
        _tune(experiment, as_json, quick=quick, out=out, jobs=job_count(jobs), keep=keep)
        return
    from tacit.reports import write_experiment_page, write_if_installed
    from tacit.reproduce import reproduce as run_experiment

    with continue_later():
        results = run_experiment(
            experiment,
            quick=quick,
            out=out,
            jobs=job_count(jobs),
            keep=keep,
            kept=kept,
            seeds=seeds,
            rounds=rounds,
        )
    page = write_if_installed(write_experiment_page, results)
    if as_json:
        print_json(results.as_dict())
        return
    small = " (quick version: these are not the results of the experiment)" if quick else ""
    print_line(f"{results.experiment.title}: {results.experiment.table_title}{small}")
    print_line(aligned_table(results.table))
    print_line(results.note)
    print_line(results_line(results.out, page))


def _estimate(experiment: str, as_json: bool, **how: Any) -> None:
    from tacit.reproduce import estimate, estimate_sentence

    with continue_later():
        found = estimate(experiment, **how)
    if as_json:
        print_json(found)
        return
    for kind in found["kinds"]:
        per_round = f", {1000 * kind['round']:.3g} ms per round" if kind["round"] else ""
        print_line(f"{kind['title']}: {kind['cells']} x {kind['seconds'] / kind['cells']:.1f} s{per_round}")
    print_line(f"{estimate_sentence(found)} {found['finished']} further cells are finished.")
    print_line(
        f"Processes: {found['jobs']}. Cells with the same task run "
        "together, which is faster and needs up to 2 GB more per process."
    )


def _tune(experiment: str, as_json: bool, **how: Any) -> None:
    from tacit.reproduce import tune

    with continue_later():
        result = tune(experiment, **how)
    if as_json:
        print_json(result)
        return
    for line in result["best"]:
        print_line("  ".join(str(value) for value in line.values() if value is not None))
    print_line(f"All trials: {result['out']}/tuning.json. Best settings: {result['out']}/tuned.toml")
