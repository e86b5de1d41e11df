"""The results of an experiment as a Markdown table and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from tacit.privacy import rounded_up
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.results import ResultRow, SeedSummary
from tacit.runs.metrics import metric


def table_columns(experiment: Experiment, rows: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """The table for readers: one dictionary per row, from column heading to text or None."""
    columns = _calibrated_columns if experiment.calibrations else _plain_columns
    more = _more_published(experiment, rows)
    first = f"published {experiment.first_metric.short_label}" if more else "published"
    return [
        {
            **{axis: row.labels.get(axis) for axis in experiment.axes},
            **({first: row.published} if experiment.published else {}),
            **{f"published {metric(name).short_label}": row.more_published.get(name) for name in more},
            **columns(experiment.metrics, row),
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
    | ring | 81.5 | – | – | – | – |
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


def _calibrated_columns(metrics: Sequence[str], row: ResultRow) -> dict[str, str | None]:
    """Results with noise for the claimed ε, and with noise for the same ε guaranteed."""
    return {
        "at claimed ε": _texts(metrics, row.paper or row.plain),
        "its guaranteed ε": _epsilon(row.paper),
        "at guaranteed ε": _texts(metrics, row.guaranteed or row.plain),
        "its claimed ε": _epsilon(row.guaranteed, "claimed"),
    }


def _plain_columns(metrics: Sequence[str], row: ResultRow) -> dict[str, str | None]:
    """Results with the noise that the experiment sets, and the ε that it claims and guarantees."""
    summary = row.plain
    if summary is None:
        return {}
    claimed = metric("claimed").text(summary.claimed)
    return {
        **{metric(name).short_label: summary.text(name) for name in metrics},
        "claimed ε": "none" if summary.claimed is None else f"{claimed} per {summary.claimed_for}",
        "guaranteed ε": _epsilon(summary) or "none",
    }


def _texts(metrics: Sequence[str], summary: SeedSummary | None) -> str | None:
    return None if summary is None else ", ".join(summary.text(name) for name in metrics)


def _epsilon(summary: SeedSummary | None, which: str = "guaranteed") -> str | None:
    value = None if summary is None else getattr(summary, which)
    return None if value is None else rounded_up(value, 3)
