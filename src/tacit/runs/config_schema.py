"""The JSON Schema of configs, with which editors complete and check them."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from tacit.privacy import sampling_kinds
from tacit.runs.config import Config
from tacit.runs.config_batch import ALL_RECORDS
from tacit.runs.config_sections import (
    AUTO,
    PART_SECTIONS,
    ConfigSection,
    DropoutKeys,
    FeatureKeys,
    MixingKeys,
    RegularisationKeys,
    SharingKeys,
)
from tacit.runs.metrics import optional_metrics
from tacit.runs.resolved_config import PART_REGISTRIES

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SHARED_KEYS: dict[str, tuple[type[ConfigSection], ...]] = {
    "data": (FeatureKeys,),
    "graph": (DropoutKeys,),
    "model": (RegularisationKeys,),
    "algorithm": (SharingKeys, MixingKeys),
}


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of a config.

    It contains the registered names of all parts, and the names of their parameters. The values of parameters are
    checked only by a run. Every config of a possible run is valid.

    >>> config_schema()["properties"]["rounds"]["minimum"]
    1
    """
    schema = _for_toml(Config.model_json_schema())
    for kind in PART_SECTIONS:
        schema["properties"][kind] = _part(kind, schema["properties"][kind]["description"])
    del schema["$defs"]["NamedPart"]
    batch = schema["$defs"]["Batch"]["properties"]
    batch["size"] = {
        **{key: batch["size"][key] for key in ("default", "description")},
        "anyOf": [{"type": "integer", "minimum": 1}, {"const": ALL_RECORDS}],
    }
    batch["sampling"]["enum"] = [kind for kind in sampling_kinds if kind != "none"]
    schema["properties"]["measure"]["items"]["enum"] = list(optional_metrics())
    return {"$schema": _DIALECT, **schema, "title": "Tacit config"}


def _part(kind: str, description: str) -> dict[str, Any]:
    """The schema of a section that names a part: its name alone, or a table."""
    registry = PART_REGISTRIES[kind]
    names = [*([AUTO] if kind == "task" else []), *registry]
    name = {
        "description": "A registered name, or your own: path/to/file.py:Name",
        "anyOf": [{"enum": names}, {"type": "string", "pattern": r"\.py:"}],
    }
    users: dict[str, list[str]] = defaultdict(list)
    for part in registry:
        for key in registry.options(part):
            users[key].append(part)
    parameters: dict[str, Any] = {
        key: {"description": f"Parameter of {', '.join(parts)}"} for key, parts in users.items()
    }
    shared: dict[str, Any] = {}
    for keys in _SHARED_KEYS.get(kind, ()):
        shared |= _for_toml(keys.model_json_schema())["properties"]
    table = {"type": "object", "properties": {**parameters, **shared, "name": name}}
    return {"description": description, "anyOf": [name, table]}


def _for_toml(schema: Any) -> Any:
    """Leave out what TOML or JSON cannot contain (null, infinity), titles, and all but the first line of descriptions.

    The default of a whole section is left out, too: its keys have their own.
    """
    if isinstance(schema, list):
        return [_for_toml(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    choices = [part for part in schema.get("anyOf", []) if part != {"type": "null"}]
    if len(choices) == 1:
        schema = {**{key: value for key, value in schema.items() if key != "anyOf"}, **choices[0]}
    kept = {key: value for key, value in schema.items() if not (key == "default" and _is_omitted(value))}
    if isinstance(kept.get("title"), str):
        del kept["title"]
    if isinstance(kept.get("description"), str):
        kept["description"] = kept["description"].split("\n")[0]
    return {key: _for_toml(value) for key, value in kept.items()}


def _is_omitted(default: Any) -> bool:
    return default is None or isinstance(default, dict) or (isinstance(default, float) and math.isinf(default))
