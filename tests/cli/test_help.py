"""The help texts of the commands."""

import typer
from rich.markup import render

from tacit.cli.app import app


def test_no_help_text_contains_markup_by_mistake(tacit):
    """Text in square brackets is rich markup, and is not shown, unless it is escaped."""
    assert "[data.columns]" in tacit("inspect", "--help").out
    commands = typer.main.get_command(app).commands
    assert {"inspect", "network", "predict"} <= set(commands)
    every = [*commands.values(), *commands["network"].commands.values()]
    for command in every:
        texts = [command.help, *(getattr(param, "help", None) for param in command.params)]
        for text in filter(None, texts):
            assert render(text).plain == text.replace("\\[", "["), command.name


def test_export_names_its_default_file(tacit):
    shown = " ".join(tacit("export", "--help").out.replace("│", " ").split())
    assert "in the current folder, with the name of the run's folder" in shown
    assert "RUN.onnx" not in shown
