"""The observer that writes the report of a run into its folder."""

from __future__ import annotations

from tacit.reports.run_data import write_run_data
from tacit.reports.run_page import REPORT_FILE, render_run_page
from tacit.reports.run_record import RunRecord
from tacit.reports.template import write_page
from tacit.runs import Observer, Run, has_ended


class ReportPage(Observer):
    """Writes nodes.csv, graph.json, threats.json and report.html at the end of a run that has a folder."""

    def on_finish(self, run: Run) -> None:
        if run.out is None:
            return
        leader = run.coordinator.is_leader
        if leader and not has_ended(run.out):
            return  # the folder could not be brought up to date, so there is nothing to report
        write_run_data(run, run.out)
        if leader:
            write_page(run.out / REPORT_FILE, render_run_page([RunRecord.read_unverified(run.out)]))
