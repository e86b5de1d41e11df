"""`tacit init` and `tacit schema`: a config to start from, and the JSON Schema of configs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.app import app
from tacit.cli.output import print_json, print_line
from tacit.errors import TacitError


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="The file to create.")] = Path("tacit.toml"),
) -> None:
    """Create a config with every section, its defaults and comments."""
    from tacit.runs import config_template

    text = config_template(str(file))
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise TacitError(f"{file} already exists: choose another name, or delete it first") from None
    print_line(f"Created {file}. To train: tacit train {file}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of configs, with which editors complete and check them."""
    from tacit.runs import config_schema

    print_json(config_schema())
