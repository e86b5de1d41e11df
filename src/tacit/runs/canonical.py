"""A canonical form of settings, so that equal settings have equal texts and digests."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any


def canonical_settings(value: Any) -> Any:
    """Return settings as JSON values: 2.0 is written as 2, a tuple as a list, and infinity as "inf"."""
    if isinstance(value, Mapping):
        return {key: canonical_settings(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [canonical_settings(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def settings_digest(settings: Mapping[str, Any]) -> str:
    """Digest of a config.

    >>> settings_digest({"lr": 1.0, "hidden": (64,)}) == settings_digest({"hidden": [64], "lr": 1})
    True
    """
    text = json.dumps(canonical_settings(settings), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def settings_differences(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """One sentence per setting that differs from the recorded ones.

    >>> settings_differences({"seed": 0, "data": {}}, {"seed": 1, "data": {"limit": 9}})
    ['data.limit is not set in the ledger, got 9', 'seed is 0 in the ledger, got 1']
    """
    one, other = dict(_flattened(canonical_settings(recorded))), dict(_flattened(canonical_settings(given)))
    changed = [key for key in sorted(one | other) if key not in one or key not in other or one[key] != other[key]]
    got = {key: f"got {_shown(other, key)}" if key in other else "but not here" for key in changed}
    return [f"{key} is {_shown(one, key)} in the ledger, {got[key]}" for key in changed]


def flat_settings(config: dict[str, Any]) -> dict[str, str]:
    """A config as `section.key` and value, as `--set` takes them. Every column of a table is a setting of its own.

    >>> flat_settings({"rounds": 5, "data": {"path": "a.csv", "columns": {"age": {"range": [0, 110]}, "id": "drop"}}})
    {'rounds': '5', 'data.path': 'a.csv', 'data.columns.age': '{"range": [0, 110]}', 'data.columns.id': 'drop'}
    """
    parts = _flattened(config, depth=3)
    return {
        key: value if isinstance(value, str) else json.dumps(value).replace("Infinity", "inf") for key, value in parts
    }


def _flattened(table: Mapping[str, Any], prefix: str = "", depth: float = math.inf) -> Iterator[tuple[str, Any]]:
    """Yield dotted keys of at most `depth` parts, and their values."""
    for key, value in table.items():
        if isinstance(value, Mapping) and depth > 1:
            yield from _flattened(value, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value


def _shown(settings: Mapping[str, Any], key: str) -> str:
    return json.dumps(settings[key], ensure_ascii=False) if key in settings else "not set"
