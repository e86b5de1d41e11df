"""Runs of several methods at the same guaranteed ε, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.comparisons.curves import mean_curve
from tacit.comparisons.frame import comparison_frame
from tacit.comparisons.methods import Method, compared_methods, differing_hyperparameters
from tacit.comparisons.seed_runs import ObserverFactory, run_missing, seed_runs
from tacit.comparisons.table import comparison_table, protected_units, table_row
from tacit.errors import TacitError
from tacit.runs import FinishedRun, Row, UserParts, storage

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        rows: One table row per method.
        trivial: The metrics of the trivial predictor on the same test records.
        note: A warning if the methods' ε protect different units; otherwise None.
        folders: The run folders of each method, by its label.
        curves: The mean history of each method, by its label; see `mean_curve`.
        statements: The privacy statement of the first run of each method, by its label.
        hyperparameters: A sentence with the hyperparameters that differ between the methods; None if none do.
    """

    epsilon: float
    delta: float
    seeds: int
    rows: list[dict[str, Any]]
    trivial: dict[str, float | None]
    note: str | None
    out: Path
    folders: dict[str, list[Path]]
    curves: dict[str, list[Row]] = field(default_factory=dict, compare=False)
    statements: dict[str, str] = field(default_factory=dict, compare=False)
    hyperparameters: str | None = field(default=None, compare=False)

    @property
    def table(self) -> str:
        """The results as a Markdown table."""
        return comparison_table(self.rows, self.trivial)

    @property
    def frame(self) -> pd.DataFrame:
        """The results as a data frame, as `tacit.compare` returns it."""
        facts = {"epsilon": self.epsilon, "delta": self.delta, "seeds": self.seeds, "note": self.note}
        results = {"trivial": self.trivial, "privacy": self.statements, "curves": self.curves, "out": str(self.out)}
        frame = comparison_frame(self.rows, {**facts, **results})
        frame.attrs["note"] = " ".join(each for each in (self.note, self.hyperparameters) if each) or None
        return frame

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


def run_comparison(
    methods: Sequence[Method] | Mapping[str, Method],
    *,
    epsilon: float,
    delta: float | None = None,
    seeds: int = 3,
    cost: float | None = None,
    settings: Sequence[str] = (),
    parts: UserParts | None = None,
    out: Path = Path("runs/compare"),
    jobs: int = 1,
    observers: ObserverFactory = tuple,
    progress: bool = True,
) -> Comparison:
    """Run every method with every seed at the same guaranteed ε, and write table.md and results.json to `out`.

    Finished runs in `out` are not repeated, and stopped runs are resumed: the same call continues a comparison.

    Args:
        methods, settings, parts, epsilon, delta, cost: As for `compared_methods`.
        seeds: Number of runs per method.
        out: Folder of all runs and of the results.
        jobs: Number of processes. With several, `parts` and `observers` must be picklable.
        observers: Returns the observers of one run.
        progress: Whether to print one line per run on standard error.
    """
    if not isinstance(seeds, int) or seeds < 1:
        raise TacitError(f"seeds must be the number of runs per method, at least 1, got {seeds}")
    compared = compared_methods(methods, settings=settings, parts=parts, epsilon=epsilon, delta=delta, cost=cost)
    runs = {method.label: seed_runs(method, seeds, out) for method in compared}
    run_missing([run for each in runs.values() for run in each], out, jobs, observers, progress=progress)
    folders = {label: [run.folder for run in each] for label, each in runs.items()}
    finished = {label: [FinishedRun.read(folder) for folder in each] for label, each in folders.items()}
    rows = [table_row(method, finished[method.label]) for method in compared]
    units = protected_units(rows)
    comparison = Comparison(
        epsilon=epsilon,
        delta=compared[0].config.privacy.delta,
        seeds=seeds,
        rows=rows,
        trivial=finished[compared[0].label][0].result.get("trivial", {}),
        note=None if len(units) < 2 else f"The protected units differ ({'; '.join(units)}).",
        out=out,
        folders=folders,
        curves={label: mean_curve([run.evaluations for run in each]) for label, each in finished.items()},
        statements={label: each[0].privacy.sentence() for label, each in finished.items()},
        hyperparameters=differing_hyperparameters(compared),
    )
    storage.write(out / "table.md", (comparison.table + "\n").encode())
    storage.write_json(out / "results.json", comparison.as_dict())
    return comparison
