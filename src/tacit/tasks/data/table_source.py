"""Tables that are read in chunks: csv files, Parquet files and pandas data frames have this interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tacit.errors import TacitError
from tacit.tasks.data.cells import DecimalMark

if TYPE_CHECKING:
    import pandas as pd

ColumnType = Literal["number", "truth", "date", "text", "other"]


class TableSource(ABC):
    """A table with named columns.

    Attributes:
        where: The name of the table in errors.
        names: The names of the columns, which are public.
        decimal: The decimal mark of numbers in text.
        is_file: Whether the table is a file, whose name is `where`.
        types: The types of the columns that the table states apart from its records; empty if it states none.
    """

    where: str
    names: Sequence[str]
    decimal: DecimalMark = "."
    is_file: bool = True
    types: Mapping[str, ColumnType] = MappingProxyType({})

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of records, which is public."""

    @abstractmethod
    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """Yield these columns of all records, at most `rows` records at a time."""

    @abstractmethod
    def locate(self, row: int) -> str:
        """Return the position of a record in words, for errors."""


class FrameTable(TableSource):
    """A pandas data frame."""

    is_file = False

    def __init__(self, frame: pd.DataFrame, where: str = "the table", decimal: DecimalMark = ".") -> None:
        self.where, self.names, self._frame = where, [str(name) for name in frame.columns], frame
        self.decimal = decimal

    @property
    def rows(self) -> int:
        return len(self._frame)

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        used = self._frame.iloc[:, [self.names.index(name) for name in columns]].set_axis(list(columns), axis=1)
        return (used.iloc[start : start + rows] for start in range(0, len(used), rows))

    def locate(self, row: int) -> str:
        return f"{self.where}: row {row} (counted from 0)"


class ParquetTable(TableSource):
    """A Parquet file. It needs the extra `parquet`."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise TacitError('Parquet files need pyarrow: pip install "tacit[parquet]"') from None
        try:
            self._file = parquet.ParquetFile(path)
        except (OSError, pa.ArrowException):  # the message can contain a part of the file
            raise TacitError(f"{path} is damaged or not a Parquet file") from None
        fields = list(self._file.schema_arrow)
        self.where, self.names = str(path), [field.name for field in fields]
        self.types = {field.name: _column_type(field.type) for field in fields}

    @property
    def rows(self) -> int:
        rows: int = self._file.metadata.num_rows
        return rows

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        import pyarrow as pa

        try:
            for batch in self._file.iter_batches(rows, columns=list(columns)):
                arrays = [_plain(batch.column(name)) for name in columns]
                table = pa.Table.from_arrays(arrays, names=list(columns))
                yield table.to_pandas(integer_object_nulls=True, ignore_metadata=True)
        except (OSError, pa.ArrowException):
            raise TacitError(f"{self.where} is damaged or not a Parquet file") from None

    def locate(self, row: int) -> str:
        return f"{self.where}: record {row + 1}"


def _plain(column: Any) -> Any:
    """Return text as bytes and dates as times: values that are not valid would raise an error when they are read."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        return _plain(column.dictionary).take(column.indices)
    if types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type):
        return column.cast(pa.large_binary())
    units = {pa.date32(): "s", pa.date64(): "ms"}
    return column.cast(pa.timestamp(units[column.type])) if column.type in units else column


def _column_type(stored: Any) -> ColumnType:
    from pyarrow import types

    stored = stored.value_type if types.is_dictionary(stored) else stored
    if types.is_boolean(stored):
        return "truth"
    if types.is_integer(stored) or types.is_floating(stored) or types.is_decimal(stored):
        return "number"
    if types.is_date(stored) or types.is_timestamp(stored):
        return "date"
    return "text" if types.is_string(stored) or types.is_large_string(stored) else "other"
