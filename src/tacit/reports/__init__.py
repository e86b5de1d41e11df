"""The page a run leaves behind, made from the run's folder alone; several runs in one page, side by side."""

from tacit.reports.facts import write_facts
from tacit.reports.graph_page import graph_page, write_graph_page
from tacit.reports.page import PAGE, page, write_page
from tacit.reports.record import Record, records
from tacit.reports.report_page import ReportPage

__all__ = [
    "PAGE",
    "Record",
    "ReportPage",
    "graph_page",
    "page",
    "records",
    "write_facts",
    "write_graph_page",
    "write_page",
]
