"""Means and standard deviations over the seeds of a comparison."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.runs import DEVIATION, Row
from tacit.runs.metrics import Metric, all_metrics

_COSTS = ("messages", "bytes", "cost_seconds")


def mean_and_deviation(rows: Sequence[Mapping[str, Any]], column: str) -> list[float] | None:
    """Mean and standard deviation of a column; None if a row lacks the number."""
    values = [float(row[column]) for row in rows if row.get(column) is not None]
    if len(values) < len(rows):
        return None
    return [statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0]


def mean_curve(histories: Sequence[Sequence[Row]]) -> list[Row]:
    """The evaluations of several runs as one history: means, with the deviation of `accuracy` in `accuracy_std`.

    It has the rounds that all runs have evaluated: a run that its budget has stopped has fewer. The guaranteed ε is the
    largest of all runs, since it is an upper bound. None stands for the deviation of a single run, and for a value that
    one of the runs lacks.
    """
    by_round = [{row["round"]: row for row in rows} for rows in histories]
    common = [t for t in by_round[0] if all(t in rows for rows in by_round)]
    return [_mean_row([rows[t] for rows in by_round]) for t in common]


def _mean_row(rows: Sequence[Row]) -> Row:
    mean: Row = {"round": rows[0]["round"]}
    for key in rows[0].keys() - {"round"}:
        over = mean_and_deviation(rows, key)
        mean[key] = None if over is None else over[0]
        if key not in ("guaranteed", "claimed", "wall_seconds", *_COSTS):
            mean[f"{key}{DEVIATION}"] = None if over is None or len(rows) == 1 else over[1]
    spent = [row["guaranteed"] for row in rows if row.get("guaranteed") is not None]
    mean["guaranteed"] = max(spent) if len(spent) == len(rows) else None
    return {key: mean[key] for key in sorted(mean, key=lambda key: list(rows[0]).index(key.removesuffix(DEVIATION)))}


def table_metrics() -> list[Metric]:
    """The metrics that tables of comparisons show."""
    return [each for each in all_metrics() if each.headline or each.optional]
