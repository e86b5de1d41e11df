"""`tacit train`: run a config, or the embedded example, or go on with a run that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.app import INTERRUPTED, app, emit, err, say
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.runs import Run


@app.command()
def train(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; without one, the embedded example.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value over the config, e.g. algorithm.lr=0.1")
    ] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="The run's folder; by default runs/NAME.")] = None,
    resume: Annotated[Path | None, typer.Option(help="The folder of a stopped run to go on with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train privately without a server, and say what it cost."""
    from tacit.runs.progress import ProgressBar

    if resume is None:
        run = _new(config, set_ or [], out_dir)
    elif config is not None or set_ or out_dir is not None:
        raise TacitError("--resume takes the run's own config: leave out CONFIG, --set and --out")
    else:
        run = _stopped(resume)
    with ProgressBar(run) as bar:
        run.go(bar.update)
    result = run.result()
    if as_json:
        emit(result)
    else:
        _report(run)
    if run.interrupted:
        raise typer.Exit(INTERRUPTED)


def _new(path: Path | None, settings: list[str], out: Path | None) -> Run:
    from tacit.runs import Config, from_config
    from tacit.runs.storage import check_free, free_folder

    config = Config.load(path, settings)
    folder = out or free_folder(Path("runs"), config.name or (path.stem if path else "run"))
    check_free(folder)
    with err.status("Preparing: data, graph, and the noise for the privacy asked for"):
        return from_config(config).keep(folder)


def _stopped(folder: Path) -> Run:
    from tacit.runs import Config, from_config

    config = folder / "config.toml"
    if not config.is_file():
        raise TacitError(f"{folder} is not the folder of a run: there is no {config}")
    with err.status("Preparing: data, graph, and the state the run was left in"):
        return from_config(Config.load(config)).resume(folder)


def _report(run: Run) -> None:
    from tacit.runs.progress import show

    result = run.result()
    if run.stopped:
        say(f"Stopped: {run.stopped}.")
    say(
        f"{run.algorithm.title} over {run.network.graph.description}: "
        f"accuracy {show(result['accuracy'], '.1%')}, loss {show(result['loss'], '.3f')} after {run.t} rounds, "
        f"{result['bytes'] / 1e6:.1f} MB sent in {result['messages']} messages."
    )
    say(run.privacy.sentence())
    say(f"Everything is in {run.out}; the page to look at is {run.out}/report.html.")
    if run.interrupted:
        say(f"Go on with: tacit train --resume {run.out}")
