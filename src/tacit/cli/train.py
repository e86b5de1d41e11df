"""`tacit train`: run a config, or the embedded example, or go on with a run that was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app, emit, err, out
from tacit.errors import TacitError


@app.command()
def train(
    config: Annotated[Path | None, typer.Argument(help="A TOML file; without one, the embedded example.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over the config, e.g. algorithm.lr=0.1")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="The run's folder; by default runs/NAME.")] = None,
    resume: Annotated[Path | None, typer.Option(help="The folder of a stopped run to go on with.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train privately without a server, and say what it cost."""
    from tacit.runs import Config, from_config
    from tacit.runs.progress import ProgressBar
    from tacit.runs.storage import free_folder, write

    if resume is not None:
        if config is not None or set_ or out_dir is not None:
            raise TacitError("--resume takes the run's own config: leave out CONFIG, --set and --out")
        settings = Config.load(resume / "config.toml")
        folder = resume
    else:
        settings = Config.load(config, set_ or ())
        name = settings.name or (config.stem if config else "run")
        folder = out_dir or free_folder(Path("runs"), name)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise TacitError(f"{folder} holds something already: choose another --out, or go on with --resume {folder}")
    with err.status("Preparing: data, graph, and the noise for the privacy asked for"):
        run = from_config(settings, folder, resume=resume is not None)
    with ProgressBar(run) as bar:
        run.go(bar.update)
    result = run.result()
    write(folder / "result.json", (json.dumps(result, indent=2, ensure_ascii=False) + "\n").encode())
    if as_json:
        emit(result)
        return
    if run.stopped:
        out.print(f"Stopped: {run.stopped}.", highlight=False)
    out.print(
        f"{run.algorithm.title} over {run.network.graph}: accuracy {result['accuracy']:.1%}, loss {result['loss']:.3f} "
        f"after {run.t} rounds, {result['bytes'] / 1e6:.1f} MB sent in {result['messages']} messages.",
        highlight=False,
    )
    out.print(run.privacy.sentence(), highlight=False)
    out.print(f"Everything is in {folder}.", highlight=False)
    if run.t < run.rounds and run.stopped and "by hand" in run.stopped:
        out.print(f"Go on with: tacit train --resume {folder}", highlight=False)
