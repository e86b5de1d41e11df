"""The keys of configs as data: name, type, default and description, read from the code.

`tacit list NAME` and the reference pages of the documentation show them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tacit.algorithms import algorithms
from tacit.graph_learning import CLIP_KEY, graph_methods
from tacit.graphs import graphs
from tacit.registry import Registry
from tacit.runs import (
    Config,
    ConfigSection,
    DropoutKeys,
    FeatureKeys,
    MixingKeys,
    NamedPart,
    RegularisationKeys,
    SharingKeys,
)
from tacit.tasks import datasets, heads, models, shards

REQUIRED: Any = inspect.Parameter.empty
"""The default of a key that a config must set."""

REGISTRIES: dict[str, Registry[Any]] = {
    "algorithms": algorithms,
    "graph learners": graph_methods,
    "graphs": graphs,
    "models": models,
    "tasks": heads,
    "data": datasets,
    "shardings": shards,
}
"""Everything that a section of a config can name, by the heading under which `tacit list` shows it."""

_SECTION_KEYS: dict[str, tuple[type[ConfigSection], ...]] = {
    "data set": (FeatureKeys,),
    "graph": (DropoutKeys,),
    "model": (RegularisationKeys,),
    "algorithm": (SharingKeys, MixingKeys),
}
_CLIP_DESCRIPTION = "Largest norm of a signal's squared differences. Noise on them needs it."
_TYPE_NAMES = {str: "text", int: "integer", float: "number", bool: "true or false", Path: "path"}


@dataclass(frozen=True)
class Key:
    """A key of a config.

    Attributes:
        name: The key.
        kind: Its type in words, such as "number" or '"paper" or "code"'.
        default: Its default, `REQUIRED` if there is none. None means that it is not set.
        description: What it does.
    """

    name: str
    kind: str
    default: Any
    description: str


def config_sections() -> dict[str, list[Key]]:
    """Return the keys of a config by section; the section "" has the keys at the top of a file.

    >>> config_sections()["privacy"][1].name, config_sections()["privacy"][1].default
    ('delta', 1e-05)
    """
    sections: dict[str, list[Key]] = {"": []}
    for key in section_keys(Config):
        kind = Config.model_fields[key.name].annotation
        if inspect.isclass(kind) and issubclass(kind, ConfigSection):
            sections[key.name] = section_keys(kind)
        elif kind is not NamedPart:
            sections[""].append(key)
    return sections


def section_keys(section: type[BaseModel]) -> list[Key]:
    """Return the keys of one section, with the descriptions of its fields."""
    return [
        Key(name, type_in_words(field.annotation), _default(field), field.description or "")
        for name, field in section.model_fields.items()
    ]


def _default(field: FieldInfo) -> Any:
    default = field.get_default(call_default_factory=True)
    return REQUIRED if field.is_required() else default


def part_keys(registry: Registry[Any], name: str) -> list[Key]:
    """Return the keys that a config may set beside `name`, those of the section included.

    >>> [key.name for key in part_keys(graphs, "ring")]
    ['nodes', 'directed', 'lazy', 'drop_links', 'drop_nodes', 'drop_seed']
    """
    maker = registry[name]
    hints = get_type_hints(maker if is_dataclass(maker) or not inspect.isclass(maker) else maker.__init__)
    sections = _SECTION_KEYS.get(registry.kind, ())
    shared = {key.name: key for section in sections for key in section_keys(section)}
    if registry is graph_methods:
        shared = {CLIP_KEY: Key(CLIP_KEY, type_in_words(float), None, _CLIP_DESCRIPTION)}
    described = {key: shared[key].description for key in shared} | parameter_descriptions(registry, name)
    own = {
        key: Key(key, type_in_words(hints.get(key, Any)), _option_default(maker, option), described.get(key, ""))
        for key, option in registry.options(name).items()
        if "ndarray" not in str(hints.get(key))
    }
    made = maker if inspect.isclass(maker) else hints.get("return")
    refused = {*getattr(made, "refused_options", ())}
    refused |= set() if getattr(made, "partial", True) else {*SharingKeys.model_fields}
    return [
        key for key in (own | {k: v for k, v in shared.items() if k not in own}).values() if key.name not in refused
    ]


def parameter_descriptions(registry: Registry[Any], name: str) -> dict[str, str]:
    """Return the description of each parameter, from the `Args` or `Attributes` of the maker's docstring.

    The registry describes parameters that many parts have. A class also has the descriptions of its base classes. A
    docstring with "Parameters as in NAME" has those of NAME.
    """
    maker = registry[name]
    places = reversed(maker.__mro__) if inspect.isclass(maker) else [maker]
    found = dict(registry.common_parameters)
    for place in places:
        doc = inspect.cleandoc(place.__doc__ or "")
        if other := re.search(r"[Pp]arameters (?:are those of|as in) ([\w-]+)", doc):
            found |= parameter_descriptions(registry, other[1])
        found |= dict(_described_arguments(doc))
    return found


def _described_arguments(doc: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each entry under `Args` or `Attributes`, as Google style writes them."""
    for section in re.findall(r"^(?:Args|Attributes):\n((?:    .*\n|\n)*)", doc + "\n", re.MULTILINE):
        for entry in re.findall(r"^    (\w[\w, ]*): ((?:.*\n)(?:     .*\n|\n(?=     ))*)", section, re.MULTILINE):
            for key in entry[0].split(", "):
                yield key, " ".join(entry[1].split())


def _option_default(maker: Any, option: inspect.Parameter) -> Any:
    for field in fields(maker) if is_dataclass(maker) else ():
        if field.name == option.name and field.default_factory is not MISSING:
            return field.default_factory()
    return option.default


def type_in_words(hint: Any) -> str:
    """Return a type as a reader of a config calls it.

    >>> type_in_words(float | None), type_in_words(Literal["floor", "ceil"]), type_in_words(tuple[int, ...])
    ('number', '"floor" or "ceil"', 'list of integers')
    """
    origin, inner = get_origin(hint), [each for each in get_args(hint) if each is not type(None) and each is not ...]
    if origin is Annotated:
        return type_in_words(inner[0])
    if origin is Literal:
        return " or ".join(f'"{each}"' for each in inner)
    if origin in (Union, UnionType):
        words = [type_in_words(each) for each in inner if "ndarray" not in str(each)]
        return " or ".join(dict.fromkeys(words))
    kind = origin or hint
    if inspect.isclass(kind) and issubclass(kind, Mapping):
        return "table"
    if inspect.isclass(kind) and issubclass(kind, Sequence) and kind is not str:
        words = [type_in_words(each) for each in inner] or ["value"]
        return f"list of {' or '.join(dict.fromkeys(f'{word}s' if word.isalpha() else word for word in words))}"
    return _TYPE_NAMES.get(kind, "value")
