"""Runs of several methods at the same guaranteed ε, and their table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tacit.compare.methods import ComparedMethod, compared_methods
from tacit.compare.table import comparison_table, protected_unit, table_row
from tacit.errors import TacitError
from tacit.runs import (
    Config,
    FinishedRun,
    Observer,
    from_config,
    has_ended,
    progress_counter,
    resolved_config,
    run_in_parallel,
    storage,
)

ObserverFactory = Callable[[], Sequence[Observer]]


class SeedRun(NamedTuple):
    """One run of a comparison: its config and its folder."""

    config: Config
    folder: Path


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        rows: One table row per method.
        trivial: The metrics of the trivial predictor on the same test records.
        note: A warning if the methods' ε protect different units; otherwise None.
        folders: The run folders of each method, by its label.
    """

    epsilon: float
    delta: float
    seeds: int
    rows: list[dict[str, Any]]
    trivial: dict[str, float | None]
    note: str | None
    out: Path
    folders: dict[str, list[Path]]

    @property
    def table(self) -> str:
        """The results as a Markdown table."""
        return comparison_table(self.rows, self.trivial)

    def as_dict(self) -> dict[str, Any]:
        """The content of results.json, which `--json` prints."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "seeds": self.seeds,
            "methods": self.rows,
            "trivial": self.trivial,
            "note": self.note,
            "out": str(self.out),
        }


def compare(
    methods: Sequence[str],
    *,
    epsilon: float,
    delta: float | None = None,
    seeds: int = 3,
    cost: float | None = None,
    settings: Sequence[str] = (),
    out: Path = Path("runs/compare"),
    jobs: int = 1,
    observers: ObserverFactory = tuple,
) -> Comparison:
    """Run every method with every seed at the same guaranteed ε, and write table.md and results.json to `out`.

    Finished runs in `out` are not repeated, and stopped runs are resumed: the same call continues a comparison.

    Args:
        methods, settings, epsilon, delta, cost: As for `compared_methods`.
        seeds: Number of runs per method.
        out: Folder of all runs and of the results.
        jobs: Number of processes. With several, `observers` must be picklable.
        observers: Returns the observers of one run.
    """
    if seeds < 1:
        raise TacitError(f"seeds must be at least 1, got {seeds}")
    compared = compared_methods(methods, settings=settings, epsilon=epsilon, delta=delta, cost=cost)
    runs = {method.label: _seed_runs(method, seeds, out) for method in compared}
    _run_missing([run for each in runs.values() for run in each], out, jobs, observers)
    folders = {label: [run.folder for run in each] for label, each in runs.items()}
    finished = {label: [FinishedRun.read(folder) for folder in each] for label, each in folders.items()}
    rows = [table_row(method, finished[method.label]) for method in compared]
    trivial = finished[compared[0].label][0].result.get("trivial", {})
    units = sorted({protected_unit(row) for row in rows if row["guaranteed"] is not None})
    note = None if len(units) < 2 else f"The protected units differ ({'; '.join(units)})."
    comparison = Comparison(epsilon, compared[0].config.privacy.delta, seeds, rows, trivial, note, out, folders)
    storage.write(out / "table.md", (comparison.table + "\n").encode())
    storage.write_json(out / "results.json", comparison.as_dict())
    return comparison


def _seed_runs(method: ComparedMethod, seeds: int, out: Path) -> list[SeedRun]:
    first = method.config.seed
    return [
        SeedRun(method.config.model_copy(update={"seed": seed, "name": method.label}), _seed_folder(out, method, seed))
        for seed in range(first, first + seeds)
    ]


def _seed_folder(out: Path, method: ComparedMethod, seed: int) -> Path:
    return out / method.label / f"seed-{seed}"


def _run_missing(runs: Sequence[SeedRun], out: Path, jobs: int, observers: ObserverFactory) -> None:
    missing = [run for run in runs if not _is_finished(run)]
    with (
        progress_counter("runs", len(runs), len(runs) - len(missing)) as report,
        closing(run_in_parallel(partial(_run, observers), missing, jobs)) as finished,
    ):
        for run, outcome in finished:
            report(f"{run.folder.relative_to(out)}: {outcome}")


def _run(observers: ObserverFactory, run: SeedRun) -> str:
    """Start or resume one run, and return its result in a few words."""
    started = (run.folder / "config.toml").is_file()
    finished = from_config(run.config, out=run.folder, resume=started, observers=observers()).go()
    if finished.interrupted:
        raise KeyboardInterrupt
    return finished.stopped or finished.utility.headline


def _is_finished(run: SeedRun) -> bool:
    """Whether the folder contains the end of this run. A run with other settings there is an error."""
    if not (run.folder / "config.toml").is_file():
        return False
    if Config.load(run.folder / "config.toml") != resolved_config(run.config):
        raise TacitError(f"{run.folder} contains a run with other settings: choose another --out, or delete it")
    if not has_ended(run.folder):
        return False
    result = FinishedRun.read_unverified(run.folder).result  # it is verified before its numbers are used
    if result["rounds"] > run.config.rounds:
        raise TacitError(f"{run.folder} contains a run that was extended: choose another --out, or delete it")
    return bool(result["rounds"] == run.config.rounds or result["stopped"])
