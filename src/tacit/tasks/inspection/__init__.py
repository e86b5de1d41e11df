"""Tools for the person who holds a table: a draft of its declaration, and a check of its cells."""

from tacit.tasks.inspection.table_check import ColumnCheck, TableCheck, check_table
from tacit.tasks.inspection.table_draft import TableDraft, draft_table

__all__ = ["ColumnCheck", "TableCheck", "TableDraft", "check_table", "draft_table"]
