"""The records of a csv file as texts, one per record.

Privacy:
    By default every line is one record, whatever it contains: a damaged line cannot change another record. A quoted
    cell that does not end on its line is a damaged one, whose quotes are ignored.

    A quoted cell can also contain line breaks. Then a line alone does not show where its record ends, so this has to be
    declared (`multiline`). Every record of a well-formed file, as csv writers write it, is then one record, whatever
    its cells contain. A file whose last quoted cell does not end is not well-formed, and is refused.

    An empty line is a record without cells, except at the end of the file.
"""

import re
from collections.abc import Iterable, Iterator

_EMPTY_CELL = '""'
_END_OF_CELL = re.compile(r'[^"]*+(?:""[^"]*+)*+"')


class RecordSplitter:
    """Splits the lines of a csv file into records.

    >>> lines = ["1,no", '2,"a', 'b"', "4,yes", ""]
    >>> list(RecordSplitter(",").records(lines))
    [(2, '1,no'), (3, '2,a'), (4, 'b"'), (5, '4,yes')]
    >>> list(RecordSplitter(",", multiline=True).records(lines))
    [(2, '1,no'), (3, '2,"a\\nb"'), (5, '4,yes')]
    """

    def __init__(self, separator: str, multiline: bool = False) -> None:
        """Create a splitter for records with a `separator` between cells; `multiline` if cells can have line breaks."""
        sep = re.escape(separator)
        self._separator, self._multiline = separator, multiline
        quoted = r'"[^"]*+(?:""[^"]*+)*+"'
        cell = rf' *+(?:{quoted}[^{sep}\n]*+|[^"{sep}\n][^{sep}\n]*+|)'
        self._closed = re.compile(rf"{cell}(?:{sep}{cell})*+")
        strict = rf' *+(?:{quoted} *+|[^"{sep}\n]*+)'
        self._well_formed = re.compile(rf"{strict}(?:{sep}{strict})*+")
        self._open = re.compile(rf'(?:{strict}{sep})*+ *+"[^"]*+(?:""[^"]*+)*+')  # ends inside of a quoted cell
        self._quoted = re.compile(rf"(^|{sep}) *{quoted}")

    def count_cells(self, text: str) -> int:
        """Return the number of cells of a record; 0 if a quoted cell does not end.

        >>> splitter = RecordSplitter(",")
        >>> splitter.count_cells('1,"a,b",5" pipe'), splitter.count_cells('1,"a,b')
        (3, 0)
        """
        if not self._is_closed(text):
            return 0
        return self._quoted.sub(r"\1", text).count(self._separator) + 1

    def records(self, lines: Iterable[str], first: int = 2) -> Iterator[tuple[int, str]]:
        """Yield the number of the first line and the text of each record.

        Args:
            lines: The lines after the header.
            first: The number of the first line.

        Raises:
            ValueError: With `multiline`, a quoted cell does not end.
        """
        numbered = enumerate(lines, first)
        empty: list[int] = []
        for number, line in numbered:
            text = _clean(line)
            if not text.strip(" "):
                empty.append(number)
                continue
            yield from ((skipped, _EMPTY_CELL) for skipped in empty)
            empty.clear()
            if self._is_closed(text):
                yield number, text
            elif self._multiline:
                yield number, self._join(text, numbered)
            else:
                yield number, text.replace('"', "")

    def _is_closed(self, text: str) -> bool:
        """Return whether every quoted cell ends."""
        return '"' not in text or self._closed.fullmatch(text) is not None

    def _join(self, text: str, following: Iterator[tuple[int, str]]) -> str:
        """Return a record that starts with `text`, with the following lines up to the end of its last quoted cell."""
        if not self._open.fullmatch(text):
            raise ValueError("a quoted cell is followed by other text")
        lines = [text]
        for _, line in following:
            lines.append(_clean(line))
            end = _END_OF_CELL.match(lines[-1])
            rest = None if end is None else lines[-1][end.end() :].lstrip(" ")
            if rest is None or (rest[:1] == self._separator and self._open.fullmatch(rest[1:])):
                continue  # the record is still inside of a quoted cell
            if not rest or (rest[0] == self._separator and self._well_formed.fullmatch(rest[1:])):
                return "\n".join(lines)
            raise ValueError("a quoted cell is followed by other text")
        raise ValueError("a quoted cell does not end")


def _clean(line: str) -> str:
    """Return a line without its end. Only the end of a line separates records, so other line breaks are spaces."""
    return line.rstrip("\r\n").replace("\r", " ").replace("\n", " ")
