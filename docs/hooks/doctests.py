"""Show the examples of docstrings as code: Markdown would read `>>>` as a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^([ ]*)>>> .*\n?(?:^\1(?=\S).*\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences every example, from its first `>>>` to the next empty line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Return a docstring with fences around its examples.

    >>> print(fenced("Return 1.\\n\\n>>> one()\\n1"))
    Return 1.
    <BLANKLINE>
    ```pycon
    >>> one()
    1
    ```
    """
    return _EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0].rstrip()}\n{found[1]}```\n", text).rstrip("\n")
