"""Tools for the person who holds a table: a draft of its declaration, and a check of its cells."""

from tacit.tasks.inspection.cell_notes import cell_notes
from tacit.tasks.inspection.table_check import CellCounter, ColumnCheck, TableCheck, check_table
from tacit.tasks.inspection.table_draft import TableDraft, draft_table

__all__ = ["CellCounter", "ColumnCheck", "TableCheck", "TableDraft", "cell_notes", "check_table", "draft_table"]
