"""What a comparison found: the best method at the same guaranteed ε, and the table to download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from tacit.comparisons import Comparison, table_of
from tacit.privacy import rounded_up
from tacit.runs.metrics import Metric, headline_metrics
from tacit.tables import csv, latex

Row = Mapping[str, Any]


class Download(NamedTuple):
    """A file that the page contains; `href` is its content as a data URL."""

    label: str
    name: str
    href: str


class ComparisonSummary(NamedTuple):
    """The best method in one sentence, `best` its rows in the table, further sentences, and downloads of the table."""

    sentence: str
    best: set[int]
    notes: list[str]
    downloads: list[Download]


def comparison_summary(comparison: Comparison) -> ComparisonSummary:
    """The summary of a comparison."""
    rows, main = comparison.rows, next(iter(headline_metrics(comparison.rows[0])), None)
    best = set() if main is None else _best_rows(rows, main)
    notes = [f"{comparison.note} Their ε cannot be compared."] if comparison.note else []
    notes += [comparison.hyperparameters] if comparison.hyperparameters else []
    return ComparisonSummary(
        _sentence(comparison, main, min(best)) if main is not None and best else _NO_WINNER,
        best,
        notes,
        _downloads(comparison),
    )


_NO_WINNER = (
    "No best method is named: that takes two or more methods whose guaranteed ε protects the same unit under the same "
    "relation."
)


def _best_rows(rows: Sequence[Row], main: Metric) -> set[int]:
    """The rows with the best mean of the main metric among the private methods, as in the printed table."""
    table = table_of(rows)
    column = table.head.index(main.short_label)
    return {i for i, j in table.best if j == column}


def _sentence(comparison: Comparison, main: Metric, best: int) -> str:
    rows, seeds = comparison.rows, comparison.seeds
    others = [row for i, row in enumerate(rows) if i != best and row["guaranteed"] is not None and row.get(main.name)]
    ordered = sorted(others, key=lambda row: row[main.name][0], reverse=main.higher_is_better)
    over = f"over {seeds} seeds" if seeds > 1 else "with one seed"
    unit = f" {main.unit}" if main.unit else ""
    text = (
        f"Best at guaranteed ε ≤ {rounded_up(comparison.epsilon)}: {_name(rows[best])}, {main.short} "
        f"{_number(main, rows[best], seeds)}{unit} {over}."
    )
    if not ordered:
        return text
    (mean, deviation), (next_mean, next_deviation) = rows[best][main.name], ordered[0][main.name]
    gap, points = main.scale * abs(mean - next_mean), " percentage points" if main.unit == "%" else unit
    text = f"{text} The next is {_name(ordered[0])}; the difference is {gap:{main.number_format}}{points}"
    if seeds == 1:
        return f"{text}. One seed does not show whether it is due to chance."
    if gap <= main.scale * max(deviation, next_deviation):
        return f"{text}, within one standard deviation, so the order is uncertain."
    return f"{text}, more than one standard deviation."


def _name(row: Row) -> str:
    label, title = str(row["method"]), str(row["algorithm"])
    same = label.lower() in title.replace("²", "2").lower()
    return title if same else f"{label} ({title})"


def _number(main: Metric, row: Row, seeds: int) -> str:
    return main.table_text(*(main.scale * value for value in row[main.name][: 1 if seeds == 1 else 2]))


def _downloads(comparison: Comparison) -> list[Download]:
    frame = comparison.frame
    files = {"LaTeX": ("table.tex", latex(frame)), "CSV": ("table.csv", csv(frame))}
    return [
        Download(label, name, f"data:text/plain;charset=utf-8,{quote(text + chr(10))}")
        for label, (name, text) in files.items()
    ]
