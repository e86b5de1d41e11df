"""The table of an experiment: the paper's numbers, ours, and the differences. Each kind of gap has its own words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

from tacit.privacy import rounded_up
from tacit.reports.formats import NO_CLAIM, NO_GUARANTEE, NOT_MEASURED, format_heading
from tacit.reproduce import Experiment, ResultRow, SeedSummary
from tacit.runs.metrics import Metric, metric

Published = Mapping[str, float]
CellMaker: TypeAlias = Callable[[ResultRow, Published], "TableCell"]
_DIFFERENCE = "Difference"
NO_NOISE = "no noise"
NOT_PUBLISHED = "not published"
NOT_APPLICABLE = "not applicable"
FAILED = "failed"
WORDS = {
    NO_NOISE: "values are sent without noise, so that no ε exists",
    NO_GUARANTEE: "there is noise, but no bound on ε is proven",
    NO_CLAIM: "the paper has no formula for it",
    NOT_PUBLISHED: "the paper does not print this number",
    NOT_MEASURED: "the method does not have this quantity",
    NOT_APPLICABLE: "the method does not have this setting",
    FAILED: "a run failed or diverged",
}
_GROUPS = {
    "paper": "At the claimed ε",
    "guaranteed": "At the guaranteed ε",
    "plain": "Measured",
}


class TableCell(NamedTuple):
    """A cell of the table; `kind` is its CSS class: a label, a word in place of a number, a difference, or empty."""

    text: str
    kind: str = ""


class TableColumn(NamedTuple):
    """A column with its heading, the heading of its group, and the function that makes its cells."""

    group: str
    heading: str
    cell: CellMaker


class ExperimentTable(NamedTuple):
    """`groups` are the headings above the columns, with the number of columns of each; `words` those to explain."""

    groups: list[tuple[str, int]]
    columns: list[str]
    rows: list[list[TableCell]]
    words: dict[str, str]


def experiment_table(experiment: Experiment, rows: Sequence[ResultRow]) -> ExperimentTable:
    """The table of an experiment's page: each published number stands next to ours."""
    metrics = [metric(name) for name in experiment.metrics]
    numbers = [_published(experiment, row) for row in rows]
    published = [each for each in metrics if any(each.name in of_row for of_row in numbers)]
    layout = _calibrated_columns(experiment, metrics, published)
    if not experiment.calibrations:
        layout = _plain_columns(metrics, published)
    cells = [
        [
            *(TableCell(row.labels.get(axis, NOT_APPLICABLE), "label") for axis in experiment.axes),
            *(column.cell(row, of_row) for column in layout),
        ]
        for row, of_row in zip(rows, numbers, strict=True)
    ]
    groups = [(group, len(list(columns))) for group, columns in groupby(layout, key=lambda column: column.group)]
    used = {cell.text for line in cells for cell in line}
    return ExperimentTable(
        [("", len(experiment.axes)), *groups],
        [*map(axis_name, experiment.axes), *(column.heading for column in layout)],
        cells,
        {word: meaning for word, meaning in WORDS.items() if word in used},
    )


def difference_sentences(experiment: Experiment, rows: Sequence[ResultRow]) -> list[str]:
    """How far the results are from the published numbers of the first metric, on average and at most."""
    sentences, sources = [], [*map(str, experiment.calibrations)] or ["plain"]
    for source in sources:
        pairs = [(row, _ours(row, source, experiment.metrics[0])) for row in rows]
        found = [(ours - row.published, row) for row, ours in pairs if ours is not None and row.published is not None]
        if not found:
            continue
        shown, (largest, where) = experiment.first_metric, max(found, key=lambda each: abs(each[0]))
        mean = sum(value for value, _ in found) / len(found)
        sentences.append(
            f"{_GROUPS[source]}, ours minus published {shown.short_label}: {_signed(shown, mean)} on average over "
            f"{len(found)} number{'s' if len(found) > 1 else ''}, largest {_signed(shown, largest)} "
            f"({', '.join(map(_label, where.labels, where.labels.values()))})."
        )
    return sentences


def axis_name(axis: str) -> str:
    """The name of an axis as pages show it."""
    return "ε" if axis == "epsilon" else axis


def _label(axis: str, value: str) -> str:
    """
    >>> _label("method", "PPGL-C"), _label("epsilon", "0.3")
    ('PPGL-C', 'ε = 0.3')
    """
    return value if axis == "method" else f"{axis_name(axis)} = {value}"


def has_noise(rows: Sequence[ResultRow]) -> bool:
    """Whether some run of the experiment adds noise."""
    summaries = [each for row in rows for each in (row.paper, row.guaranteed, row.plain) if each is not None]
    return any(_guaranteed(each) != NO_NOISE for each in summaries)


