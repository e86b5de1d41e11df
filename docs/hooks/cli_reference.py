"""The reference of the commands, from the Typer application."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_type_hints

import typer
from rich.markup import render

import tacit.cli
from tacit.cli.app import app
from tacit.reference import type_in_words

from markdown_text import code, literal, table, within


def cli_page() -> str:
    """Return every command with its arguments, options, defaults and help."""
    for module in pkgutil.iter_modules(tacit.cli.__path__):
        importlib.import_module(f"tacit.cli.{module.name}")  # each adds its command
    return "\n".join(_section(name, command) for name, command in commands(typer.main.get_command(app), "tacit"))


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its full name."""
    children = getattr(command, "commands", {})
    if not children:
        yield name, command
    for child in sorted(children):
        yield from commands(children[child], f"{name} {child}")


def _section(name: str, command: Any) -> str:
    parts = [f"## {name}\n", _plain(command.help or ""), f"\n```text\n{_usage(name, command)}\n```\n"]
    hints = get_type_hints(inspect.unwrap(command.callback))
    for title, kind in (("Argument", "argument"), ("Option", "option")):
        shown = [param for param in command.params if param.param_type_name == kind and not param.hidden]
        rows = [_row(param, hints.get(param.name)) for param in shown if param.name in hints]
        if rows:
            parts.append(within("keys", table([title, "Type", "Default", "Meaning"], rows)))
    return "\n".join(parts)


def _usage(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    words = [_argument(param) if param.required else f"[{_argument(param)}]" for param in arguments]
    return " ".join([name, "[OPTIONS]", *words])


def _argument(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _row(param: Any, hint: Any) -> list[str]:
    names = [_argument(param)] if param.param_type_name == "argument" else [*param.opts, *param.secondary_opts]
    default = "required" if param.required else _default(param.default)
    return [", ".join(map(code, names)), _kind(hint), default, _plain(param.help or "")]


def _kind(hint: Any) -> str:
    """The type of an option in words; a flag has none."""
    if hint is bool:
        return "flag"
    choices = [each for kind in (hint, *getattr(hint, "__args__", ())) if _is_enum(kind) for each in kind]
    return " or ".join(code(each.value) for each in choices) or type_in_words(hint)


def _is_enum(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, Enum)


def _default(value: Any) -> str:
    if value is None or value is False or value in ("", (), []):
        return "–"
    return code(str(value.value if isinstance(value, Enum) else value))


def _plain(text: str) -> str:
    """Help text without the markup of rich, as Markdown."""
    paragraphs = [" ".join(part.split()) for part in text.replace("\f", "").split("\n\n")]
    return "\n\n".join(literal(render(part).plain) for part in paragraphs)
