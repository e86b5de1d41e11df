"""A config to start from, with every section, every key and its default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tomli_w
from pydantic.fields import FieldInfo

from tacit.runs.config import EXAMPLE_CONFIG, Config
from tacit.runs.config_sections import (
    ConfigSection,
    DropoutKeys,
    FeatureKeys,
    MixingKeys,
    RegularisationKeys,
    SharingKeys,
)
from tacit.runs.resolved_config import resolved_config

_HEADER = """\
# A config of Tacit. Train with it: tacit train {file}
# Every section is here. A key behind a # has this default, or is an example: remove the # to set it.
# `tacit list` shows all names of parts, and `tacit list NAME` their parameters.
"""
_COMMENT_COLUMN = 40


def config_template(file: str) -> str:
    """Return the embedded example as a config with comments; `file` is the name of the file to create.

    Values that depend on others, such as the budget, and the defaults of parts are comments: a config in which
    somebody changes ε or the name of the model stays valid.
    """
    config = Config.parse({key: value for key, value in EXAMPLE_CONFIG.items() if key != "name"})
    written, complete = config.as_dict(), resolved_config(config).as_dict()
    lines = [_HEADER.format(file=file)]
    lines += _keys({**_examples(Config), **complete}, written, Config.model_fields)
    for section, field in Config.model_fields.items():
        if not isinstance(complete.get(section), Mapping):
            continue
        lines += ["", f"[{section}]".ljust(_COMMENT_COLUMN) + f"  # {field.description}"]
        kind = field.annotation
        own = kind if isinstance(kind, type) and issubclass(kind, ConfigSection) else None
        examples = {} if own is None else _examples(own)
        described = _part_fields() if own is None else own.model_fields
        others = _defaults(MixingKeys) if section == "algorithm" else {}
        lines += _keys({**examples, **complete[section], **others}, written[section], described)
    return "\n".join(lines) + "\n"


def _examples(section: type[ConfigSection]) -> dict[str, Any]:
    """The keys of a section with an example, or else their default, in its order."""
    return {name: (field.examples or [field.default])[0] for name, field in section.model_fields.items()}


def _defaults(section: type[ConfigSection]) -> dict[str, Any]:
    return {name: field.default for name, field in section.model_fields.items()}


def _part_fields() -> dict[str, FieldInfo]:
    sections: tuple[type[ConfigSection], ...] = (DropoutKeys, FeatureKeys, RegularisationKeys, SharingKeys, MixingKeys)
    return {name: field for section in sections for name, field in section.model_fields.items()}


def _keys(table: Mapping[str, Any], written: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    """Yield one line per key. A key that is not `written` is a comment."""
    for key, value in table.items():
        if value is None or (key in Config.model_fields and isinstance(value, Mapping)):
            continue
        line = ("" if key in written else "# ") + _line(key, value)
        about = fields[key].description if key in fields else None
        yield line if about is None else f"{line:<{_COMMENT_COLUMN}}  # {about}"


def _line(key: str, value: Any) -> str:
    """
    >>> _line("augment", ("flip", "shift")), _line("shares", {"mean": 0.1, "gradients": 0.9})
    ('augment = ["flip", "shift"]', 'shares = { mean = 0.1, gradients = 0.9 }')
    """
    if isinstance(value, Mapping):
        return f"{key} = {{ {', '.join(_line(*each) for each in value.items())} }}"
    if isinstance(value, tuple | list):
        return f"{key} = [{', '.join(_line('', each).removeprefix(' = ') for each in value)}]"
    return tomli_w.dumps({key: value}).strip().removeprefix('""')
