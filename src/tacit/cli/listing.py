"""`tacit list`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tacit.cli.app import app, emit, out


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False) -> None:
    """Algorithms, graphs, models, data and shardings, a line each."""
    from tacit.algorithms import algorithms
    from tacit.graphs import graphs
    from tacit.registry import Registry
    from tacit.tasks import datasets, models, shards

    kinds: dict[str, Registry[Any]] = {
        "algorithms": algorithms,
        "graphs": graphs,
        "models": models,
        "data": datasets,
        "shardings": shards,
    }
    if as_json:
        emit({kind: registry.describe() for kind, registry in kinds.items()})
        return
    for kind, registry in kinds.items():
        table = Table(title=kind, title_justify="left", show_header=False, box=None, padding=(0, 2))
        for name, line in registry.describe().items():
            table.add_row(name, Text(line))
        out.print(table)
        out.print()
