"""New records in files, read in chunks: tables with the columns of the training table, or numbers.

Privacy:
    Errors and notes depend on the records. They are for the person who predicts, who holds these records.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.tasks import (
    CellCounter,
    CsvTable,
    DecimalMark,
    FrameTable,
    TableSchema,
    TableSource,
    cell_notes,
    number_of,
    numbers,
    open_table,
)

if TYPE_CHECKING:
    import pandas as pd

    from tacit.runs.prediction.trained_model import TrainedModel

_CELLS_AT_ONCE = 1_000_000
_MAX_ROWS = 65_536
_NOT_NPZ = (OSError, EOFError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error)


class RecordChunk(NamedTuple):
    """Some records: their features (B, …), and the cells of the columns to copy."""

    features: Tensor
    kept: pd.DataFrame


class RecordFile(ABC):
    """A file of records to predict.

    Attributes:
        keep: The columns to copy to the output.
        column_notes: What the user should know about the columns of the file.
    """

    def __init__(self, keep: Sequence[str]) -> None:
        self.keep, self.column_notes = list(dict.fromkeys(keep)), list[str]()

    @abstractmethod
    def chunks(self) -> Iterator[RecordChunk]:
        """Yield all records in their order; at least one chunk, which can be empty."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of records."""

    @property
    def cell_notes(self) -> list[str]:
        """What the user should know about the cells that have been read so far."""
        return []

    @classmethod
    def open(
        cls,
        model: TrainedModel,
        path: Path,
        keep: Sequence[str] = (),
        *,
        separator: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
    ) -> RecordFile:
        """Open a csv, Parquet or npz file.

        Args:
            model: The model for whose inputs the file is read.
            path: The file.
            keep: Columns to copy to the output.
            separator: The separator of a csv file; None: as in training, or found in the header.
            decimal: The decimal mark of a csv file; None: as in training, or the one that fits the separator.
            encoding: The encoding of a csv file; None: as in training, or UTF-8.

        Raises:
            TacitError: The file cannot be read, or does not have the columns that the model needs.
        """
        if decimal not in (None, ".", ",", "both"):
            raise TacitError(f'--decimal must be ".", "," or "both", got "{decimal}"')
        given = {"separator": separator, "decimal": decimal, "encoding": encoding}
        form = {**model.description.reading, **{key: value for key, value in given.items() if value is not None}}
        if path.suffix.lower() == ".npz":
            return _Arrays(model, path, keep)
        mark = cast(DecimalMark | None, form.get("decimal"))
        texts = (cast(str | None, form.get(key)) for key in ("separator", "encoding"))
        separator, encoding = texts
        table = open_table(path, model.schema, separator, mark, encoding, bool(form.get("multiline")))
        if model.schema is not None:
            return _Table(model, model.schema, table, keep)
        if isinstance(table, CsvTable) and all(math.isfinite(number_of(name, table.decimal)) for name in table.names):
            # A first line of numbers is a record, and not the names of columns.
            table = CsvTable(
                path, separator=table.separator, decimal=table.decimal, encoding=table.encoding, header=False
            )
        return _Numbers(model, table, keep)


def record_frame(model: TrainedModel, schema: TableSchema, frame: pd.DataFrame) -> RecordFile:
    """Return a data frame as if it were a file. Numbers in text have the decimal mark of the training table."""
    return _Table(model, schema, FrameTable(frame, decimal=model.description.decimal), ())


