"""`tacit list`: everything that a config can name, and its parameters."""

from __future__ import annotations

import inspect
import json
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tacit.cli.app import app
from tacit.cli.output import print_json, print_line
from tacit.errors import unknown

if TYPE_CHECKING:
    from tacit.registry import Registry


@app.command("list")
def list_(
    name: Annotated[str | None, typer.Argument(help="Describe only this name, with its parameters.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List algorithms, graphs, models, tasks, data, shardings, metrics and experiments, or describe one of them."""
    from tacit.algorithms import algorithms
    from tacit.graph_learning import graph_methods
    from tacit.graphs import graphs
    from tacit.reproduce import available_experiments, read_experiment
    from tacit.runs.metrics import PredictionMetric, all_metrics, metrics, optional_metrics
    from tacit.tasks import datasets, heads, models, shards

    registries: dict[str, Registry[Any]] = {
        "algorithms": algorithms,
        "graph learners": graph_methods,
        "graphs": graphs,
        "models": models,
        "tasks": heads,
        "data": datasets,
        "shardings": shards,
    }
    experiments = available_experiments()
    if name is not None:
        found = next((registry for registry in [*registries.values(), metrics] if name in registry), None)
        if found is None and name not in experiments:
            raise unknown(
                "name", name, [*experiments, *(each for registry in registries.values() for each in registry)]
            )
        _one(name, found, read_experiment(experiments[name]).about if found is None else "", as_json)
        return
    kinds = {kind: registry.describe() for kind, registry in registries.items()}
    predicted = [each.name for each in all_metrics() if isinstance(each, PredictionMetric)]
    kinds["metrics of predictions"] = {each: metrics.describe()[each] for each in predicted}
    kinds["optional metrics"] = {each: metrics.describe()[each] for each in optional_metrics()}
    kinds["experiments"] = {each: read_experiment(path).title for each, path in experiments.items()}
    if as_json:
        print_json(kinds)
        return
    width = max(len(each) for names in kinds.values() for each in names)
    for kind, names in kinds.items():
        print_line(f"{kind}:")
        for each, line in names.items():
            print_line(f"  {each:<{width}}  {line}")


def _one(name: str, registry: Registry[Any] | None, about: str, as_json: bool) -> None:
    """Print the description and the parameters, with their defaults."""
    options: dict[str, Any] = {}
    if registry is not None:
        about = (inspect.getdoc(registry[name]) or "").split("\n>>>")[0].strip()
        options = _options(name, registry)
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


def _options(name: str, registry: Registry[Any]) -> dict[str, Any]:
    """The default of each key that a config may have beside `name`, including those of its section."""
    from tacit.graph_learning import CLIP_KEY, graph_methods
    from tacit.runs import ConfigSection, DropoutKeys, MixingKeys, RegularisationKeys, SharingKeys

    maker = registry[name]
    hints = get_type_hints(maker if is_dataclass(maker) or not inspect.isclass(maker) else maker.__init__)
    kind = maker if inspect.isclass(maker) else hints["return"]
    sections: dict[str, tuple[type[ConfigSection], ...]] = {
        "graph": (DropoutKeys,),
        "model": (RegularisationKeys,),
        "algorithm": (SharingKeys, MixingKeys),
    }
    keys = sections.get(registry.kind, ())
    more = {key: each.default for section in keys for key, each in section.model_fields.items()}
    unlike = [] if getattr(kind, "partial", True) else [*SharingKeys.model_fields]
    unlike += getattr(kind, "refused_options", ())
    if registry is graph_methods:
        more = {CLIP_KEY: None}
    own = {key: each.default for key, each in registry.options(name).items() if "ndarray" not in str(hints.get(key))}
    for field in fields(maker) if is_dataclass(maker) else ():
        if field.name in own and field.default_factory is not MISSING:
            own[field.name] = field.default_factory()
    whole = own | {key: value for key, value in more.items() if key not in own}
    return {key: value for key, value in whole.items() if key not in unlike}
