"""Which settings can be swept, and how they are named."""

from __future__ import annotations

from typing import Any

import tomli_w
from pydantic import BaseModel

from tacit.algorithms import algorithms
from tacit.errors import TacitError, unknown
from tacit.runs import ALGORITHM_KEYS, Config

_REFUSED = {
    "name": "it has no effect on the run",
    "seed": "use --seeds K (Python: seeds=K) for several runs of every setting",
    "noise": 'all runs of a sweep have the same kind of noise; set noise = "secret" in the config',
    "privacy.delta": "ε at different δ cannot be compared",
    "privacy.population": "all runs of a sweep are on the same records",
    "privacy.population_budget": "all runs of a sweep are on the same records",
}
_PREPARATION = ("data.normalise", "data.missing")  # they change how records are prepared, not which records there are


def config_key(name: str, config: Config) -> str:
    """Return the config key of an axis: a key itself, or the bare name of a hyperparameter of the config's algorithm.

    >>> config_key("lr", Config()), config_key("batch.size", Config()), config_key("rounds", Config())
    ('algorithm.lr', 'batch.size', 'rounds')
    >>> config_key("clp", Config())
    Traceback (most recent call last):
    tacit.errors.TacitError: unknown setting to sweep "clp"; did you mean "clip"?
    """
    own = [*algorithms.options(config.algorithm.name), *ALGORITHM_KEYS]
    if "." in name or name in Config.model_fields:
        key = name
    elif name in own:
        key = f"algorithm.{name}"
    else:
        raise unknown("setting to sweep", name, [*own, *_config_keys()])
    section = key.partition(".")[0]
    if key in _REFUSED:
        raise TacitError(f"{key} cannot be swept: {_REFUSED[key]}")
    if section == "data" and key not in _PREPARATION:
        raise TacitError(
            f"{key} cannot be swept: results on other records cannot be compared. Of data, a sweep can vary "
            f"{' and '.join(_PREPARATION)}"
        )
    return key


def setting_text(key: str, value: Any) -> str:
    """Return a setting as `key=value`.

    >>> setting_text("graph.name", "ring"), setting_text("batch.size", 32)
    ('graph.name="ring"', 'batch.size=32')
    """
    try:
        return f"{key}={tomli_w.dumps({'v': value}).removeprefix('v = ').strip()}"
    except TypeError:
        raise TacitError(f"{key} = {value!r} cannot be set in a config: use a number, a text or a list") from None


def _config_keys() -> list[str]:
    """All keys of a config that the parts do not define themselves."""
    keys = []
    for name, field in Config.model_fields.items():
        kind = field.annotation
        inner = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
        keys += [f"{name}.{key}" for key in inner] or [name]
    return keys
