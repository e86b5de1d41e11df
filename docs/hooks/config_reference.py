"""The reference of configs: every section and key, and the parameters of every part that a section can name."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterable
from typing import Any

from tacit.algorithms import compressors
from tacit.reference import REGISTRIES, REQUIRED, Key, config_sections, part_keys, section_keys
from tacit.registry import Registry
from tacit.runs import PART_SECTIONS, Config
from tacit.sites import NetworkConfig, SiteConfig

from markdown_text import code, literal, table, within

_SECTIONS = {
    "algorithms": "algorithm",
    "graph learners": "algorithm",
    "graphs": "graph",
    "models": "model",
    "tasks": "task",
    "data": "data",
    "shardings": "sharding",
}  # the section of a config that names the members of a registry


def config_page() -> str:
    """Return the reference of configs, of network.toml and of node.toml."""
    parts = ["## Keys and sections\n"]
    for section, keys in config_sections().items():
        about = Config.model_fields[section].description if section else "keys at the top of the file"
        parts += [f"### {f'[{section}]' if section else 'Top level'}\n", _sentence(about or ""), "", _keys(keys)]
    parts += ["### Sections that name a part\n", _named_sections()]
    for kind, registry in REGISTRIES.items():
        parts += [f"## {kind.capitalize()}\n", _introduction(kind, registry), *_parts(registry)]
    parts += ["## Compressors\n", "`algorithm.compressor` of PORTER; `algorithm.compression` has their parameters.\n"]
    parts += _parts(compressors)
    parts += ["## network.toml\n", _sites_text(NetworkConfig), _keys(section_keys(NetworkConfig))]
    for name in ("data", "sites"):
        parts += [f"### [{name}] of network.toml\n", _keys(section_keys(_inner(NetworkConfig, name)))]
    parts += ["## node.toml\n", _sites_text(SiteConfig), _keys(section_keys(SiteConfig))]
    parts += ["### [certificates] of node.toml\n", _keys(section_keys(_inner(SiteConfig, "certificates")))]
    return "\n".join(parts)


def _named_sections() -> str:
    listed = {section: kind for kind, section in reversed(_SECTIONS.items())}
    rows = []
    for section in PART_SECTIONS:
        field = Config.model_fields[section]
        link = f"[{listed[section]}](#{listed[section]})"
        rows.append([code(f"[{section}]"), code(field.default.name), _sentence(field.description or ""), link])
    return table(["Section", "Default name", "Meaning", "Names and parameters"], rows)


def _introduction(kind: str, registry: Registry[Any]) -> str:
    section = _SECTIONS[kind]
    where = "network.toml of sites, and `tacit learn-graph --method`" if kind == "graph learners" else "a config"
    return f"`{section}.name` in {where}. {len(list(registry))} registered names.\n"


def _parts(registry: Registry[Any]) -> Iterable[str]:
    for name, about in registry.describe().items():
        keys = part_keys(registry, name)
        yield f"### {name}\n\n{literal(about)}\n"
        if keys:
            yield _keys(keys)


def _keys(keys: Iterable[Key]) -> str:
    rows = [[code(key.name), key.kind, default(key.default), _sentence(key.description)] for key in keys]
    return within("keys", table(["Key", "Type", "Default", "Meaning"], rows))


def default(value: Any) -> str:
    """Return a default as TOML writes it."""
    if value is REQUIRED:
        return "required"
    if value is None or value == () or value == {}:
        return "–"
    if isinstance(value, float) and math.isinf(value):
        return "unlimited"
    if hasattr(value, "model_dump"):
        return "see below"
    simple = list(value) if isinstance(value, tuple) else value
    return code(json.dumps(simple, ensure_ascii=False) if isinstance(simple, str | int | float | list) else str(simple))


def _sentence(text: str) -> str:
    plain = re.sub(r"docs/([\w-]+)\.md", r"see [\1](../\1.md)", literal(text))
    return plain[:1].upper() + plain[1:].rstrip(".") + "." if plain else ""


def _sites_text(section: type) -> str:
    return literal(" ".join((inspect.getdoc(section) or "").split(">>>")[0].split())) + "\n"


def _inner(section: Any, name: str) -> Any:
    """The section that a key of another one contains, or a list of which it contains."""
    kind = section.model_fields[name].annotation
    return next((each for each in getattr(kind, "__args__", ()) if hasattr(each, "model_fields")), kind)
