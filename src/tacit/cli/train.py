"""`tacit train`: run a config, or the embedded example, or go on with a run that was stopped."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import INTERRUPTED, app
from tacit.cli.output import err, print_json, print_line
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.networks import ProcessGroup
    from tacit.runs import Observer, Run


@app.command()
def train(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; without one, the embedded example.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value over the config, e.g. algorithm.lr=0.1")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Guarantee this ε: --set privacy.epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="The δ that goes with it: --set privacy.delta.")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="The run's folder; by default runs/NAME.")] = None,
    resume: Annotated[Path | None, typer.Option(help="The folder of a stopped run to go on with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes of this machine that share the nodes.")] = 1,
    patience: Annotated[
        float, typer.Option(min=1, help="With --workers or torchrun: seconds before a silent process is given up.")
    ] = 300.0,
) -> None:
    """Train privately without a server, and say what it cost."""
    from tacit.networks import in_process_group, join_process_group

    asked = {"privacy.epsilon": epsilon, "privacy.delta": delta}
    settings = [*(set_ or []), *(f"{key}={value}" for key, value in asked.items() if value is not None)]
    if resume is not None and (config is not None or settings or out_dir is not None):
        raise TacitError("--resume takes the run's own config: leave out CONFIG, --set, --epsilon, --delta and --out")
    if workers > 1 and not in_process_group():
        from tacit.runs import launch_workers

        raise typer.Exit(launch_workers(workers, sys.argv[1:]))
    with join_process_group(patience) as ranks:
        run = _new(config, settings, out_dir, ranks) if resume is None else _stopped(resume, ranks)
        result = run.go().result()
        if run.coordinator.is_leader:
            tell = print_json if as_json else partial(_report, run)
            tell(result)
    if run.interrupted:
        raise typer.Exit(INTERRUPTED)


def _new(path: Path | None, settings: list[str], out: Path | None, ranks: ProcessGroup | None) -> Run:
    from tacit.api import refuse_graph_method
    from tacit.runs import Config, from_config, storage

    config = Config.load(path, settings)
    refuse_graph_method(config)
    folder = out or storage.unused_folder(Path("runs"), config.name or (path.stem if path else "run"))
    if ranks is None or ranks.is_leader:
        storage.check_new_folder(folder)
    if ranks is not None:
        folder = Path(ranks.gather_strings(str(folder))[0])  # while it is chosen, nobody may have made it yet
    with _preparing("the noise for the privacy asked for", ranks):
        return from_config(config, ranks=ranks, out=folder, observers=_observers(ranks))


def _stopped(folder: Path, ranks: ProcessGroup | None) -> Run:
    from tacit.runs import Config, from_config

    config = (folder if ranks is None else ranks.folder(folder)) / "config.toml"
    if not config.is_file():
        raise TacitError(f"{folder} is not the folder of a run: there is no {config}")
    with _preparing("the state the run was left in", ranks):
        return from_config(Config.load(config), ranks=ranks, out=folder, resume=True, observers=_observers(ranks))


def _preparing(what: str, ranks: ProcessGroup | None) -> AbstractContextManager[object]:
    quiet = ranks is not None and not ranks.is_leader
    return nullcontext() if quiet else err.status(f"Preparing: data, graph, and {what}")


def _observers(ranks: ProcessGroup | None) -> list[Observer]:
    """A progress bar in the process that prints, and the report; Ctrl-C stops all ranks after the same round."""
    from tacit.reports import ReportPage
    from tacit.runs import ProgressBar, SynchronisedInterrupt

    bar = [ProgressBar()] if ranks is None or ranks.is_leader else []
    interrupt = [] if ranks is None else [SynchronisedInterrupt(ranks)]
    return [*bar, ReportPage(), *interrupt]


def _report(run: Run, result: dict[str, Any]) -> None:
    from tacit.runs.metrics import headline

    if run.stopped:
        print_line(f"Stopped: {run.stopped}.")
    print_line(
        f"{run.algorithm.title} over {run.network.graph.description}: "
        f"{headline(result)} after {run.t} rounds, "
        f"{result['bytes'] / 1e6:.1f} MB sent in {result['messages']} messages."
    )
    print_line(run.privacy.sentence())
    print_line(f"Everything is in {run.out}; the page to look at is {run.out}/report.html.")
    if run.interrupted:
        workers = f" --workers {run.coordinator.processes}" if run.coordinator.processes > 1 else ""
        print_line(f"Go on with: tacit train --resume {run.out}{workers}")
