"""Parse a `tacit` command without running it: the command, its options and its arguments must exist."""

import importlib
import pkgutil
import shlex

import typer

from tacit import cli
from tacit.cli.app import app


def wrong_options(command: str) -> str | None:
    """Return what is wrong with a command line, or None. Commands other than `tacit` are not checked."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    if not words or words[0] != "tacit":
        return None
    try:
        _parse(words[1:])
    except Exception as error:  # typer's classes of errors depend on its version
        return error.format_message() if hasattr(error, "format_message") else str(error)
    return None


def _parse(words: list[str]) -> None:
    for module in pkgutil.iter_modules(cli.__path__):  # each adds its command
        importlib.import_module(f"tacit.cli.{module.name}")
    command = typer.main.get_command(app)
    context = command.make_context("tacit", words)
    while hasattr(command, "commands"):
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
