"""The rows of an experiment as a table for people, for spreadsheets and for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tacit.privacy.statement import rounded_up
from tacit.reports.page import claim
from tacit.reproduce.experiment import Experiment
from tacit.reproduce.table import Measured, Row
from tacit.runs.metrics import metric


def flat(experiment: Experiment, table: Sequence[Row]) -> list[dict[str, Any]]:
    """The table as plain columns: for CSV, and, with words in place of None, for people."""
    columns = _calibrated if experiment.calibrations else _as_set
    more = _more(experiment, table)
    first = f"published {experiment.metric.short_label}" if more else "published"
    return [
        {
            **{axis: row.labels.get(axis) for axis in experiment.axes},
            **({first: row.published} if experiment.published else {}),
            **{f"published {metric(name).short_label}": row.also.get(name) for name in more},
            **columns(experiment.metrics, row),
        }
        for row in table
    ]


def markdown(experiment: Experiment, table: Sequence[Row]) -> str:
    """
    >>> axes = {"graph": {"ring": {}}}
    >>> whole = {"title": "T", "axes": axes, "published": {"ring": 81.5}, "chart": {"series": "graph"}}
    >>> experiment = Experiment.model_validate(whole)
    >>> print(markdown(experiment, [Row({"graph": "ring"}, 81.5, None, None, None)]))
    | graph | published | at claimed ε | really guaranteed ε | at guaranteed ε | its claimed ε |
    | --- | --- | --- | --- | --- | --- |
    | ring | 81.5 | – | – | – | – |
    """
    lines = flat(experiment, table)
    head = list(lines[0])
    body = [["–" if line[key] is None else str(line[key]) for key in head] for line in lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *body])


def as_csv(experiment: Experiment, table: Sequence[Row]) -> str:
    """A line a row, with the numbers apart."""
    text = io.StringIO()
    lines = []
    for row in table:
        numbers: dict[str, Any] = {axis: row.labels.get(axis) for axis in experiment.axes}
        numbers["published"] = row.published
        numbers |= {f"published_{name}": row.also.get(name) for name in _more(experiment, table)}
        for how in ("paper", "guaranteed", "plain"):
            part: Measured | None = getattr(row, how)
            for name in experiment.metrics:
                numbers[f"{how}_{name}"] = part.mean[name] if part else None
                numbers[f"{how}_{name}_deviation"] = part.deviation[name] if part else None
            numbers |= {f"{how}_{key}": getattr(part, key, None) for key in ("runs", "guaranteed", "claimed")}
        lines.append(numbers)
    writer = csv.DictWriter(text, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def as_list(table: Sequence[Row]) -> list[dict[str, Any]]:
    """For JSON, curves included."""
    return [asdict(row) for row in table]


def _more(experiment: Experiment, table: Sequence[Row]) -> list[str]:
    """The metrics beside the first of which something is published."""
    return [name for name in experiment.metrics[1:] if any(name in row.also for row in table)]


def _calibrated(metrics: Sequence[str], row: Row) -> dict[str, str | None]:
    """Noise for a claimed ε, beside noise for the same ε guaranteed."""
    return {
        "at claimed ε": _texts(metrics, row.paper or row.plain),
        "really guaranteed ε": _epsilon(row.paper),
        "at guaranteed ε": _texts(metrics, row.guaranteed or row.plain),
        "its claimed ε": _epsilon(row.guaranteed, "claimed"),
    }


def _as_set(metrics: Sequence[str], row: Row) -> dict[str, str | None]:
    """Noise as the paper set it: what it claims, and what it really guarantees, which may be nothing."""
    measured = row.plain
    if measured is None:
        return {}
    return {
        **{metric(name).short_label: measured.text(name) for name in metrics},
        "claimed ε": "none" if measured.claimed is None else f"{claim(measured.claimed)} a {measured.claimed_for}",
        "guaranteed ε": _epsilon(measured) or "none",
    }


def _texts(metrics: Sequence[str], measured: Measured | None) -> str | None:
    return None if measured is None else ", ".join(measured.text(name) for name in metrics)


def _epsilon(measured: Measured | None, which: str = "guaranteed") -> str | None:
    value = None if measured is None else getattr(measured, which)
    return None if value is None else rounded_up(value, 3)
