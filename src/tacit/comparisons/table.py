"""The table of a comparison."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tacit.comparisons.curves import mean_and_deviation, table_metrics
from tacit.comparisons.methods import ComparedMethod
from tacit.privacy import rounded_up
from tacit.runs import FinishedRun
from tacit.runs.metrics import Metric

_NONE = "–"


class ComparisonTable(NamedTuple):
    """A table as texts. `best` contains the row and column of the best mean of each metric."""

    head: list[str]
    rows: list[list[str]]
    best: set[tuple[int, int]]

    def markdown(self, *, bold: bool = False) -> str:
        """The table in Markdown; `bold` marks the best means."""
        marked = [
            [f"**{cell}**" if bold and (i, j) in self.best else cell for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]
        lines = [self.head, ["---"] * len(self.head), *marked]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


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
        "claimed_for": first.privacy.claimed_for,
        "relation": first.privacy.relation,
        "unit": first.privacy.unit,
        **{each.name: mean_and_deviation(last, each.name) for each in table_metrics() if each.name in last[0]},
        "rounds": int(last[0]["round"]),
        "bytes": statistics.mean(row["bytes"] for row in last),
        "cost_seconds": statistics.mean(row["cost_seconds"] for row in last),
        "seeds": len(runs),
    }


def comparison_table(rows: Sequence[Mapping[str, Any]], trivial: Mapping[str, float | None] | None = None) -> str:
    """A Markdown table with one row per method, mean ± standard deviation over the seeds. All runs are simulations.

    The last row is that of the trivial predictor, if its metrics are given.
    """
    return table_of(rows, trivial).markdown()


def table_of(rows: Sequence[Mapping[str, Any]], trivial: Mapping[str, float | None] | None = None) -> ComparisonTable:
    """The table of the rows that `table_row` returns, and of the trivial predictor."""
    shown = [each for each in table_metrics() if any(row.get(each.name) for row in rows)]
    left = ["method", "algorithm", "guaranteed (simulated) ε", "claimed ε"]
    head = [*left, *(each.short_label for each in shown), "rounds", "sent (MB)", "cost (s)", "unit"]
    cells = [_cells(row, shown) for row in rows]
    if trivial:
        values = [_NONE if (v := trivial.get(each.name)) is None else each.table_text(each.scale * v) for each in shown]
        cells.append(["trivial predictor", _NONE, _NONE, _NONE, *values, _NONE, _NONE, _NONE, _NONE])
    best = {(i, len(left) + k) for k, each in enumerate(shown) for i in _best_rows(rows, each)}
    return ComparisonTable(head, cells, best)


def protected_unit(row: Mapping[str, Any]) -> str:
    """What the ε of a row protects."""
    return f"{row['unit']}, {row['relation']}"


def protected_units(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the guarantees of the rows protect. The ε of two rows can be compared only if it is the same."""
    return sorted({protected_unit(row) for row in rows if row["guaranteed"] is not None})


def _cells(row: Mapping[str, Any], shown: Sequence[Metric]) -> list[str]:
    guaranteed = "none" if row["guaranteed"] is None else rounded_up(row["guaranteed"])
    scope = " per round" if row.get("claimed_for") == "round" else ""
    claimed = _NONE if row["claimed"] is None else f"{row['claimed']:.4g}{scope}"
    metrics = [_metric_cell(each, row.get(each.name), row.get("seeds")) for each in shown]
    costs = [f"{row['rounds']:,}", f"{row['bytes'] / 1e6:.3g}", f"{row['cost_seconds']:.4g}"]
    unit = _NONE if row["guaranteed"] is None else protected_unit(row)
    return [row["method"], row["algorithm"], guaranteed, claimed, *metrics, *costs, unit]


def _metric_cell(shown: Metric, value: Sequence[float] | None, seeds: int | None) -> str:
    """Mean ± deviation; one run has no deviation."""
    if value is None:
        return _NONE
    return shown.table_text(*(shown.scale * number for number in value[: 1 if seeds == 1 else 2]))


def _best_rows(rows: Sequence[Mapping[str, Any]], shown: Metric) -> list[int]:
    """The rows with the best mean of a headline metric, among two or more private methods with the same unit."""
    private = {
        i: row[shown.name][0] for i, row in enumerate(rows) if row["guaranteed"] is not None and row.get(shown.name)
    }
    if not shown.headline or len(private) < 2 or len(protected_units(rows)) > 1:
        return []
    best = (max if shown.higher_is_better else min)(private.values())
    return [i for i, mean in private.items() if mean == best]
