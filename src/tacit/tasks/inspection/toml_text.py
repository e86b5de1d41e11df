"""Keys and values as TOML text in one line, with comments beside them. `tomli_w` writes neither."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def key_text(key: str) -> str:
    """Return a key, quoted if it must be.

    >>> key_text("age"), key_text("body temp")
    ('age', '"body temp"')
    """
    return key if _BARE.fullmatch(key) else _quoted(key)


def inline(value: Any) -> str:
    """Return a value as TOML text in one line.

    >>> inline({"categories": ["F", 2, 0.5, True]})
    '{ categories = ["F", 2, 0.5, true] }'
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key_text(key)} = {inline(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, str):
        return _quoted(value)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _quoted(text: str) -> str:
    """JSON escapes are those of TOML, except that TOML also escapes DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
