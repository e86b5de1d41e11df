"""Small helpers that write Markdown."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(cell(each) for each in row)} |" for row in rows)]) + "\n"


def within(name: str, text: str) -> str:
    """Return Markdown in a block with a class, for the style sheet."""
    return f'<div class="{name}" markdown>\n\n{text}\n</div>\n'


def cell(text: str) -> str:
    """Return text as it can stand in a cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Return text as code, in a cell or elsewhere."""
    return f"<code>{html.escape(text, quote=False)}</code>".replace("*", "&#42;").replace("_", "&#95;")


def literal(text: str) -> str:
    """Return text in which Markdown and HTML have no meaning, except for code in backticks."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner
        return html.escape(text, quote=False)
    escaped = [part if k % 2 else _escaped(part) for k, part in enumerate(parts)]
    return "`".join(escaped)


def _escaped(text: str) -> str:
    plain = html.escape(text, quote=False)
    return "".join(f"\\{sign}" if sign in "*_[]" else sign for sign in plain)
