"""Compare the output that a page shows with the real one."""

import re
from collections.abc import Iterable

ANYTHING = "…"
_TOLERANCE = 0.03  # relative, or absolute below 1: processors and versions of libraries round differently
_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\d…])")
_EPSILON = re.compile(r"ε\s*(=|≥|≤|is|at least|of)?\s*(at least )?$")


def missing_line(shown: Iterable[str], output: str, *, ignore_numbers: bool = False) -> str | None:
    """Return the first shown line that is not in the output after those before it, or None.

    `…` stands for any text, and spaces do not count. ε and integers must be equal. Other numbers with a decimal point
    may differ by 3 %, unless `ignore_numbers`.
    """
    real = iter([_plain(line) for line in output.replace("\r", "\n").splitlines()])
    for line in shown:
        pattern = _plain(line)
        if pattern in ("", ANYTHING):
            continue
        if not any(_matches(pattern, each, ignore_numbers) for each in real):
            return line
    return None


def _plain(line: str) -> str:
    return " ".join(line.split())


def _matches(pattern: str, line: str, ignore_numbers: bool) -> bool:
    parts, numbers = [], []
    for literal, number in _split(pattern):
        parts.append(re.escape(literal).replace(ANYTHING, ".*"))
        if number is not None:
            parts.append(r"([\d.,eE+-]*\d)")
            numbers.append((number, bool(_EPSILON.search(literal))))
    found = re.fullmatch("".join(parts), line)
    if found is None:
        return False
    pairs = zip(numbers, found.groups(), strict=True)
    return ignore_numbers or all(_agree(shown, real, exact) for (shown, exact), real in pairs)


def _split(pattern: str) -> list[tuple[str, str | None]]:
    """The text before each number, with the number; at last the rest, with None."""
    pieces: list[tuple[str, str | None]] = []
    end = 0
    for number in _NUMBER.finditer(pattern):
        pieces.append((pattern[end : number.start()], number[0]))
        end = number.end()
    return [*pieces, (pattern[end:], None)]


def _agree(shown: str, real: str, exact: bool) -> bool:
    if shown == real:
        return True
    if exact or "." not in shown:
        return False
    try:
        a, b = (float(text.replace(",", "")) for text in (shown, real))
    except ValueError:
        return False
    return abs(a - b) <= _TOLERANCE * max(1.0, abs(a))
