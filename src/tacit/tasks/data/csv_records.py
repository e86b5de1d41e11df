"""The records of a csv file as texts, one per record.

Privacy:
    A damaged line must not change other records. A quoted cell can contain line breaks, so a quote that is not closed
    could take the following lines with it. Lines are joined to one record only if the joined text has at least as many
    cells as the header, and no line after the first is by itself a record with so many cells. Otherwise the quotes of
    the line are ignored, and the line is one record. If no cell of the other records has a line break, every line is
    one record, whatever one of them contains.

    An empty line is a record without cells, except at the end of the file.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator

_MAX_LINES = 1000  # of one record
_EMPTY_CELL = '""'


class RecordSplitter:
    """Splits the lines of a csv file into records.

    >>> lines = ["1,no", '2,"a', 'b"', '3,"x', "4,yes", ""]
    >>> list(RecordSplitter(",", width=2).records(lines))
    [(2, '1,no'), (3, '2,"a\\nb"'), (5, '3,x'), (6, '4,yes')]
    """

    def __init__(self, separator: str, width: int) -> None:
        """Create a splitter for records that have `width` cells, with a `separator` between them."""
        sep = re.escape(separator)
        self._separator, self._width = separator, width
        quoted = r'"[^"]*+(?:""[^"]*+)*+"'
        cell = rf' *+(?:{quoted}[^{sep}\n]*+|[^"{sep}\n][^{sep}\n]*+|)'
        self._closed = re.compile(rf"{cell}(?:{sep}{cell})*+")
        self._quoted = re.compile(rf"(^|{sep}) *{quoted}")

    def count_cells(self, text: str) -> int:
        """Return the number of cells of a record; 0 if a quoted cell does not end.

        >>> splitter = RecordSplitter(",", 2)
        >>> splitter.count_cells('1,"a,b",5" pipe'), splitter.count_cells('1,"a,b')
        (3, 0)
        """
        if not self._is_closed(text):
            return 0
        return self._quoted.sub(r"\1", text).count(self._separator) + 1

    def records(self, lines: Iterable[str], first: int = 2, strict: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the number of the first line and the text of each record.

        Args:
            lines: The lines after the header.
            first: The number of the first line.
            strict: Raise ValueError for a quoted cell that does not end.
        """
        source = iter(lines)
        ahead: deque[str] = deque()
        empty, number = 0, first
        while ahead or (line := next(source, None)) is not None:
            text = _clean(ahead.popleft() if ahead else line or "")
            number += 1
            if not text.strip(" "):
                empty += 1
                continue
            yield from ((number - 1 - back, _EMPTY_CELL) for back in range(empty, 0, -1))
            empty = 0
            if self._is_closed(text):
                yield number - 1, text
                continue
            joined = self._join(text, source, ahead)
            if not joined and strict:
                raise ValueError("a quoted cell does not end")
            yield number - 1, "\n".join([text, *joined]) if joined else text.replace('"', "")
            number += len(joined)

    def _is_closed(self, text: str) -> bool:
        """Return whether every quoted cell ends."""
        return '"' not in text or self._closed.fullmatch(text) is not None

    def _join(self, text: str, source: Iterator[str], ahead: deque[str]) -> list[str]:
        """Return the lines that belong to the record that starts with `text`, and take them out of `ahead`."""
        joined: list[str] = []
        for count in range(1, _MAX_LINES):
            if len(ahead) < count:
                if (line := next(source, None)) is None:
                    break
                ahead.append(line)
            line = _clean(ahead[count - 1])
            joined.append(line)
            if self.count_cells(line) >= self._width > 1:
                break
            if '"' in line and (cells := self.count_cells("\n".join([text, *joined]))):
                if cells < self._width:
                    break
                for _ in range(count):
                    ahead.popleft()
                return joined
        return []


def _clean(line: str) -> str:
    """Return a line without its end. Only the end of a line separates records, so other carriage returns are spaces."""
    line = line.rstrip("\r\n")
    return line.replace("\r", " ") if "\r" in line else line