def _calibrated_columns(
    experiment: Experiment, metrics: Sequence[Metric], published: Sequence[Metric]
) -> list[TableColumn]:
    """The published numbers, then a group of columns for each calibration."""
    columns = [TableColumn("Published", _heading(each), _published_cell(each)) for each in published]
    for source in experiment.calibrations:
        group = _GROUPS[source]
        for each in metrics:
            columns.append(TableColumn(group, _heading(each), _measured_cell(each, source)))
            if each in published:
                columns.append(TableColumn(group, _DIFFERENCE, _difference_cell(each, source)))
        epsilon = ("Guaranteed ε", _guaranteed) if source == "paper" else ("Claimed ε", _claimed)
        columns.append(TableColumn(group, epsilon[0], _epsilon_cell(epsilon[1], source)))
    return columns


def _plain_columns(metrics: Sequence[Metric], published: Sequence[Metric]) -> list[TableColumn]:
    """A group of columns for each metric, then ε."""
    columns = []
    for each in metrics:
        ours = TableColumn(_heading(each), "Ours", _measured_cell(each, "plain"))
        if each not in published:
            columns.append(ours)
            continue
        columns += [
            TableColumn(_heading(each), "Published", _published_cell(each)),
            ours,
            TableColumn(_heading(each), _DIFFERENCE, _difference_cell(each, "plain")),
        ]
    return [
        *columns,
        TableColumn("ε", "Claimed", _epsilon_cell(_claimed_with_scope, "plain")),
        TableColumn("ε", "Guaranteed", _epsilon_cell(_guaranteed, "plain")),
    ]


def _summary(row: ResultRow, source: str) -> SeedSummary | None:
    """The runs with the noise of a calibration. Runs whose noise is not calibrated belong to every calibration."""
    found: SeedSummary | None = getattr(row, source)
    return found or row.plain


def _ours(row: ResultRow, source: str, name: str) -> float | None:
    summary = _summary(row, source)
    return None if summary is None else summary.mean[name]


def _published(experiment: Experiment, row: ResultRow) -> Published:
    """The published numbers of a row, by metric."""
    first = {} if row.published is None else {experiment.metrics[0]: row.published}
    return {**first, **row.more_published}


def _published_cell(shown: Metric) -> CellMaker:
    def cell(row: ResultRow, published: Published) -> TableCell:
        value = published.get(shown.name)
        return _word(NOT_PUBLISHED) if value is None else TableCell(f"{value:g}")

    return cell


def _measured_cell(shown: Metric, source: str) -> CellMaker:
    def cell(row: ResultRow, published: Published) -> TableCell:
        summary = _summary(row, source)
        if summary is None or summary.mean[shown.name] is None:
            return _word(FAILED if summary is not None and summary.errors else NOT_MEASURED)
        return TableCell(summary.text(shown.name))

    return cell


def _difference_cell(shown: Metric, source: str) -> CellMaker:
    def cell(row: ResultRow, published: Published) -> TableCell:
        value, ours = published.get(shown.name), _ours(row, source, shown.name)
        if value is None:
            return _word(NOT_PUBLISHED)
        return _word(NOT_MEASURED) if ours is None else TableCell(_signed(shown, ours - value), "difference")

    return cell


def _epsilon_cell(text: Callable[[SeedSummary | None], str], source: str) -> CellMaker:
    return lambda row, published: _word(text(_summary(row, source)))


def _guaranteed(summary: SeedSummary | None) -> str:
    if summary is None:
        return NOT_MEASURED
    if summary.guaranteed is not None:
        return rounded_up(summary.guaranteed, 3)
    return NO_NOISE if (summary.reason or "").endswith("without noise") else NO_GUARANTEE


def _claimed(summary: SeedSummary | None) -> str:
    if summary is None:
        return NOT_MEASURED
    if summary.claimed is None:
        return NO_NOISE if _guaranteed(summary) == NO_NOISE else NO_CLAIM
    return rounded_up(summary.claimed, 3)


def _claimed_with_scope(summary: SeedSummary | None) -> str:
    if summary is None or summary.claimed is None:
        return _claimed(summary)
    return f"{metric('claimed').text(summary.claimed)} per {summary.claimed_for}"


def _word(text: str) -> TableCell:
    return TableCell(text, "word" if text in WORDS else "")


def _heading(shown: Metric) -> str:
    return format_heading(shown.short_label)


def _signed(shown: Metric, value: float) -> str:
    """A difference with its sign.

    >>> _signed(metric("accuracy"), -1.504), _signed(metric("accuracy"), 0.25)
    ('−1.50', '+0.25')
    """
    return f"{value:+{shown.number_format}}".replace("-", "−")
