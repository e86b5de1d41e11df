"""The page of a comparison: one curve per method, the mean over its seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tacit.compare import Comparison, mean_and_deviation
from tacit.reports.run_page import REPORT_FILE, render_run_page
from tacit.reports.run_record import RunRecord
from tacit.runs import storage


def write_comparison_page(comparison: Comparison) -> Path:
    """Write report.html to the folder of a comparison whose runs were observed by `ReportPage`."""
    runs = [
        mean_record(label, [RunRecord.read(folder) for folder in folders])
        for label, folders in comparison.folders.items()
    ]
    page = comparison.out / REPORT_FILE
    storage.write(page, render_run_page(runs).encode())
    return page


def mean_record(label: str, runs: Sequence[RunRecord]) -> RunRecord:
    """The first run with the mean history of all of them."""
    rows_of_means = []
    for rows in zip(*(run.evaluations for run in runs), strict=False):
        means = {key: over[0] for key in rows[0] if (over := mean_and_deviation(rows, key)) is not None}
        rows_of_means.append({**rows[0], **means})
    title = runs[0].result["algorithm"]
    name = title if label.lower() in title.lower() else f"{label}: {title}"
    return replace(runs[0], name=name, evaluations=rows_of_means)
