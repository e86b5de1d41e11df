"""`tacit list`: what there is to choose from, and what each takes."""

from __future__ import annotations

import inspect
import json
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import app, emit, say
from tacit.errors import unknown

if TYPE_CHECKING:
    from tacit.registry import Registry


@app.command("list")
def list_(
    name: Annotated[str | None, typer.Argument(help="One of them: what it is and what it takes.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Algorithms, graphs, models, data, shardings and experiments, a line each; or one of them in full."""
    from tacit.algorithms import algorithms
    from tacit.graphs import graphs
    from tacit.reproduce.files import available, read
    from tacit.sites.signals import graph_methods
    from tacit.tasks import datasets, models, shards

    registries: dict[str, Registry[Any]] = {
        "algorithms": algorithms,
        "graph learners": graph_methods,
        "graphs": graphs,
        "models": models,
        "data": datasets,
        "shardings": shards,
    }
    kinds = {kind: registry.describe() for kind, registry in registries.items()}
    kinds["experiments"] = {each: read(path).title for each, path in available().items()}
    if name is not None:
        found = next((registry for kind, registry in registries.items() if name in kinds[kind]), None)
        if found is None and name not in kinds["experiments"]:
            raise unknown("name", name, [each for names in kinds.values() for each in names])
        _one(name, found, read(available()[name]).about if found is None else "", as_json)
    elif as_json:
        emit(kinds)
    else:
        width = max(len(each) for names in kinds.values() for each in names)
        for kind, names in kinds.items():
            say(f"{kind}:")
            for each, line in names.items():
                say(f"  {each:<{width}}  {line}")


def _one(name: str, registry: Registry[Any] | None, about: str, as_json: bool) -> None:
    """What a thing is, and its parameters with their defaults, as a config sets them."""
    if registry is None:
        text, maker, options = about, None, {}
    else:
        text, maker = (inspect.getdoc(registry[name]) or "").split("\n>>>")[0].strip(), registry[name]
        options = {key: each.default for key, each in registry.options(name).items()}
    needed = [key for key, value in options.items() if value is inspect.Parameter.empty]
    defaults = {key: _plain(maker, key, value) for key, value in options.items() if key not in needed}
    if as_json:
        emit({"name": name, "about": text, "needed": needed, "defaults": defaults})
        return
    say(text)
    if options:
        say("\nparameters:")
    for key in options:
        unset = "must be given" if key in needed else "not set"
        say(f"  {key}: {unset}" if defaults.get(key) is None else f"  {key} = {json.dumps(defaults[key])}")


def _plain(maker: Any, key: str, value: Any) -> Any:
    """A default as TOML and JSON have it; a field of a dataclass may have one that is made anew each time."""
    if is_dataclass(maker):
        made = {field.name: field.default_factory for field in fields(maker)}.get(key, MISSING)
        value = value if made is MISSING else made()
    return list(value) if isinstance(value, tuple) else value
