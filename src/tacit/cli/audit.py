"""`tacit audit`: the method of a config, attacked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.output import print_json, print_line
from tacit.errors import TacitError

if TYPE_CHECKING:
    from tacit.audit import Finding
    from tacit.runs import Config

_STEPS = 20  # of progress that are told


@app.command()
def audit(
    config: Annotated[
        Path | None,
        typer.Argument(
            help="A TOML file, the folder of a run that has ended (its page then tells what is found), or ppgl, igl or "
            "fedavg; without one, the embedded example."
        ),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="key=value over the config.")] = None,
    trials: Annotated[int, typer.Option(help="Networks attacked, half of them with the record.", min=40)] = 20_000,
    rounds: Annotated[int, typer.Option(help="Rounds attacked; the noise is set for these.", min=1)] = 4,
    confidence: Annotated[float, typer.Option(help="Confidence of the lower bound.", min=0.5, max=0.9999)] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the noise; with --one-run, of the coins.")] = 0,
    one_run: Annotated[bool, typer.Option("--one-run", help="Attack the whole run of the config once.")] = False,
    canaries: Annotated[int, typer.Option(help="With --one-run: records at one node, each there by a coin.")] = 1000,
    node: Annotated[int, typer.Option(help="With --one-run: the node that they are at.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Attack a method as its adversary would, and bound its ε from below."""
    from tacit.audit import audit as attacked
    from tacit.audit import one_run as attacked_once
    from tacit.audit.graphs import audit_named
    from tacit.graph_learning import graph_methods
    from tacit.runs import Config, progress_counter

    learner = str(config) if str(config) in graph_methods else None
    if learner and one_run:
        raise TacitError(f"--one-run attacks the run of a config, which {learner} has none of: leave it out")
    folder = config if config is not None and not learner and config.is_dir() else None
    if folder:
        settings = _ended(folder, set_)
    else:
        settings = Config.load(None if learner else config, [] if learner else set_ or [])
    total = rounds if learner else settings.rounds if one_run else min(rounds, settings.rounds)
    networks = "the run" if one_run else f"{trials:,} networks"
    steps = min(total, _STEPS)
    with progress_counter("steps of the attack", steps, 0) as tell:

        def watch(done: int) -> None:
            if done * steps // total > (done - 1) * steps // total:
                tell(f"round {done} of {networks}")

        found: Finding
        common: dict[str, Any] = {"trials": trials, "rounds": rounds, "confidence": confidence, "seed": seed}
        if learner:
            found = audit_named(learner, set_ or [], **common, watch=watch)
        elif one_run:
            found = attacked_once(settings, canaries=canaries, node=node, confidence=confidence, seed=seed, watch=watch)
        else:
            found = attacked(settings, **common, watch=watch)
    if as_json:
        print_json(found.as_dict())
    else:
        print_line(found.sentence())
    if folder:
        page = _keep(found, folder)
        if not as_json:
            print_line(f"It is kept in {folder}; the page to look at is {page}.")
    if not found.holds:
        raise typer.Exit(1)


def _ended(folder: Path, settings: list[str] | None) -> Config:
    """The config of a run, checked before the attack: what it finds will be kept in the run's folder."""
    from tacit.reports import Record
    from tacit.runs import PART_SECTIONS, PYTHON_OBJECT_PREFIX, Config

    if settings:
        raise TacitError("a run is attacked with its own config: leave out --set, or give the config's file")
    Record.read(folder)
    config = Config.load(folder / "config.toml")
    for kind in PART_SECTIONS:
        if getattr(config, kind).name.startswith(PYTHON_OBJECT_PREFIX):
            raise TacitError(f"the {kind} of this run was handed over in Python, and its folder does not hold it")
    return config


def _keep(found: Finding, folder: Path) -> Path:
    """Beside what another attack has found, and in the run's page."""
    from tacit.reports import PAGE, Record, write_page

    Record.read(folder).findings.including(found).write(folder)
    return write_page([folder], folder / PAGE)
