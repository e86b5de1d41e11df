"""From methods to one table and one page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tacit.compare.entries import Entry, entries
from tacit.errors import TacitError
from tacit.privacy.statement import rounded_up
from tacit.reports import PAGE, Record, ReportPage, page
from tacit.runs import Config, from_config, progress_counter, run_in_parallel, storage
from tacit.runs.metrics import Metric, all_metrics, headline

Row = dict[str, Any]


class Job(NamedTuple):
    """One run: its config and its folder."""

    config: Config
    folder: Path


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
) -> dict[str, Any]:
    """Run every method with every seed at the same guaranteed ε; keep runs, table and page in `out`.

    What `out` holds already is not run again, and a run that was stopped goes on: the same command continues.
    """
    if seeds < 1:
        raise TacitError(f"there must be one seed or more, not {seeds}")
    compared = entries(methods, settings=settings, epsilon=epsilon, delta=delta, cost=cost)
    plan = {entry.label: _jobs(entry, seeds, out) for entry in compared}
    everything = [job for each in plan.values() for job in each]
    left = [job for job in everything if not _done(job)]
    with (
        progress_counter("runs", len(everything), len(everything) - len(left)) as tell,
        closing(run_in_parallel(run, left, jobs)) as finished,
    ):
        for job, line in finished:
            tell(f"{job.folder.relative_to(out)}: {line}")
    rows = [_row(entry, [Record.read(job.folder) for job in plan[entry.label]]) for entry in compared]
    records = [_mean(entry.label, [Record.read(job.folder) for job in plan[entry.label]]) for entry in compared]
    storage.write(out / PAGE, page(records).encode())
    storage.write(out / "table.md", (markdown(rows) + "\n").encode())
    protected = sorted({_protected(row) for row in rows if row["guaranteed"] is not None})
    summary = {
        "epsilon": epsilon,
        "delta": compared[0].config.privacy.delta,
        "seeds": seeds,
        "methods": rows,
        "note": None if len(protected) < 2 else f"neighbouring data sets differ ({' and '.join(protected)})",
        "out": str(out),
    }
    storage.write_json(out / "results.json", summary)
    return summary


def run(job: Job) -> str:
    """Begin, or go on with, one run, to its end."""
    begun = (job.folder / "config.toml").is_file()
    made = from_config(job.config, out=job.folder, resume=begun, observers=[ReportPage()]).go()
    if made.interrupted:
        raise KeyboardInterrupt
    return made.stopped or headline(made.result())


def markdown(rows: Sequence[Row]) -> str:
    """The table: a row a method, mean ± standard deviation over the seeds."""
    compared = [each for each in _compared() if any(row.get(each.name) for row in rows)]
    names = [each.short_label for each in compared]
    head = ["method", "algorithm", "guaranteed ε", "claimed ε", *names, "rounds", "MB sent", "cost, s", "for each"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        claimed = "–" if row["claimed"] is None else f"{row['claimed']:.4g}"
        cells = [row["method"], row["algorithm"], _epsilon(row["guaranteed"]), claimed]
        cells += [_spread(each, row.get(each.name)) for each in compared]
        cells += [f"{row['rounds']:,}", f"{row['bytes'] / 1e6:.3g}", f"{row['cost_seconds']:.4g}"]
        lines.append([*cells, "–" if row["guaranteed"] is None else _protected(row)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _jobs(entry: Entry, seeds: int, out: Path) -> list[Job]:
    return [
        Job(entry.config.model_copy(update={"seed": seed, "name": entry.label}), out / entry.label / f"seed-{seed}")
        for seed in range(entry.config.seed, entry.config.seed + seeds)
    ]


def _done(job: Job) -> bool:
    """Whether the folder holds the end of this very run; another run in its place is refused."""
    if not (job.folder / "config.toml").is_file():
        return False
    kept = Config.load(job.folder / "config.toml").as_dict()
    if kept != job.config.as_dict():
        raise TacitError(f"{job.folder} holds a run with other settings: give another --out, or delete it")
    if not (job.folder / "result.json").is_file():
        return False
    record = Record.read(job.folder)
    return bool(record.result["rounds"] == job.config.rounds or record.result["stopped"])


def _row(entry: Entry, runs: Sequence[Record]) -> Row:
    last = [run.history[-1] for run in runs]
    guaranteed = [run.privacy.guaranteed for run in runs if run.privacy.guaranteed is not None]
    return {
        "method": entry.label,
        "algorithm": runs[0].result["algorithm"],
        "guaranteed": max(guaranteed) if len(guaranteed) == len(runs) else None,
        "claimed": runs[0].privacy.claimed,
        "relation": runs[0].privacy.relation,
        "unit": runs[0].privacy.unit,
        **{each.name: _over(last, each.name) for each in _compared()},
        "rounds": int(last[0]["round"]),
        "bytes": statistics.mean(row["bytes"] for row in last),
        "cost_seconds": statistics.mean(row["cost_seconds"] for row in last),
    }


def _over(rows: Sequence[Mapping[str, Any]], key: str) -> list[float] | None:
    """Mean and standard deviation over the seeds, where every one has the number."""
    values = [float(row[key]) for row in rows if row.get(key) is not None]
    if len(values) < len(rows):
        return None
    return [statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0]


def _mean(label: str, runs: Sequence[Record]) -> Record:
    """One run that stands for all seeds: its curves are their means."""
    history = []
    for rows in zip(*(run.history for run in runs), strict=False):
        means = {key: over[0] for key in rows[0] if (over := _over(rows, key)) is not None}
        history.append({**rows[0], **means})
    title = runs[0].result["algorithm"]
    return replace(runs[0], name=title if label.lower() in title.lower() else f"{label}: {title}", history=history)


def _compared() -> list[Metric]:
    """Metrics that are columns of the table, where they were measured."""
    return [each for each in all_metrics() if each.headline or each.optional]


def _spread(of: Metric, value: Sequence[float] | None) -> str:
    return "–" if value is None else of.table_text(*(of.scale * number for number in value))


def _protected(row: Row) -> str:
    """What a row's ε is about."""
    return f"{row['unit']}, {row['relation']}"


def _epsilon(value: float | None) -> str:
    return "none" if value is None else rounded_up(value)
