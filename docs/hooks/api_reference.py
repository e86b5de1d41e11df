"""The reference of the Python interface: mkdocstrings documents the public names of the package and its parts."""

from __future__ import annotations

import importlib
import inspect

import tacit


def api_page(package: str = "tacit") -> str:
    """Return one block per public name, for mkdocstrings. A name of `import tacit` is on the first page only."""
    names = importlib.import_module(package).__all__
    documented = [name for name in names if _has_docstring(package, name)]
    if package == "tacit":
        return "\n".join(f"::: tacit.{name}\n" for name in documented)
    first = [name for name in documented if name in tacit.__all__]
    links = ", ".join(f"[`{name}`](../python.md#tacit.{name})" for name in first)
    also = f"Also public, and documented with `import tacit`: {links}.\n\n" if first else ""
    return also + "\n".join(f"::: {package}.{name}\n" for name in documented if name not in first)


def _has_docstring(package: str, name: str) -> bool:
    """Whether a name is a class, a function or a module with a text of its own; constants and aliases have none."""
    value = getattr(importlib.import_module(package), name)
    documented = inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)
    return documented and bool(inspect.getdoc(value)) and not name.startswith("__")
