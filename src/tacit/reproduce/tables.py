"""The results of an experiment as a Markdown table and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from functools import partial
from typing import Any

from tacit.privacy import rounded_up
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.lengths import uneven_columns
from tacit.reproduce.paired import matching_row, paired_difference, summary_of
from tacit.reproduce.results import ResultRow, SeedSummary
from tacit.runs.metrics import metric

NOT_RUN = "not run"


def table_columns(experiment: Experiment, rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """The table for readers: one dictionary per row, from column heading to text or None."""
    columns = partial(_calibrated_columns if experiment.calibrations else _plain_columns, experiment, rows)
    more = _more_published(experiment, rows)
    first = f"published {experiment.first_metric.short_label}" if more else "published"
    return [
        {
            **{axis: row.labels.get(axis) for axis in experiment.axes},
            **({first: row.published} if experiment.published else {}),
            **{f"published {metric(name).short_label}": row.more_published.get(name) for name in more},
            **columns(row),
            **uneven_columns(rows, row),
        }
        for row in rows
    ]


def markdown_table(experiment: Experiment, rows: Sequence[ResultRow]) -> str:
    """
    >>> axes = {"graph": {"ring": {}}}
    >>> whole = {"title": "T", "axes": axes, "published": {"ring": 81.5}, "chart": {"series": "graph"}}
    >>> experiment = Experiment.model_validate(whole)
    >>> print(markdown_table(experiment, [ResultRow({"graph": "ring"}, 81.5, None, None, None)]))
    | graph | published | at claimed ε | its guaranteed ε | at guaranteed ε | its claimed ε |
    | --- | --- | --- | --- | --- | --- |
    | ring | 81.5 | not run | – | not run | – |
    """
    lines = table_columns(experiment, rows)
    head = list(lines[0])
    body = [["–" if line[key] is None else str(line[key]) for key in head] for line in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *body])


def tuning_table(experiment: Experiment, tries: Sequence[dict[str, Any]]) -> str:
    """The tries on held-out records as a Markdown table, one row per group of tries that were compared.

    >>> axes = {"graph": {"ring": {}}}
    >>> experiment = Experiment.model_validate({"title": "T", "axes": axes, "chart": {"series": "graph"}})
    >>> tries = [{"graph": "ring", "try": f"lr {k}", "accuracy": 80.0 + k, "error": None} for k in (1, 2, 4)]
    >>> print(tuning_table(experiment, tries))
    | graph | best of 3 tries | held out: accuracy (%) | median |
    | --- | --- | --- | --- |
    | ring | lr 4 | 84.00 | 82.00 |
    """
    main, groups = experiment.first_metric, dict[tuple[str, ...], list[dict[str, Any]]]()
    axes = [axis for axis in experiment.axes if axis in tries[0]]
    for each in tries:
        groups.setdefault(tuple(each[axis] for axis in axes), []).append(each)
    head = [*axes, f"best of {len(tries) // len(groups)} tries", f"held out: {main.short_label}", "median"]
    body = []
    for labels, group in groups.items():
        done = sorted(
            (each for each in group if each[main.name] is not None),
            key=lambda each: float(each[main.name]),
            reverse=main.higher_is_better,
        )
        values = [main.table_text(each, None) for each in (done[0][main.name], done[len(done) // 2][main.name])]
        body.append([*labels, done[0]["try"], *values])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *body])


def csv_table(experiment: Experiment, rows: Sequence[ResultRow]) -> str:
    """The table for programs: one line per row, one number per column."""
    text = io.StringIO()
    lines = []
    for row in rows:
        numbers: dict[str, Any] = {axis: row.labels.get(axis) for axis in experiment.axes}
        numbers["published"] = row.published
        numbers |= {f"published_{name}": row.more_published.get(name) for name in _more_published(experiment, rows)}
        for calibration in ("paper", "guaranteed", "plain"):
            summary: SeedSummary | None = getattr(row, calibration)
            for name in experiment.metrics:
                numbers[f"{calibration}_{name}"] = summary.mean[name] if summary else None
                numbers[f"{calibration}_{name}_deviation"] = summary.deviation[name] if summary else None
            for key in ("runs", "guaranteed", "claimed"):
                numbers[f"{calibration}_{key}"] = getattr(summary, key, None)
        lines.append(numbers)
    writer = csv.DictWriter(text, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _more_published(experiment: Experiment, rows: Sequence[ResultRow]) -> list[str]:
    """The metrics other than the first that have published numbers."""
    return [name for name in experiment.metrics[1:] if any(name in row.more_published for row in rows)]


def _calibrated_columns(experiment: Experiment, rows: Sequence[ResultRow], row: ResultRow) -> dict[str, str | None]:
    """Results with noise for the claimed ε, and with noise for the same ε guaranteed."""
    paper, guaranteed = summary_of(row, "paper"), summary_of(row, "guaranteed")
    return {
        "at claimed ε": _texts(experiment, paper, "paper"),
        **_difference(experiment, rows, row, "paper", "claimed: "),
        "its guaranteed ε": _epsilon(paper),
        "at guaranteed ε": _texts(experiment, guaranteed, "guaranteed"),
        **_difference(experiment, rows, row, "guaranteed", "guaranteed: "),
        "its claimed ε": _epsilon(row.guaranteed, "claimed"),
    }


def _plain_columns(experiment: Experiment, rows: Sequence[ResultRow], row: ResultRow) -> dict[str, str | None]:
    """Results with the noise that the experiment sets, and the ε that it claims and guarantees."""
    summary, metrics = row.plain, [metric(name) for name in experiment.metrics]
    difference = _difference(experiment, rows, row, "plain", "")
    if summary is None:
        empty = dict.fromkeys([*(each.short_label for each in metrics[1:]), *difference, "claimed ε", "guaranteed ε"])
        return {metrics[0].short_label: NOT_RUN, **empty}
    claimed = metric("claimed").text(summary.claimed)
    return {
        **{each.short_label: summary.text(each.name) for each in metrics},
        **difference,
        "claimed ε": "none" if summary.claimed is None else f"{claimed} per {summary.claimed_for}",
        "guaranteed ε": _epsilon(summary) or "none",
    }


def _difference(
    experiment: Experiment, rows: Sequence[ResultRow], row: ResultRow, calibration: str, prefix: str
) -> dict[str, str | None]:
    """The column of paired differences to the baseline, if the experiment has one."""
    if not experiment.baseline:
        return {}
    other = matching_row(row.labels, experiment.baseline, rows)
    ours, theirs = summary_of(row, calibration), summary_of(other, calibration)
    found = None if other is row else paired_difference(experiment.metrics[0], ours, theirs)
    label = next(iter(experiment.baseline.values()))
    return {f"{prefix}minus {label}": None if found is None else found.text(experiment.first_metric)}


def _texts(experiment: Experiment, summary: SeedSummary | None, calibration: str) -> str | None:
    if summary is None:
        return NOT_RUN if calibration in experiment.calibrations else None
    return ", ".join(summary.text(name) for name in experiment.metrics)


def _epsilon(summary: SeedSummary | None, which: str = "guaranteed") -> str | None:
    value = None if summary is None else getattr(summary, which)
    return None if value is None else rounded_up(value, 3)