class _Columns(RecordFile):
    """A table with named columns. Subclasses use some of them."""

    def __init__(self, model: TrainedModel, table: TableSource, keep: Sequence[str], used: Sequence[str]) -> None:
        super().__init__(keep)
        self.model, self.table, self.used = model, table, list(used)
        for name in self.keep:
            count = list(table.names).count(name)
            if count == 0:
                columns = ", ".join(table.names)
                raise TacitError(f'{table.where} has no column "{name}"; its columns are: {columns}')
            if count > 1:
                raise TacitError(f'{table.where} has {count} columns "{name}": rename or remove one of them')

    @property
    def rows(self) -> int:
        return self.table.rows

    def chunks(self) -> Iterator[RecordChunk]:
        columns = list(dict.fromkeys([*self.used, *self.keep]))
        start, size = 0, max(1, min(_MAX_ROWS, _CELLS_AT_ONCE // len(columns)))
        for frame in self.table.chunks(columns, size):
            yield RecordChunk(self.features(frame, start), self._kept(frame))
            start += len(frame)
        if start == 0:
            import pandas as pd  # slow to import

            yield RecordChunk(torch.zeros(0, *self.model.inputs), pd.DataFrame(columns=self.keep))

    def _kept(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The cells to copy. Text of a Parquet file is read as bytes."""
        kept = frame[self.keep]
        return kept.map(lambda cell: cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell)

    @abstractmethod
    def features(self, frame: pd.DataFrame, start: int) -> Tensor:
        """Return the features of a chunk whose first record has the position `start`."""


class _Table(_Columns):
    """A table with the columns from which the training records were prepared."""

    def __init__(self, model: TrainedModel, schema: TableSchema, table: TableSource, keep: Sequence[str]) -> None:
        schema.check_columns(table.names, table.where, targets=False)
        super().__init__(model, table, keep, schema.used_columns(targets=False))
        self.schema, self._counter = schema, CellCounter(schema, self.used, table.decimal)
        extra = [name or '""' for name in table.names if name not in schema.columns and name not in self.keep]
        if extra:
            self.column_notes.append(f"columns that the model does not use are ignored: {', '.join(extra)}")

    @property
    def cell_notes(self) -> list[str]:
        return cell_notes(self._counter.checks(), self.schema, self._counter.records, self.table.decimal)

    def features(self, frame: pd.DataFrame, start: int) -> Tensor:
        if start == 0:
            self._counter = CellCounter(self.schema, self.used, self.table.decimal)
        self._counter.add(frame)
        x = self.schema.prepare(frame, self.table.decimal, lambda row: self.table.locate(start + row))
        return self.model.checked(x)


class _Numbers(_Columns):
    """A table in which every column except the target's and the copied ones is a feature."""

    def __init__(self, model: TrainedModel, table: TableSource, keep: Sequence[str]) -> None:
        target = model.description.target.name
        used = [name for name in table.names if name not in keep and (name != target or not target)]
        needed = math.prod(model.inputs)
        if len(used) != needed:
            raise TacitError(
                f"{table.where} has {len(used)} columns, but the model needs {needed} features: leave out the labels "
                "and all columns that are not features, or copy them to the output with --keep"
            )
        if len(set(used)) < len(used):
            raise TacitError(f"{table.where} has several columns of the same name: rename them")
        super().__init__(model, table, keep, used)

    def features(self, frame: pd.DataFrame, start: int) -> Tensor:
        x = np.stack([numbers(frame[name], self.table.decimal) for name in self.used], axis=1)
        for row, column in np.argwhere(np.isnan(x))[:1]:
            where = self.table.locate(start + int(row))
            raise TacitError(f"{where}, column {self.used[column]} is not a finite number")
        return self.model.checked(x)


class _Arrays(RecordFile):
    """The array `x` of a .npz file."""

    def __init__(self, model: TrainedModel, path: Path, keep: Sequence[str]) -> None:
        super().__init__(keep)
        if self.keep:
            raise TacitError(f"{path} has no named columns, so --keep {self.keep[0]} is not possible")
        if not path.is_file():
            raise TacitError(f"there is no file {path.absolute()}")
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:  # unpickling would run code
                names = file.files
                x = file["x" if "x" in names else "X"] if {"x", "X"} & set(names) else None
        except _NOT_NPZ:
            raise TacitError(f"{path} is damaged or not a .npz file of numeric arrays") from None
        if x is None:
            raise TacitError(f'{path} has no array "x"; it has: {", ".join(names) or "no arrays"}')
        self._x = model.checked(x)

    @property
    def rows(self) -> int:
        return len(self._x)

    def chunks(self) -> Iterator[RecordChunk]:
        import pandas as pd  # slow to import

        for part in torch.split(self._x, _MAX_ROWS):
            yield RecordChunk(part, pd.DataFrame(index=range(len(part))))
