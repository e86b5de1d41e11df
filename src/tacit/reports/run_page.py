"""The page of one run, or of several runs beside each other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from tacit.reports.attack_chart import attack_chart
from tacit.reports.audit_chart import audit_figures
from tacit.reports.audit_section import audit_sections
from tacit.reports.charts import Figure, series_colour
from tacit.reports.colluder_chart import colluder_chart
from tacit.reports.comparison_summary import ComparisonSummary
from tacit.reports.document_section import description_items
from tacit.reports.formats import NOT_SET
from tacit.reports.network_chart import network_chart
from tacit.reports.pair_chart import pair_chart
from tacit.reports.privacy_statement import MEANING, StatementItem, limitations, privacy_statement
from tacit.reports.run_panels import run_panels
from tacit.reports.run_record import Row, RunRecord, read_records
from tacit.reports.template import render_template, write_page
from tacit.reports.utility_section import shown_metrics, utility_section
from tacit.reports.verification_section import dated_line, digests, verification_items
from tacit.runs import flat_settings
from tacit.runs.metrics import Metric, headline_metrics

REPORT_FILE = "report.html"
_MAX_NODE_ROWS, _WORST_NODE_ROWS = 200, 50


def write_run_page(folders: Sequence[Path], out: Path) -> Path:
    """Write the page of the runs in `folders` to `out`. Every run is verified first."""
    return write_page(out, render_run_page(read_records(folders)))


def render_run_page(
    runs: Sequence[RunRecord],
    document: Sequence[StatementItem] = (),
    comparison: ComparisonSummary | None = None,
) -> str:
    """The HTML of one run, or of several runs beside each other.

    Args:
        runs: The runs.
        document: The items of the first printed page. The page of a document has all its sections open.
        comparison: The best method and the downloads, if the runs are those of a comparison.
    """
    panels, single = run_panels(runs), len(runs) == 1
    statements = [privacy_statement(run) for run in runs]
    return render_template(
        "report.html",
        runs=runs,
        title=runs[0].name if single else _several_title(runs),
        panels=panels,
        figures={
            **{panel.id: panel.figure for panel in panels if panel.figure},
            **(_single_run_figures(runs[0]) if single else {}),
        },
        colours=[series_colour(i) for i in range(len(runs))],
        statements=statements,
        meaning=dict(statements[0]).get(MEANING, ""),
        document=document,
        comparison=comparison,
        same={name: values[0] for name, values in _facts(runs).items() if len(set(values)) == 1},
        varying={name: values for name, values in _facts(runs).items() if len(set(values)) > 1},
        description=description_items(runs[0]) if single else [],
        dated=dated_line(runs[0]),
        verified="not verified" if runs[0].verification is None else "verified",
        digests=digests(runs[0]),
        limitations=[limitations(run) for run in runs],
        verifications=[verification_items(run) for run in runs],
        audits=audit_sections(runs[0]) if single else [],
        shown=shown_metrics(runs),
        utility=utility_section(runs[0]) if single else None,
        same_trivial=_same_trivial(runs),
        nodes=node_table(runs[0].nodes),
        node_metric=node_metric(runs[0].nodes),
        summary=node_summary(runs[0].nodes),
        settings=common_settings(runs),
        differences=different_settings(runs),
    )


def node_table(rows: Sequence[Row]) -> list[Row]:
    """All nodes; of many nodes, those with the highest guaranteed ε, then those with the worst models."""
    if len(rows) <= _MAX_NODE_ROWS:
        return list(rows)
    main = node_metric(rows)
    worst = sorted(rows, key=lambda row: (-_or(row["guaranteed"], 1e300), _quality(row, main)))
    return worst[:_WORST_NODE_ROWS]


def node_metric(rows: Sequence[Row]) -> Metric | None:
    """The metric of each node's own model in the table of the nodes: the main one of the task."""
    return next(iter(headline_metrics(rows[0])), None) if rows else None


def node_summary(rows: Sequence[Row]) -> dict[str, tuple[float, float, float] | None]:
    """Minimum, median and maximum of each column; None if it contains no numbers."""
    columns = {key: [row[key] for row in rows if row[key] is not None] for key in (rows[0] if rows else {})}
    return {
        key: (min(values), statistics.median(values), max(values)) if values else None
        for key, values in columns.items()
    }


def common_settings(runs: Sequence[RunRecord]) -> dict[str, str]:
    """The settings that are the same in all runs."""
    settings = [flat_settings(run.config) for run in runs]
    return {key: value for key, value in settings[0].items() if all(other.get(key) == value for other in settings)}


def different_settings(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """The settings that are not the same in all runs, with one value per run."""
    settings = [flat_settings(run.config) for run in runs]
    keys = dict.fromkeys(key for each in settings for key in each)
    values = {key: [each.get(key, NOT_SET) for each in settings] for key in keys}
    return {key: each for key, each in values.items() if len(set(each)) > 1}


def _several_title(runs: Sequence[RunRecord]) -> str:
    seeds = runs[0].seeds
    return f"{len(runs)} runs compared" if seeds == 1 else f"{len(runs)} methods compared, means over {seeds} seeds"


def _facts(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """δ, rounds and nodes of the runs, as texts."""
    return {
        "δ": [f"{run.privacy.delta:g}" for run in runs],
        "Rounds": [f"{run.result['rounds']:,}" for run in runs],
        "Nodes": [f"{run.result['nodes']:,}" for run in runs],
    }


def _single_run_figures(run: RunRecord) -> dict[str, Figure]:
    figures = {
        "attack": attack_chart(run.privacy),
        "colluders": colluder_chart(run.privacy),
        "network": network_chart(run),
        "pairs": pair_chart(run),
        **audit_figures(run.audits.trials, run.audits.one_run),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _quality(row: Row, main: Metric | None) -> float:
    """A number that is smaller for worse models."""
    if main is None:
        return 0.0
    return _or(row[main.name], 0.0) if main.higher_is_better else -_or(row[main.name], 0.0)


def _same_trivial(runs: Sequence[RunRecord]) -> bool:
    """Whether all runs have the same trivial predictor, because they have the same test records."""
    first = runs[0].result.get("trivial")
    return bool(first) and all(run.result.get("trivial") == first for run in runs)


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
