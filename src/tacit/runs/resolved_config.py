"""The config of a run with every default filled in: what was run, not only what was written."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import Any

from torch import nn

from tacit.algorithms import Algorithm, MixingOptions, algorithms, compressors
from tacit.graphs import Graph, graphs
from tacit.privacy import Relation, SamplingKind, sampling_kinds
from tacit.registry import Registry
from tacit.runs.config import Config
from tacit.runs.config_sections import AUTO, DropoutKeys, RegularisationKeys, with_part_defaults
from tacit.runs.parts import UserParts, build_algorithm
from tacit.tasks import Dataset, Head, Model, datasets, heads, models, shards

_EVALUATIONS = 20  # about so many, unless evaluate_every is set
PART_REGISTRIES: dict[str, Registry[Any]] = {
    "data": datasets,
    "sharding": shards,
    "task": heads,
    "model": models,
    "graph": graphs,
    "algorithm": algorithms,
}


def evaluation_interval(rounds: int) -> int:
    """The rounds between two evaluations, unless the config sets them."""
    return max(1, rounds // _EVALUATIONS)


def resolved_config(config: Config, parts: UserParts | None = None) -> Config:
    """Return the config with the defaults of all its parts. It describes the same run.

    Values that depend on other keys are filled in, too: the seed of the sharding, the neighbouring relation, the
    budget and the interval of evaluations. A noise parameter that a target ε sets has no value and is left out. Of a
    part given as a Python object, its simple attributes are filled in; such a config cannot be run again by itself.
    """
    parts = parts or UserParts()
    table = config.as_dict()
    table["evaluate_every"] = config.evaluate_every or evaluation_interval(config.rounds)
    for kind, registry in PART_REGISTRIES.items():
        part = getattr(parts, kind)
        if part is None and table[kind]["name"] == AUTO:
            continue
        known = part_defaults(registry, table[kind]["name"]) if part is None else _attributes(part)
        table[kind] = {**known, **table[kind]}
    if parts.sharding is None and "seed" in shards.options(config.sharding.name):
        table["sharding"] = {**table["sharding"], "seed": config.sharding.parameters.get("seed", config.seed)}
    if parts.graph is None:
        complete = with_part_defaults("graph", table["graph"], load_files=True)
        table["graph"] = {**DropoutKeys().model_dump(), **complete}
    if parts.model is None:
        table["model"] = {**RegularisationKeys().model_dump(), **table["model"]}
    if parts.algorithm is None:
        table["algorithm"] = _algorithm_table(config, table["algorithm"])
    table["batch"] = {**table["batch"], "relation": _relation(config)}
    if config.privacy.epsilon is not None and config.privacy.calibration == "guaranteed":
        table["privacy"] = {"budget": config.privacy.epsilon, **table["privacy"]}
    return Config.parse(table)


def part_defaults(registry: Registry[Any], name: str) -> dict[str, Any]:
    """The parameters of a registered part that have a default, with it; those whose default is None are left out."""
    maker = registry[name]
    made = {f.name: f.default_factory for f in fields(maker)} if is_dataclass(maker) else {}
    values = {
        key: factory() if (factory := made.get(key, MISSING)) is not MISSING else option.default
        for key, option in registry.options(name).items()
        if option.default is not inspect.Parameter.empty
    }
    return {key: _listed(value) for key, value in values.items() if _is_plain(value)}


def _algorithm_table(config: Config, table: dict[str, Any]) -> dict[str, Any]:
    algorithm = build_algorithm(config.algorithm)
    if config.privacy.epsilon is not None:
        noise = set(algorithms.noise_parameters(config.algorithm.name)) - set(config.algorithm.parameters)
        table = {key: value for key, value in table.items() if key not in noise}
    if algorithm.partial:
        table = {**table, "local": algorithm.local}
    own = algorithms.parameters(config.algorithm.name)
    mixing = {key: value for key, value in asdict(algorithm.mixing).items() if key not in own}
    # Without an option they are left out, so that a run of an earlier version has the same config.
    table = {key: value for key, value in table.items() if key not in mixing}
    table |= mixing if algorithm.mixing.used else {}
    if isinstance(compressor := table.get("compressor"), str):
        table = {**table, "compression": {**part_defaults(compressors, compressor), **table.get("compression", {})}}
    return table


def _relation(config: Config) -> Relation:
    """The relation in use: by default, the first that the sampling can be accounted for."""
    scheme = sampling_kinds.registered("none" if config.batch.size is None else config.batch.sampling)
    assert isinstance(scheme, type)
    assert issubclass(scheme, SamplingKind)
    return config.batch.relation or scheme.relations[0]


def _attributes(part: object) -> dict[str, Any]:
    """What is known about a part that was given as an object."""
    if isinstance(part, Dataset):
        return {"records": len(part.y), "inputs": list(part.inputs), "classes": part.classes}
    if isinstance(part, Graph):
        return {"nodes": part.nodes}
    if isinstance(part, Model):
        return {"parameters": part.d, "shared": part.shared}
    if isinstance(part, nn.Module):
        return {"parameters": sum(tensor.numel() for tensor in part.parameters())}
    if isinstance(part, Algorithm | Head) and is_dataclass(part):
        hidden = {"name", "rounds", "target", "preparation"} | (
            {"mixing"} if getattr(part, "mixing", None) == MixingOptions() else set()
        )
        values = {f.name: getattr(part, f.name) for f in fields(part) if f.name not in hidden}
        shown = {key: repr(value) if is_dataclass(value) else value for key, value in values.items()}
        return {key: _listed(value) for key, value in shown.items() if _is_plain(value)}
    return {}


def _is_plain(value: object) -> bool:
    """Whether TOML can represent the value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(part) for part in value)
    return isinstance(value, bool | int | float | str)


def _listed(value: Any) -> Any:
    """Tuples as lists, which is how a TOML file returns them."""
    return [_listed(part) for part in value] if isinstance(value, list | tuple) else value
