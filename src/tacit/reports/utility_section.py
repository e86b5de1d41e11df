"""The utility of a run on its page: every metric beside the trivial predictor, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tacit.reports.formats import format_measured
from tacit.reports.run_record import RunRecord
from tacit.runs.metrics import Metric, headline_metrics, metric, metrics

_CONSTANT = {
    "accuracy": "the most frequent class or labels of the test records, with their shares as probabilities",
    "rmse": "the middle of the public range",
}


class UtilityRow(NamedTuple):
    """One metric of the model and of the trivial predictor, as texts."""

    title: str
    model: str
    trivial: str


class ConfusionCell(NamedTuple):
    """How many records of a class are predicted as another; `share` is that of the class."""

    text: str
    share: float
    is_correct: bool


class ConfusionRow(NamedTuple):
    """The records of one class, by predicted class."""

    label: str
    cells: list[ConfusionCell]


class UtilitySection(NamedTuple):
    """What the page shows. `trivial` describes the trivial predictor; `warning` is empty if the model is better."""

    rows: list[UtilityRow]
    confusion: list[ConfusionRow]
    trivial: str
    warning: str


def utility_section(run: RunRecord) -> UtilitySection | None:
    """The utility of a run; None if its result has no metrics."""
    measured, trivial = run.result.get("metrics") or {}, run.result.get("trivial") or {}
    shown = [metric(name) for name in measured if name in metrics]
    if not shown:
        return None
    rows = [UtilityRow(each.label, _text(each, measured), _text(each, trivial)) for each in shown]
    constant = next((text for name, text in _CONSTANT.items() if name in measured), "")
    main = main_metric(run)
    worse = main is not None and _is_worse(main, measured.get(main.name), trivial.get(main.name))
    warning = "The model is not better than the trivial predictor." if worse else ""
    return UtilitySection(rows, _confusion_rows(run.result.get("confusion")), constant, warning)


def main_metric(run: RunRecord) -> Metric | None:
    """The main metric of the run's task."""
    return next(iter(shown_metrics([run])), None)


def shown_metrics(runs: Sequence[RunRecord]) -> list[Metric]:
    """The headline metrics that some of the runs have."""
    columns: dict[str, Any] = {}
    for run in runs:
        columns.update(run.evaluations[-1] if run.evaluations else run.result.get("metrics") or {})
    return headline_metrics(columns)


def metric_text(run: RunRecord, shown: Metric) -> str:
    """A metric at the end of a run, or its mean ± standard deviation over several seeds."""
    values, deviation = run.result.get("metrics") or run.result, run.deviations.get(shown.name)
    if deviation is None or values.get(shown.name) is None:
        return _text(shown, values)
    unit = f" {shown.unit}" if shown.unit else ""
    return shown.table_text(shown.scale * values[shown.name], shown.scale * deviation) + unit


def trivial_text(run: RunRecord, shown: Metric | None) -> str:
    """The same of the trivial predictor; empty if it is not known."""
    value = None if shown is None else (run.result.get("trivial") or {}).get(shown.name)
    return "" if shown is None or value is None else shown.text(value)


def _text(shown: Metric, values: Mapping[str, Any]) -> str:
    value = values.get(shown.name)
    return format_measured(value, shown)


def _is_worse(main: Metric, model: float | None, trivial: float | None) -> bool:
    if model is None or trivial is None:
        return False
    return model <= trivial if main.higher_is_better else model >= trivial


def _confusion_rows(confusion: Mapping[str, Any] | None) -> list[ConfusionRow]:
    if not confusion:
        return []
    labels, rows = [str(label) for label in confusion["labels"]], []
    for k, (label, counts) in enumerate(zip(labels, confusion["counts"], strict=True)):
        total = max(sum(counts), 1)
        cells = [ConfusionCell(_count(count), count / total, j == k) for j, count in enumerate(counts)]
        rows.append(ConfusionRow(label, cells))
    return rows


def _count(value: float) -> str:
    """A count; that of several nodes is a mean."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
