"""The single runs of a comparison: one per method and seed, each in its own folder."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tacit.comparisons.methods import ComparedMethod
from tacit.errors import TacitError
from tacit.runs import (
    Cell,
    Config,
    FinishedRun,
    Observer,
    ProgressCounter,
    UserParts,
    from_config,
    has_ended,
    resolved_config,
    run_grouped,
    task_key,
)

ObserverFactory = Callable[[], Sequence[Observer]]


class SeedRun(NamedTuple):
    """One run of a comparison: its config, the parts that are given as objects, and its folder."""

    config: Config
    parts: UserParts
    folder: Path


def seed_runs(method: ComparedMethod, seeds: int, out: Path) -> list[SeedRun]:
    """The runs of a method, with consecutive seeds from that of its config on."""
    first = method.config.seed
    return [
        SeedRun(
            method.config.model_copy(update={"seed": seed, "name": method.label}),
            method.parts,
            out / method.label / f"seed-{seed}",
        )
        for seed in range(first, first + seeds)
    ]


def run_missing(
    runs: Sequence[SeedRun], out: Path, jobs: int, observers: ObserverFactory, *, progress: bool = True
) -> None:
    """Run what is not finished in the folders. With `progress`, print one line per run on standard error."""
    missing = [run for run in runs if not _is_finished(run)]
    _check_picklable(missing, jobs)
    counter = ProgressCounter("runs", len(runs), len(runs) - len(missing)) if progress else None
    grouped = run_grouped(
        partial(_run, observers), missing, jobs, group=_group, on_progress=None if counter is None else counter.show
    )
    with counter or nullcontext(), closing(grouped) as finished:
        for run, outcome in finished:
            if counter is not None:
                counter(f"{run.folder.relative_to(out)}: {outcome}")


def _group(run: SeedRun) -> Hashable | None:
    return task_key(run.config, run.parts)


def _run(observers: ObserverFactory, run: SeedRun, member: Cell) -> str:
    """Start or resume one run, as a member of a group, and return its result in a few words."""
    started = (run.folder / "config.toml").is_file()
    built = from_config(run.config, run.parts, out=run.folder, resume=started, observers=observers())
    member.join(built)
    finished = built.go()
    if finished.interrupted:
        raise KeyboardInterrupt
    return finished.stopped or finished.utility.headline


def _is_finished(run: SeedRun) -> bool:
    """Whether the folder contains the end of this run. A run with other settings or records there is an error."""
    if not (run.folder / "config.toml").is_file():
        return False
    if Config.load(run.folder / "config.toml") != resolved_config(run.config, run.parts):
        raise TacitError(f"{run.folder} contains a run with other settings: choose another folder, or delete it")
    if not has_ended(run.folder):
        return False
    result = FinishedRun.read_unverified(run.folder).result  # it is verified before its numbers are used
    if result["rounds"] > run.config.rounds:
        raise TacitError(f"{run.folder} contains a run that was extended: choose another folder, or delete it")
    if run.parts != UserParts():
        from_config(run.config, run.parts, out=run.folder, resume=True)  # refuses other records than those of the run
    return bool(result["rounds"] == run.config.rounds or result["stopped"])


def _check_picklable(runs: Sequence[SeedRun], jobs: int) -> None:
    """Raise if given objects cannot be sent to other processes."""
    if jobs == 1:
        return
    try:
        for parts in {id(run.parts): run.parts for run in runs}.values():
            pickle.dumps(parts)
    except Exception:  # pickle raises errors of many types
        raise TacitError(
            f"jobs = {jobs} sends data, model and algorithms to other processes, but one of them cannot be pickled: "
            "define its class in a module, or use jobs=1"
        ) from None
