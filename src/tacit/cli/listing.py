"""`tacit list`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.cli.app import app, emit, say


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Algorithms, graphs, models, data, shardings and experiments, a line each."""
    from tacit.algorithms import algorithms
    from tacit.graphs import graphs
    from tacit.registry import Registry
    from tacit.reproduce.files import available, read
    from tacit.tasks import datasets, models, shards

    registries: dict[str, Registry[Any]] = {
        "algorithms": algorithms,
        "graphs": graphs,
        "models": models,
        "data": datasets,
        "shardings": shards,
    }
    kinds = {kind: registry.describe() for kind, registry in registries.items()}
    kinds["experiments"] = {name: read(path).title for name, path in available().items()}
    if as_json:
        emit(kinds)
        return
    width = max(len(name) for names in kinds.values() for name in names)
    for kind, names in kinds.items():
        say(f"{kind}:")
        for name, line in names.items():
            say(f"  {name:<{width}}  {line}")
