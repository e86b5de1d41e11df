"""`tacit audit`: attack the algorithm of a config and compute a lower bound on its ε."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.output import print_json, print_line, results_line
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.audit import AuditResult
    from tacit.runs import Config

_PROGRESS_STEPS = 20


@app.command()
def audit(
    config: Annotated[
        Path | None,
        typer.Argument(
            help="TOML file, folder of a finished run (the result is added to its report), or name of a graph "
            "learner such as ppgl. Default: the embedded example."
        ),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Override a setting: key=value.")] = None,
    trials: Annotated[int, typer.Option(help="Number of networks to attack, half with the canary.", min=40)] = 20_000,
    rounds: Annotated[int, typer.Option(help="Rounds to attack. The noise is calibrated for these.", min=1)] = 4,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.", min=0.5, max=0.9999)] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the noise; with --one-run, of the canaries' inclusion.")] = 0,
    one_run: Annotated[bool, typer.Option("--one-run", help="Attack the whole run once, with many canaries.")] = False,
    canaries: Annotated[
        int, typer.Option(help="With --one-run: canary records at one node, each included with probability ½.")
    ] = 1000,
    node: Annotated[int, typer.Option(help="With --one-run: the node with the canaries.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack an algorithm as its adversary would, and compute a lower bound on its ε.

    Exit code 1: the guarantee is broken.
    """
    from tacit.graph_learning import graph_methods

    learner = str(config) if str(config) in graph_methods else None
    folder = config if config is not None and not learner and config.is_dir() else None
    common: dict[str, Any] = {"confidence": confidence, "seed": seed}
    if learner:
        if one_run:
            raise TacitError(f"--one-run needs a config, but {learner} is a graph learner: leave out --one-run")
        result = _audit_learner(learner, set_ or [], trials, rounds, common)
    else:
        settings = _config_of_run(folder, set_) if folder else _load_config(config, set_)
        if one_run:
            result = _audit_one_run(settings, canaries, node, common)
        else:
            result = _audit_trials(settings, trials, rounds, common)
    if as_json:
        print_json(result.as_dict())
    else:
        print_line(result.summary())
    if folder:
        page = _add_to_report(result, folder)
        if not as_json:
            print_line(results_line(folder, page))
    if not result.holds:
        raise typer.Exit(1)


def _audit_learner(name: str, settings: list[str], trials: int, rounds: int, common: dict[str, Any]) -> AuditResult:
    from tacit.audit import audit_named_learner

    with _progress(rounds, f"{trials:,} networks") as progress:
        return audit_named_learner(name, settings, trials=trials, rounds=rounds, progress=progress, **common)


def _audit_trials(config: Config, trials: int, rounds: int, common: dict[str, Any]) -> AuditResult:
    from tacit.audit import audit

    with _progress(min(rounds, config.rounds), f"{trials:,} networks") as progress:
        return audit(config, trials=trials, rounds=rounds, progress=progress, **common)


def _audit_one_run(config: Config, canaries: int, node: int, common: dict[str, Any]) -> AuditResult:
    from tacit.audit import audit_one_run

    with _progress(config.rounds, "the run") as progress:
        return audit_one_run(config, canaries=canaries, node=node, progress=progress, **common)


@contextmanager
def _progress(rounds: int, networks: str) -> Iterator[Callable[[int], None]]:
    """Show at most `_PROGRESS_STEPS` steps on standard error."""
    from tacit.runs import ProgressCounter

    steps = min(rounds, _PROGRESS_STEPS)
    with ProgressCounter("steps of the attack", steps, 0) as show:

        def progress(done: int) -> None:
            if done * steps // rounds > (done - 1) * steps // rounds:
                show(f"round {done} of {networks}")

        yield progress


def _load_config(path: Path | None, overrides: list[str] | None) -> Config:
    from tacit.runs import Config

    return Config.load(path, overrides or [])


def _config_of_run(folder: Path, overrides: list[str] | None) -> Config:
    """Load the config of a finished run, and check before the attack that the result can be stored in its folder."""
    from tacit.reports import RunRecord
    from tacit.runs import PART_SECTIONS, PYTHON_OBJECT_PREFIX, Config

    if overrides:
        raise TacitError("The audit of a run uses the run's own config: leave out --set, or pass the config file")
    RunRecord.read(folder)
    config = Config.load(folder / "config.toml")
    for kind in PART_SECTIONS:
        if getattr(config, kind).name.startswith(PYTHON_OBJECT_PREFIX):
            raise TacitError(
                f"The {kind} of this run was passed in Python, so it is not in the folder and cannot be audited"
            )
    return config.model_copy(update={"noise": "simulated"})  # an attack repeats the run on records of its own


def _add_to_report(result: AuditResult, folder: Path) -> Path | None:
    """Store the result in the run's folder, beside that of the other kind of audit, and update the report."""
    from tacit.reports import REPORT_FILE, SavedAudits, write_if_installed, write_run_page

    SavedAudits.read(folder).including(result).write(folder)
    return write_if_installed(write_run_page, [folder], folder / REPORT_FILE)
