"""The fenced code blocks of a Markdown page, and the comments before them that control the test.

CONTRIBUTING.md describes how code blocks are written.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md", "notebooks/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

# Languages of blocks. A block with another language is only allowed if it has a title.
PYTHON, CONSOLE, TOML, TEXT = "python", "console", "toml", "text"
LANGUAGES = (PYTHON, CONSOLE, TOML, TEXT)

# Comments directly before a block: <!-- not run: REASON -->
RUN_INSTEAD, NOT_RUN, EXIT_CODE, OUTPUT = "run instead", "not run", "exit code", "output of the block above"
COMMENTS = (RUN_INSTEAD, NOT_RUN, EXIT_CODE, OUTPUT)

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})(?P<info>[^`]*)$")
_COMMENT = re.compile(rf"^\s*<!-- ({'|'.join(COMMENTS)})(?:: (.*))? -->\s*$")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_PROMPT = "$ "


class PageError(Exception):
    """A page does not follow the convention."""


@dataclass(frozen=True)
class Command:
    """A shell command of a console block, with the output that the page shows."""

    line: int
    text: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """A fenced code block. `line` is the line of its fence, from 1."""

    line: int
    language: str
    title: str | None
    lines: tuple[str, ...]
    comments: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The content, with a line break at its end."""
        return "".join(f"{line}\n" for line in self.lines)

    def commands(self) -> list[Command]:
        """The commands of a console block. A line that ends with a backslash continues in the next one."""
        commands: list[Command] = []
        text, start = "", 0
        for number, line in enumerate(self.lines, self.line + 1):
            if text:
                text += "\n" + line
            elif line.startswith(_PROMPT):
                text, start = line.removeprefix(_PROMPT), number
            elif commands:
                last = commands.pop()
                commands.append(Command(last.line, last.text, (*last.shown, line)))
            elif line.strip():
                raise PageError(f"line {number}: output before the first command; commands start with {_PROMPT!r}")
            if text and not line.endswith("\\"):
                commands.append(Command(start, text))
                text = ""
        if text:
            raise PageError(f"line {start}: the command ends with a backslash")
        return commands


def read_blocks(text: str) -> list[Block]:
    """Return all fenced blocks of a page, in their order."""
    return list(_blocks(text.splitlines()))


def _blocks(lines: list[str]) -> Iterator[Block]:
    comments: dict[str, str] = {}
    opened: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(lines, 1):
        if opened is not None:
            start, fence = opened
            if line.strip().startswith(fence["ticks"]) and not line.strip(" `~"):
                content = tuple(_dedent(each, len(fence["indent"])) for each in lines[start : number - 1])
                yield _block(start, fence["info"], content, comments)
                opened, comments = None, {}
        elif fence := _FENCE.match(line):
            opened = number, fence
        elif comment := _COMMENT.match(line):
            comments[comment[1]] = comment[2] or ""
        elif comments:
            raise PageError(f"line {number - 1}: a comment for the test must be directly before a block")
    if opened is not None:
        raise PageError(f"line {opened[0]}: the block does not end")


def _block(line: int, info: str, content: tuple[str, ...], comments: dict[str, str]) -> Block:
    language = info.split()[0] if info.strip() else ""
    return Block(line, language, dict(_ATTRIBUTE.findall(info)).get("title"), content, comments)


def _dedent(line: str, indent: int) -> str:
    return line[indent:] if not line[:indent].strip() else line
