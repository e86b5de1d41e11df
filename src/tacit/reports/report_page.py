"""The observer that writes the report of a run into its folder."""

from __future__ import annotations

from tacit.reports.facts import write_facts
from tacit.reports.page import PAGE, write_page
from tacit.runs import RESULT_FILE, Observer, Run


class ReportPage(Observer):
    """Writes nodes, graph, threats and `report.html` at the end of a run that is kept in a folder."""

    def on_finish(self, run: Run) -> None:
        if run.out is None:
            return
        if run.coordinator.is_leader and not (run.out / RESULT_FILE).is_file():
            return  # the folder could not be brought up to date, so there is nothing to report
        write_facts(run, run.out)
        if run.coordinator.is_leader:
            write_page([run.out], run.out / PAGE)
