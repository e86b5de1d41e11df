"""The page of a comparison: one curve and one row per method, the mean over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tacit.comparisons import Comparison, mean_and_deviation, mean_curve
from tacit.reports.comparison_summary import comparison_summary
from tacit.reports.report_page import ReportPage
from tacit.reports.run_page import REPORT_FILE, render_run_page
from tacit.reports.run_record import RunRecord
from tacit.reports.template import share_script, write_page
from tacit.runs import Observer


def comparison_observers() -> Sequence[Observer]:
    """The observers of each run of a comparison whose page is to be written."""
    return [ReportPage(quiet=True)]


def write_comparison_page(comparison: Comparison) -> Path:
    """Write report.html to the folder of a comparison whose runs were observed by `comparison_observers`."""
    runs = [
        mean_record(label, [RunRecord.read(folder) for folder in folders])
        for label, folders in comparison.folders.items()
    ]
    page = render_run_page(runs, comparison=comparison_summary(comparison))
    written = write_page(comparison.out / REPORT_FILE, page)
    share_script(written, [folder for folders in comparison.folders.values() for folder in folders])
    return written


def mean_record(label: str, runs: Sequence[RunRecord]) -> RunRecord:
    """The mean of several runs of one method. Its privacy is that of the run with the largest guaranteed ε."""
    worst = max(runs, key=lambda run: float("inf") if run.privacy.guaranteed is None else run.privacy.guaranteed)
    title = worst.result["algorithm"]
    measured = [run.result.get("metrics") or {} for run in runs]
    over = {name: mean_and_deviation(measured, name) for name in measured[0]}
    sent = mean_and_deviation([run.result for run in runs], "bytes")
    means = {name: None if each is None else each[0] for name, each in over.items()}
    return replace(
        worst,
        name=title if label.lower() in title.replace("²", "2").lower() else f"{label}: {title}",
        evaluations=mean_curve([run.evaluations for run in runs]),
        result={**worst.result, "metrics": means, "bytes": None if sent is None else sent[0]},
        config=_joined([run.config for run in runs]),
        seeds=len(runs),
        deviations={name: each[1] for name, each in over.items() if each is not None and len(runs) > 1},
    )


def _joined(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The common config. A setting that differs, such as the seed, is the text of all its values."""
    first = dict(configs[0])
    for key, value in first.items():
        values = [config.get(key) for config in configs]
        if isinstance(value, Mapping):
            first[key] = _joined([each for each in values if isinstance(each, Mapping)])
        elif any(each != value for each in values):
            first[key] = ", ".join(map(str, values))
    return first
