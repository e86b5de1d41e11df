"""Canonical forms and digests of settings, files, graphs and models, for comparison between sites."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.privacy import read_bytes
from tacit.registry import Registry
from tacit.runs import NamedPart
from tacit.tasks import Model

_PYTHON_FILE = re.compile(r"(?P<path>.*\.py)(?P<attribute>:\w+)")


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces, in ASCII: equal values give equal texts.

    >>> canonical_json({"b": 2.0, "a": [1, 0.5]})
    '{"a":[1,0.5],"b":2}'
    """
    try:
        return json.dumps(_without_float_integers(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        raise TacitError("Settings of a network must be finite numbers, strings, lists or tables") from None


def _without_float_integers(value: Any) -> Any:
    """Write 2.0 as 2: configs contain both, with the same meaning."""
    if isinstance(value, dict):
        return {key: _without_float_integers(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_float_integers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def with_defaults(registry: Registry[Any], choice: NamedPart) -> dict[str, Any]:
    """Return a choice with all its parameters, including defaults, which may differ between versions of Tacit.

    Files are identified by name and contents, since each site may store them elsewhere.
    """
    name, given = choice.name, choice.parameters
    if found := _PYTHON_FILE.fullmatch(name):
        return {"name": _file_id(found["path"]) + found["attribute"], **given}
    accepted = registry.options(name) if name in registry else {}
    defaults = {key: parameter.default for key, parameter in accepted.items()}
    plain = {key: value for key, value in defaults.items() if isinstance(value, int | float | str | tuple | list)}
    files = {"path": _file_id(given["path"])} if "path" in given else {}
    return {**plain, **given, **files, "name": name}


def _file_id(path: str) -> str:
    contents = hashlib.sha256(read_bytes(Path(path))).hexdigest()
    return f"{Path(path).name} ({contents[:16]})"


def parameters_digest(model: Model) -> str:
    """Digest of the initial parameters, with their names, shapes and which of them are shared."""
    layout = model.layout
    facts = [layout.names, layout.shapes, layout.shared, layout.bounded, model.weight_decay]
    digest = hashlib.sha256(json.dumps(facts).encode())
    digest.update(model.initial().double().numpy().astype("<f8").tobytes())
    return digest.hexdigest()
