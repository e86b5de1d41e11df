"""What commands print: results on standard output, progress and messages on standard error."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

err = Console(stderr=True)
_out = Console()


def print_line(line: str) -> None:
    """Print one line on standard output, unchanged. Only a terminal wraps it."""
    _out.print(line, highlight=False, markup=False, soft_wrap=True, emoji=False)


def results_line(folder: Path, page: Path | None) -> str:
    """The line that names the folder of the results and its page; `page` is None if no page was written.

    >>> results_line(Path("runs/a"), Path("runs/a/report.html")), results_line(Path("runs/a"), None)
    ('Results: runs/a. Report: runs/a/report.html', 'Results: runs/a')
    """
    return f"Results: {folder}" + ("" if page is None else f". Report: {page}")


def print_warning(text: str) -> None:
    """Print a warning on standard error."""
    err.print(f"warning: {text}", style="yellow", highlight=False, soft_wrap=True, markup=False, emoji=False)


@contextmanager
def show_preparation(what: str) -> Iterator[None]:
    """Show that something is prepared, and print what reading a table reports, such as the memory that it needs."""
    log, handler = logging.getLogger("tacit.tasks.data"), _ErrHandler()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with err.status(what):
            yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


class _ErrHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        err.print(record.getMessage(), highlight=False, markup=False, soft_wrap=True, emoji=False)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def aligned_table(markdown: str) -> str:
    """A Markdown table as text with aligned columns.

    >>> print(aligned_table("| a | bcd |\\n| --- | --- |\\n| 12 | 3 |"))
    a   bcd
    12  3
    """
    lines = [line.strip("| ").split(" | ") for line in markdown.splitlines()]
    rows = lines[:1] + lines[2:]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
