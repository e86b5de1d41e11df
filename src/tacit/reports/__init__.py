"""The page a run leaves behind, made from the run's folder alone; several runs in one page, side by side."""

from tacit.reports.facts import write_facts
from tacit.reports.page import PAGE, page, write_page
from tacit.reports.record import Record, records

__all__ = ["PAGE", "Record", "page", "records", "write_facts", "write_page"]
