"""Tables in csv files. All cells are read as text, in chunks, by pandas."""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from io import BufferedReader, StringIO, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tacit.errors import TacitError
from tacit.tasks.data.cells import DecimalMark
from tacit.tasks.data.csv_records import RecordSplitter
from tacit.tasks.data.table_source import TableSource

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = (",", ";", "\t", "|")
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # starts with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_OLD_LINE_ENDS = re.compile(r"[^\r\n]*\r[^\r\n]")  # a carriage return alone, as on old Macs
_HEADER_LINES = 100
# Encodings in which the bytes of one line do not change the meaning of another one.
_PLAIN_ENCODINGS = re.compile(
    r"ascii|utf-(8|16|32)|iso8859|cp\d|mac|koi8|shift_jis|gb|big5|euc_|kz1048|ptcp154|hp-roman8|tis"
)


class CsvTable(TableSource):
    """A csv file: text in any of the usual forms, also compressed with gzip (`.gz`).

    Attributes:
        path: The file.
        separator: The separator of cells.
        encoding: The encoding: that of the byte order mark, the given one, or UTF-8.
        strict: Whether a file that is not well-formed is refused. Otherwise damaged parts are missing cells.
        multiline: Whether quoted cells can contain line breaks. Otherwise every line is one record.
        header: Whether the first record contains the column names. Otherwise names are the indices from 0.
    """

    def __init__(
        self,
        path: Path,
        columns: Collection[str] = (),
        separator: str | None = None,
        decimal: DecimalMark | None = None,
        encoding: str | None = None,
        strict: bool = False,
        header: bool = True,
        multiline: bool = False,
    ) -> None:
        """Open a file and read its header.

        Args:
            path: The file.
            columns: The names of columns that the header must have.
            separator: The separator of cells. None: of `,` `;` tab and `|`, the one with which the header has most of
                `columns`, or else the most cells. Only the header is examined.
            decimal: The decimal mark. None: `.` if the separator is a comma, and otherwise both `.` and `,`.
            encoding: The encoding, if the file has no byte order mark.
            strict: Refuse a file that is not well-formed.
            header: Whether the first record contains the column names.
            multiline: Whether quoted cells can contain line breaks. They can in a `strict` file.
        """
        if separator is not None and len(separator) != 1:
            raise TacitError(f"separator must be one character, got {separator!r}")
        self.path, self.where, self.strict, self.header = path, str(path), strict, header
        self.multiline = multiline or strict
        self.encoding, self._newline = encoding or "utf-8", "\n"
        with self._reading():
            self._detect()
            with self._open() as file:
                first = list(islice(file, _HEADER_LINES))
        if not "".join(first).strip():
            raise TacitError(f"{path} is empty; it needs one record per line")
        self.separator = separator or _separator(first, columns)
        cells, lines = _first_record(first, self.separator)
        if not cells:
            raise self._malformed
        self.names = [cell.strip() for cell in cells] if header else [str(i) for i in range(len(cells))]
        self._header_lines = lines if header else 0
        self.decimal = decimal or ("." if self.separator == "," else "both")

    @cached_property
    def rows(self) -> int:
        return sum(1 for _ in self.records())

    def records(self) -> Iterator[tuple[int, str]]:
        """Yield the line number and the text of every record."""
        splitter = RecordSplitter(self.separator, self.multiline)
        with self._reading(), self._open() as file:
            for _ in range(self._header_lines):
                next(file, None)
            for line, text in splitter.records(file, self._header_lines + 1):
                if self.strict and (count := splitter.count_cells(text)) != len(self.names):
                    raise TacitError(f"{self.where}: line {line} has {count} values, line 1 has {len(self.names)}")
                yield line, text

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        import pandas as pd  # slow to import

        places = {self.names.index(name): name for name in columns}
        # An empty first record: pandas takes the number of cells from it, and not from the records of a user.
        empty, records = self.separator.join(['""'] * len(self.names)), self.records()
        while texts := [text for _, text in islice(records, rows)]:
            frame = pd.read_csv(
                StringIO("\n".join([empty, *texts, ""])),
                sep=self.separator,
                header=None,
                names=range(len(self.names)),
                usecols=sorted(places),  # also makes pandas ignore surplus cells
                index_col=False,
                dtype=object,
                na_filter=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                lineterminator="\n",
                engine="c",
            )
            if len(frame) != len(texts) + 1:
                raise self._malformed  # never seen: the splitter and pandas agree on what a record is
            yield frame.iloc[1:].rename(columns=places)[list(columns)]

    def locate(self, row: int) -> str:
        line, _ = next(islice(self.records(), row, None))
        return f"{self.where}: line {line}"

    def _detect(self) -> None:
        """Find the encoding from the byte order mark, and the end of lines from the header."""
        with self._binary() as file:
            start = file.read(4)
        self.encoding = next(
            (name for mark, name in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), self.encoding
        )
        with suppress(LookupError):
            if not _PLAIN_ENCODINGS.match(codecs.lookup(self.encoding).name):
                raise self._unknown_encoding
        with self._open(newline="") as text:
            if _OLD_LINE_ENDS.match(text.read(1 << 16)):
                self._newline = "\r"

    def _binary(self) -> gzip.GzipFile | BufferedReader:
        return gzip.open(self.path, "rb") if self.path.suffix == ".gz" else self.path.open("rb")

    def _open(self, newline: str | None = None) -> TextIO:
        errors, newline = "strict" if self.strict else "replace", self._newline if newline is None else newline
        file = self._binary()
        try:
            return TextIOWrapper(file, encoding=self.encoding, errors=errors, newline=newline)
        except LookupError:
            file.close()
            raise self._unknown_encoding from None

    @property
    def _unknown_encoding(self) -> TacitError:
        return TacitError(f'unknown encoding "{self.encoding}"; examples are "utf-8", "utf-16" and "cp1252"')

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn errors of libraries into one sentence; their messages can contain a part of the file."""
        try:
            yield
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise TacitError(f"{self.where} is damaged or not a gzip file") from None
        except ValueError:
            raise self._malformed from None

    @property
    def _malformed(self) -> TacitError:
        quotes = ", or it has a quoted cell that does not end" if self.multiline and not self.strict else ""
        return TacitError(f"{self.where} is not a {self.encoding.upper()} text file of comma-separated values{quotes}")


def _separator(first: list[str], columns: Collection[str]) -> str:
    def quality(separator: str) -> tuple[int, int]:
        cells = {cell.strip() for cell in _first_record(first, separator)[0]}
        return len(cells & set(columns)), len(cells)

    return max(SEPARATORS, key=quality)  # the first one, if several are equal


def _first_record(lines: list[str], separator: str) -> tuple[list[str], int]:
    """Return the cells of the first record, and the number of its lines."""
    splitter, text = RecordSplitter(separator), ""
    for count, line in enumerate(lines, 1):
        text += line.rstrip("\r\n").replace("\r", " ")
        if splitter.count_cells(text):
            try:
                return next(csv.reader([text], delimiter=separator, skipinitialspace=True)), count
            except csv.Error:  # a cell that is too long to be a name
                break
        text += "\n"
    return [], 0
