"""The observer that writes the report of a run into its folder."""

from __future__ import annotations

import warnings

from tacit.errors import MissingExtra
from tacit.reports.run_data import write_run_data
from tacit.reports.run_page import REPORT_FILE, render_run_page
from tacit.reports.run_record import RunRecord
from tacit.reports.template import write_page
from tacit.runs import Observer, Run, has_ended


class ReportPage(Observer):
    """Writes nodes.csv, graph.json, threats.json and report.html at the end of a run that has a folder.

    Without the extra `report`, the page is not written, and a warning names the extra.

    Args:
        quiet: Do not warn, because a page of several runs follows.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet

    def on_finish(self, run: Run) -> None:
        if run.out is None:
            return
        leader = run.coordinator.is_leader
        if leader and not has_ended(run.out):
            return  # the folder could not be brought up to date, so there is nothing to report
        write_run_data(run, run.out)
        if not leader:
            return
        try:
            write_page(run.out / REPORT_FILE, render_run_page([RunRecord.read_unverified(run.out)]))
        except MissingExtra as missing:
            if not self._quiet:
                warnings.warn(f"{missing}, then run: tacit report {run.out}", stacklevel=2)
