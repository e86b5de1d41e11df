"""`tacit train`: run a config or the embedded example, or resume a run."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.app import app
from tacit.cli.interrupt import INTERRUPTED
from tacit.cli.output import err, print_json, print_line, results_line, show_preparation
from tacit.cli.privacy_lines import CONFIDENTIAL_METRICS, simulation_line, warn_if_weak
from tacit.errors import TacitError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from tacit.networks import ProcessGroup
    from tacit.runs import Observer, Run


@app.command()
def train(
    config: Annotated[Path | None, typer.Argument(help="Config file (TOML). Default: the embedded example.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="key=value, set in the config, such as algorithm.lr=0.1.")
    ] = None,
    secret_noise: Annotated[
        bool, typer.Option("--secret-noise", help="Real noise instead of a simulation; short for --set noise=secret.")
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="Guaranteed ε; short for --set privacy.epsilon.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ; short for --set privacy.delta.")] = None,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Folder of the run. Default: runs/NAME.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a stopped run to resume.")] = None,
    extend: Annotated[
        int, typer.Option(min=0, help="With --resume: add so many rounds, under the same noise, schedules and budget.")
    ] = 0,
    sign: Annotated[
        Path | None, typer.Option(help="Ed25519 private key (PEM) to sign the finished run with; see docs/verify.md.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1, mps or auto; short for --set device. Also with --resume.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the whole privacy statement.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes on this machine that share the nodes.")] = 1,
    patience: Annotated[
        float, typer.Option(min=1, help="Timeout in seconds for messages between processes (--workers or torchrun).")
    ] = 300.0,
) -> None:
    """Train a model over a network of nodes with differential privacy."""
    from tacit.networks import in_process_group, join_process_group

    asked = {"privacy.epsilon": epsilon, "privacy.delta": delta, "noise": "secret" if secret_noise else None}
    place = [] if device is None else [f"device={device}"]
    settings = [*(set_ or []), *(f"{key}={value}" for key, value in asked.items() if value is not None)]
    if resume is not None and (config is not None or settings or out_dir is not None):
        raise TacitError("--resume uses the config of the run: remove CONFIG, --set, --epsilon, --delta and --out")
    if extend and resume is None:
        raise TacitError("--extend continues a run: add --resume RUN")
    if workers > 1 and not in_process_group():
        from tacit.runs import launch_workers

        raise typer.Exit(launch_workers(workers, sys.argv[1:]))
    key = None if sign is None else _private_key(sign)
    with join_process_group(patience) as ranks:
        if resume is None:
            run = _new(config, [*settings, *place], out_dir, ranks)
        else:
            run = _stopped(resume, extend, ranks, place)
        result = run.go().result()
        if run.coordinator.is_leader:
            if key is not None:
                _sign(run, key)
            warn_if_weak(run.privacy.guaranteed, warned=run.config["privacy"].get("epsilon"))
            print_json(result) if as_json else _print_result(run, verbose)
    if run.interrupted:
        raise typer.Exit(INTERRUPTED)


def _private_key(path: Path) -> Ed25519PrivateKey:
    """Read the key before the run: a run of hours must not end with an unreadable key."""
    from tacit.runs import load_private_key

    return load_private_key(path)


def _sign(run: Run, key: Ed25519PrivateKey) -> None:
    from tacit.runs import verify

    assert run.out is not None, "the command gives every run a folder"
    with err.status("Verifying and signing"):
        verify(run.out, sign=key).require()


def _new(path: Path | None, settings: list[str], out: Path | None, ranks: ProcessGroup | None) -> Run:
    from tacit.api import refuse_graph_method
    from tacit.runs import Config, from_config, storage

    config = Config.load(path, settings)
    refuse_graph_method(config)
    folder = out or storage.unused_folder(Path("runs"), config.name or (path.stem if path else "run"))
    if ranks is None or ranks.is_leader:
        storage.check_new_folder(folder)
        warn_if_weak(config.privacy.epsilon)
    if ranks is not None:
        folder = Path(ranks.gather_strings(str(folder))[0])  # all ranks choose before one creates it
    with _preparing("Preparing data, graph and noise", ranks):
        run = from_config(config, ranks=ranks, out=folder, observers=_observers(ranks), secret_noise=True)
    if config.noise == "secret" and run.coordinator.is_leader:
        err.print(f"Secret noise: keep {folder} private until the run has ended.", highlight=False)
    return run


def _stopped(folder: Path, extend: int, ranks: ProcessGroup | None, place: list[str]) -> Run:
    from tacit.runs import Config, from_config

    config = (folder if ranks is None else ranks.folder(folder)) / "config.toml"
    if not config.is_file():
        raise TacitError(f"{folder} is not a run folder: {config} is missing")
    with _preparing("Preparing data, graph and the saved state", ranks):
        return from_config(
            Config.load(config, place),
            ranks=ranks,
            out=folder,
            resume=True,
            extend=extend,
            observers=_observers(ranks),
            secret_noise=True,
        )


def _preparing(what: str, ranks: ProcessGroup | None) -> AbstractContextManager[object]:
    quiet = ranks is not None and not ranks.is_leader
    return nullcontext() if quiet else show_preparation(what)


def _observers(ranks: ProcessGroup | None) -> list[Observer]:
    """A progress bar in the leading process, the report, and a Ctrl-C that stops all ranks after the same round."""
    from tacit.reports import ReportPage
    from tacit.runs import ProgressBar, SynchronisedInterrupt

    bar = [ProgressBar()] if ranks is None or ranks.is_leader else []
    interrupt = [] if ranks is None else [SynchronisedInterrupt(ranks)]
    return [*bar, ReportPage(), *interrupt]


def _print_result(run: Run, verbose: bool) -> None:
    from tacit.reports import REPORT_FILE
    from tacit.runs import recipe_line, released_ranges, run_size

    if run.stopped:
        print_line(f"Stopped: {run.stopped}")
    print_line(f"{run.algorithm.title}, {run_size(run.network.graph.nodes, run.t)}: {run.utility.headline}")
    if name := run.config.get("recipe"):
        print_line(recipe_line(name))
    print_line(run.privacy.line)
    if ranges := [f"{name} {low:.4g} to {high:.4g}" for name, (low, high) in released_ranges(run.task).items()]:
        print_line(f"Privately released ranges: {', '.join(ranges)}")
    if run.task.noise.simulated and run.privacy.guaranteed is not None:
        print_line(simulation_line(run.config["seed"]))
    if not run.task.noise.simulated and run.task.data.split is not None and len(run.task.data.test_y):
        print_line(CONFIDENTIAL_METRICS)
    if run.privacy.runs:
        print_line(run.privacy.total_sentence)
    if verbose:
        _print_statement(run)
    assert run.out is not None, "the command gives every run a folder"
    page = run.out / REPORT_FILE
    print_line(results_line(run.out, page if page.is_file() else None))
    if run.interrupted:
        workers = f" --workers {run.coordinator.processes}" if run.coordinator.processes > 1 else ""
        print_line(f"To resume: tacit train --resume {run.out}{workers}")


def _print_statement(run: Run) -> None:
    """Print the privacy statement of the report."""
    from tacit.reports import RunRecord, limitations, privacy_statement

    assert run.out is not None, "the command gives every run a folder"
    record = RunRecord.read_unverified(run.out)
    for item in privacy_statement(record):
        print_line(f"{item.term}: {item.text}")
    for line in limitations(record):
        print_line(f"Not covered: {line}")
