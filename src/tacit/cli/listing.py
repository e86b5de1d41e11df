"""`tacit list`: everything that a config can name, and its parameters."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.app import app
from tacit.cli.output import print_json, print_line
from tacit.errors import unknown

if TYPE_CHECKING:
    from tacit.registry import Registry
    from tacit.runs import Recipe


@app.command("list")
def list_(
    name: Annotated[str | None, typer.Argument(help="Describe only this name, with its parameters.")] = None,
    support: Annotated[
        bool, typer.Option("--support", help="Show what is proven for each algorithm, or for the one that is named.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List algorithms, graphs, models, tasks, data, shardings, metrics and experiments, or describe one of them."""
    if support:
        from tacit.cli.support import print_support

        print_support(name, as_json)
        return
    from tacit.reference import REGISTRIES
    from tacit.reproduce import available_experiments, read_experiment
    from tacit.runs import RECIPES
    from tacit.runs.metrics import PredictionMetric, all_metrics, metrics, optional_metrics

    experiments = available_experiments()
    if name is not None and name in RECIPES:
        _recipe(RECIPES[name], as_json)
        return
    if name is not None:
        found = next((registry for registry in [*REGISTRIES.values(), metrics] if name in registry), None)
        if found is None and name not in experiments:
            raise unknown(
                "name", name, [*experiments, *RECIPES, *(each for registry in REGISTRIES.values() for each in registry)]
            )
        _one(name, found, read_experiment(experiments[name]).about if found is None else "", as_json)
        return
    kinds = {kind: registry.describe() for kind, registry in REGISTRIES.items()}
    predicted = [each.name for each in all_metrics() if isinstance(each, PredictionMetric)]
    kinds["metrics of predictions"] = {each: metrics.describe()[each] for each in predicted}
    kinds["optional metrics"] = {each: metrics.describe()[each] for each in optional_metrics()}
    kinds["recipes"] = {each: recipe.about for each, recipe in RECIPES.items()}
    kinds["experiments"] = {each: read_experiment(path).title for each, path in experiments.items()}
    if as_json:
        print_json(kinds)
        return
    width = max(len(each) for names in kinds.values() for each in names)
    for kind, names in kinds.items():
        print_line(f"{kind}:")
        for each, line in names.items():
            print_line(f"  {each:<{width}}  {line}")


def _recipe(recipe: Recipe, as_json: bool) -> None:
    """Print a recipe with its settings as TOML."""
    if as_json:
        print_json({"name": recipe.name, "about": recipe.about, **recipe.rules()})
        return
    import tomli_w

    print_line(f"{recipe.about}\n")
    print_line(tomli_w.dumps(recipe.rules()).rstrip())


def _one(name: str, registry: Registry[Any] | None, about: str, as_json: bool) -> None:
    """Print the description and the parameters, with their defaults."""
    from tacit.reference import part_keys

    options: dict[str, Any] = {}
    if registry is not None:
        about = (inspect.getdoc(registry[name]) or "").split("\n>>>")[0].strip()
        options = {key.name: key.default for key in part_keys(registry, name)}
    needed = [key for key, value in options.items() if value is inspect.Parameter.empty]
    defaults = {key: list(v) if isinstance(v, tuple) else v for key, v in options.items() if key not in needed}
    if as_json:
        print_json({"name": name, "about": about, "needed": needed, "defaults": defaults})
        return
    print_line(about)
    if options:
        print_line("\nparameters:")
    for key in options:
        unset = "required" if key in needed else "not set"
        print_line(f"  {key}: {unset}" if defaults.get(key) is None else f"  {key} = {json.dumps(defaults[key])}")
