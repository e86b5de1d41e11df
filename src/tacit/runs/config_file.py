"""Config files: read, changed by `key=value` settings, and checked with errors that name the key."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from tacit.errors import TacitError, unknown
from tacit.registry import invalid
from tacit.runs.config_sections import DEFAULT_PARTS, PART_SECTIONS

M = TypeVar("M", bound=BaseModel)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        TacitError: The file cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except IsADirectoryError:
        inside = path / "config.toml"
        hint = f"; its config is {inside}" if inside.exists() else ""
        raise TacitError(f"{path} is a folder, not a config file{hint}") from None
    except OSError as error:
        raise TacitError(f"cannot read the config {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also a number with thousands of digits, or deep nesting
        raise TacitError(f"{path} is not valid TOML: {error}") from None


def apply_settings(data: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Return `data` with the settings "a.b=value"; without a value, the key is removed.

    A value that is not TOML is taken as a string. A new `name` for a section removes the section's other keys in
    `data`, which are parameters of the former part. Keys of other settings are not removed, whatever their order:
    whole sections come first, then names, then all other keys, and a table before the keys inside it.

    >>> apply_settings({"data": {"name": "digits", "limit": 99}}, ["data.path=x.csv", "data=csv"])
    {'data': {'name': 'csv', 'path': 'x.csv'}}
    """
    changes = [change for setting in settings for change in _changes(setting)]
    table = dict(data)
    for change in sorted(changes, key=lambda change: change.order):
        table = _apply(table, change)
    return table


def setting_value(text: str) -> Any:
    """Return the value that a text in a setting stands for. A text that is not TOML is a string.

    >>> setting_value("0.5"), setting_value("[64, 10]"), setting_value("ring")
    (0.5, [64, 10], 'ring')
    """
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def setting_texts(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the settings of a dict as `key=value`; None removes a key.

    >>> list(setting_texts({"rounds": 5, "algorithm": {"lr": 0.1}, "data": "digits", "measure": ["node_accuracy"]}))
    ['rounds=5', 'algorithm.lr=0.1', 'data="digits"', 'measure=["node_accuracy"]']
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from setting_texts(value, f"{prefix}{key}.")
            continue
        try:
            text = "" if value is None else json.dumps(value, ensure_ascii=False).replace("Infinity", "inf")
        except TypeError:
            raise TacitError(
                f"{prefix}{key} must be a number, a text or a list of them, got {type(value).__name__}"
            ) from None
        yield f"{prefix}{key}={text}"


class _Change(NamedTuple):
    """The new value of the key at `path`, from the text of a `setting`."""

    setting: str
    path: tuple[str, ...]
    value: Any

    @property
    def sets_name(self) -> bool:
        return len(self.path) == 2 and self.path[0] in PART_SECTIONS and self.path[1] == "name"

    @property
    def order(self) -> tuple[int, int]:
        return 0 if len(self.path) == 1 else 1 if self.sets_name else 2, len(self.path)


def _changes(setting: str) -> Iterator[_Change]:
    """Yield the changes that a setting makes. A table for a part is split into its keys."""
    key, equals, text = (part.strip() for part in setting.partition("="))
    if not equals or not key:
        raise TacitError(f'a setting must be key=value, such as rounds=100 or algorithm.lr=0.1, got "{setting}"')
    value = setting_value(text)
    path = _path(key)
    if len(path) == 1 and path[0] in PART_SECTIONS and isinstance(value, str):
        path = (*path, "name")
    if len(path) == 1 and path[0] in PART_SECTIONS and isinstance(value, Mapping):
        yield _Change(setting, path, {})
        yield from (_Change(setting, (*path, name), part) for name, part in value.items())
    else:
        yield _Change(setting, path, value)


def _path(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, of which some may be quoted as in TOML."""
    try:
        table: Any = tomllib.loads(f"{key} = 0")
    except (ValueError, RecursionError):
        return tuple(key.split("."))
    path = []
    while isinstance(table, Mapping):
        ((name, table),) = table.items()
        path.append(name)
    return tuple(path)


def _apply(data: Mapping[str, Any], change: _Change) -> dict[str, Any]:
    kind = change.path[0]
    section = data.get(kind)
    if kind in PART_SECTIONS and section is not None:
        section = {"name": section} if isinstance(section, str) else section
        if change.sets_name and isinstance(section, Mapping):
            section = _of_part(section, kind, change.value)
        data = {**data, kind: section}
    return _with_key(data, change.path, change)


def _of_part(section: Mapping[str, Any], kind: str, name: str) -> dict[str, Any]:
    """Return the keys of a section that remain if its part becomes `name`."""
    same = section.get("name", DEFAULT_PARTS[kind].name) == name
    return {key: value for key, value in section.items() if same or key == "nodes"}


def _with_key(table: Mapping[str, Any], path: Sequence[str], change: _Change) -> dict[str, Any]:
    key, *inner = path
    if inner:
        section = table.get(key, {})
        if not isinstance(section, Mapping):
            raise TacitError(f'setting {change.setting}: "{key}" is not a section')
        return {**table, key: _with_key(section, inner, change)}
    others = {name: old for name, old in table.items() if name != key}
    return others if change.value == "" else {**others, key: change.value}


def validate_section(section: type[M], data: Mapping[str, Any], where: str) -> M:
    """Return `data` as a `section`; `where` names the data in errors.

    Raises:
        TacitError: About the first key or value that is not accepted.
    """
    try:
        return section.model_validate(data)
    except ValidationError as error:
        raise _first_error(error, where, section) from None


def _first_error(error: ValidationError, where: str, fields: type[BaseModel]) -> TacitError:
    errors = error.errors()
    # A misspelt key is also reported as a missing one: the unknown key is the better message.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        within = [part for part in first["loc"][:-1] if isinstance(part, str)]  # without indices into lists
        for part in within:
            kind: Any = fields.model_fields[part].annotation
            fields = (get_args(kind) or (kind,))[0]
        section = f" [{'.'.join(within)}] in" if within else ""
        return unknown(f"key of{section} {where}", path[-1], fields.model_fields)
    if first["type"] == "model_type":
        return TacitError(f"{where}: {path[0]} = {first['input']!r} should be a section of keys and values")
    return invalid(where, error)
