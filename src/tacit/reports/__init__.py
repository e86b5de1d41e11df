"""Reports: HTML pages of runs, comparisons, experiments and learned graphs. Pages need no network."""

from tacit.reports.comparison_page import comparison_observers, write_comparison_page
from tacit.reports.experiment_page import render_experiment_page, write_experiment_page
from tacit.reports.graph_page import render_graph_page, write_graph_page
from tacit.reports.optional_page import write_if_installed
from tacit.reports.pdf import PDF_FILE, write_run_pdf
from tacit.reports.privacy_statement import StatementItem, limitations, privacy_statement
from tacit.reports.report_page import ReportPage
from tacit.reports.run_data import write_run_data
from tacit.reports.run_page import REPORT_FILE, render_run_page, write_run_page
from tacit.reports.run_record import RunRecord, read_records
from tacit.reports.saved_audits import SavedAudits
from tacit.reports.sweep_page import SWEEP_FILE, render_sweep_page, write_sweep_page
from tacit.reports.template import require_report_extra

__all__ = [
    "PDF_FILE",
    "REPORT_FILE",
    "SWEEP_FILE",
    "ReportPage",
    "RunRecord",
    "SavedAudits",
    "StatementItem",
    "comparison_observers",
    "limitations",
    "privacy_statement",
    "read_records",
    "render_experiment_page",
    "render_graph_page",
    "render_run_page",
    "render_sweep_page",
    "require_report_extra",
    "write_comparison_page",
    "write_experiment_page",
    "write_graph_page",
    "write_if_installed",
    "write_run_data",
    "write_run_page",
    "write_run_pdf",
    "write_sweep_page",
]
