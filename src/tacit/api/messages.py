"""Errors in the words of `tacit.train`: its arguments, and not the keys of a config."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tacit.errors import TacitError

_PYTHON_FORM = re.compile(r"\b[a-z]+\.[a-z_]+ \(Python: ([^)]*)\)")
_OTHER_INTERFACES = re.compile(r" \((?:on the command line|in a config)\b[^)]*\)")
_KEY = re.compile(
    r"\b(?:privacy\.|algorithm\.|batch\.(?=size|sampling|relation|clipping|augment)"
    r"|data\.(?=labels|features|whiten|rank))([a-z_]+)\b"
    r"( (?:is|must|has|have|needs?)\b| =)?"
)
_ARGUMENTS = {"size": "batch"}  # keys whose argument has another name


@contextmanager
def python_errors() -> Iterator[None]:
    """Let an error name arguments of `tacit.train` where it names keys of a config."""
    try:
        yield
    except TacitError as error:
        error.args = (python_words(str(error)),)
        raise


def python_words(message: str) -> str:
    """Return a message with arguments of `tacit.train` in place of keys of a config.

    >>> python_words("no noise level: set privacy.epsilon (Python: epsilon=) or algorithm.sigma")
    'no noise level: set epsilon= or sigma='
    >>> python_words("batch.size is 32, but node 0 has only 5 records")
    'batch is 32, but node 0 has only 5 records'
    """
    message = _OTHER_INTERFACES.sub("", _PYTHON_FORM.sub(r"\1", message))
    return _KEY.sub(_argument, message)


def _argument(key: re.Match[str]) -> str:
    name, verb = _ARGUMENTS.get(key[1], key[1]), key[2] or ""
    return f"{name}{verb}" if verb else f"{name}="
