"""The table of a comparison."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.compare.methods import ComparedMethod
from tacit.privacy import rounded_up
from tacit.runs import FinishedRun
from tacit.runs.metrics import Metric, all_metrics


def table_row(method: ComparedMethod, runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """One method, summarised over its seeds: metrics as [mean, standard deviation], ε as the largest."""
    last = [run.evaluations[-1] for run in runs]
    guaranteed = [run.privacy.guaranteed for run in runs if run.privacy.guaranteed is not None]
    first = runs[0]
    return {
        "method": method.label,
        "algorithm": first.result["algorithm"],
        "guaranteed": max(guaranteed) if len(guaranteed) == len(runs) else None,
        "claimed": first.privacy.claimed,
        "relation": first.privacy.relation,
        "unit": first.privacy.unit,
        **{each.name: mean_and_deviation(last, each.name) for each in _table_metrics() if each.name in last[0]},
        "rounds": int(last[0]["round"]),
        "bytes": statistics.mean(row["bytes"] for row in last),
        "cost_seconds": statistics.mean(row["cost_seconds"] for row in last),
    }


def comparison_table(rows: Sequence[Mapping[str, Any]], trivial: Mapping[str, float | None] | None = None) -> str:
    """A Markdown table with one row per method, mean ± standard deviation over the seeds. All runs are simulations.

    The last row is that of the trivial predictor, if its metrics are given.
    """
    shown = [each for each in _table_metrics() if any(row.get(each.name) for row in rows)]
    labels = [each.short_label for each in shown]
    head = [
        "method",
        "algorithm",
        "guaranteed (simulated) ε",
        "claimed ε",
        *labels,
        "rounds",
        "sent (MB)",
        "cost (s)",
        "unit",
    ]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        guaranteed = "none" if row["guaranteed"] is None else rounded_up(row["guaranteed"])
        claimed = "–" if row["claimed"] is None else f"{row['claimed']:.4g}"
        cells = [row["method"], row["algorithm"], guaranteed, claimed]
        cells += [_metric_cell(each, row.get(each.name)) for each in shown]
        cells += [f"{row['rounds']:,}", f"{row['bytes'] / 1e6:.3g}", f"{row['cost_seconds']:.4g}"]
        lines.append([*cells, "–" if row["guaranteed"] is None else protected_unit(row)])
    if trivial:
        values = [_metric_cell(each, _alone(trivial.get(each.name))) for each in shown]
        lines.append(["trivial predictor", "–", "–", "–", *values, "–", "–", "–", "–"])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def mean_and_deviation(rows: Sequence[Mapping[str, Any]], column: str) -> list[float] | None:
    """Mean and standard deviation of a column; None if a row lacks the number."""
    values = [float(row[column]) for row in rows if row.get(column) is not None]
    if len(values) < len(rows):
        return None
    return [statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0]


def protected_unit(row: Mapping[str, Any]) -> str:
    """What the ε of a row protects."""
    return f"{row['unit']}, {row['relation']}"


def _table_metrics() -> list[Metric]:
    return [each for each in all_metrics() if each.headline or each.optional]


def _alone(value: float | None) -> list[float] | None:
    return None if value is None else [value]


def _metric_cell(shown: Metric, value: Sequence[float] | None) -> str:
    return "–" if value is None else shown.table_text(*(shown.scale * number for number in value))
