"""Reading a table into float32 arrays, chunk by chunk."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.errors import TacitError
from tacit.tasks.data.cells import DecimalMark, Floats
from tacit.tasks.data.csv_table import CsvTable
from tacit.tasks.data.files import existing
from tacit.tasks.data.table_schema import TableSchema
from tacit.tasks.data.table_source import ParquetTable, TableSource

_CELLS_PER_CHUNK = 1_000_000
_BYTES_PER_CELL = 200  # of a chunk: text, Python objects and numbers
_log = logging.getLogger(__name__)


def open_table(
    path: Path,
    schema: TableSchema | None = None,
    separator: str | None = None,
    decimal: DecimalMark | None = None,
    encoding: str | None = None,
    multiline: bool = False,
) -> TableSource:
    """Open a csv or Parquet file, by the ending of its name. The other arguments are those of `CsvTable`."""
    if existing(path).suffix.lower() in (".npz", ".npy"):
        raise TacitError(f"{path} has arrays, not a table: a table is a .csv, .csv.gz or .parquet file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return ParquetTable(path)
    columns = schema.used_columns() if schema else ()
    return CsvTable(path, columns, separator=separator, decimal=decimal, encoding=encoding, multiline=multiline)


class TableRecords(NamedTuple):
    """The records of a table.

    Attributes:
        x: The prepared records (M, width).
        y: Their targets.
        private: The numbers (M, k) of the k columns with a private range, in their own units; NaN for missing cells.
    """

    x: NDArray[np.float32]
    y: NDArray[Any]
    private: Floats


def read_table(
    table: TableSource, schema: TableSchema, targets: bool = True, chunk_rows: int | None = None
) -> TableRecords:
    """Return the prepared records of a table and their targets.

    The number of records and the memory that they need are logged before the table is read. Cells are held as text for
    one chunk at a time.

    Args:
        table: The table.
        schema: Its columns.
        targets: Whether the table has the target. Without it, as for a prediction, `y` is empty.
        chunk_rows: The number of records that are read together. It does not change the result.

    Raises:
        TacitError: If the columns of the table are not those of the schema, or a cell is refused.
    """
    schema.check_columns(table.names, table.where, targets)
    columns, rows, target = schema.used_columns(targets), table.rows, schema.target
    needed = _memory(rows, schema, len(columns)) / 1e6
    hint = f". To check its cells: tacit inspect {table.where} --check CONFIG" if targets and table.is_file else ""
    _log.info("Reading %s: %s records, which need about %.3g MB of memory%s", table.where, f"{rows:,}", needed, hint)
    try:
        x = np.zeros((rows, *schema.inputs), np.float32)
        y = np.zeros((rows, *target.shape) if targets else 0, np.int64 if target.classes else np.float32)
        private = np.zeros((rows, len(schema.private_columns)))
    except MemoryError:
        raise TacitError(f"{table.where} needs about {needed:.3g} MB of memory, and so much is not free") from None
    start = 0
    for chunk in table.chunks(columns, chunk_rows or max(1, _CELLS_PER_CHUNK // len(columns))):
        locate = _Position(table, start)
        part = slice(start, start + len(chunk))
        x[part] = schema.prepare(chunk, table.decimal, locate)
        private[part] = schema.private_numbers(chunk, table.decimal)
        if targets:
            y[part] = schema.targets(chunk, table.decimal, locate)
        start += len(chunk)
    return TableRecords(x, y, private)


def _memory(rows: int, schema: TableSchema, columns: int) -> int:
    """The bytes that a table needs while it is read: twice its records, for the split, and one chunk of text."""
    record = 4 * schema.inputs[0] + (8 if schema.target.classes else 4) * math.prod(schema.target.shape)
    record += 8 * len(schema.private_columns)
    return 2 * rows * record + _BYTES_PER_CELL * min(rows * columns, _CELLS_PER_CHUNK)


class _Position:
    """The position of a row of a chunk, in words."""

    def __init__(self, table: TableSource, start: int) -> None:
        self._table, self._start = table, start

    def __call__(self, row: int) -> str:
        return self._table.locate(self._start + row)
