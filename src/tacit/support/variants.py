"""Which settings of a method change its support: every choice of its parameters is tried."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tacit.registry import Registry
from tacit.support.cells import Method

SHARED = ("0.weight",)
"""Partial sharing of the model that the runs train."""


def default_method(registry: Registry[Any], name: str) -> Method:
    """Return the method with its defaults, and with the values of its example for parameters without one."""
    example = registry.example(name)
    required = [key for key, option in registry.options(name).items() if option.default is inspect.Parameter.empty]
    return Method(name, tuple((key, example[key]) for key in required if key in example))


def example_method(registry: Registry[Any], name: str) -> Method:
    """Return the method with the parameters of its example, if it cannot run with its defaults."""
    return Method(name, tuple(registry.example(name).items()))


def variants(registry: Registry[Any], base: Method) -> Iterator[Method]:
    """Yield the method with every other choice of one parameter, and with the values of its example."""
    maker, given = registry[base.name], dict(base.settings)
    hints = get_type_hints(maker if is_dataclass(maker) or not inspect.isclass(maker) else maker.__init__)
    for key, option in registry.options(base.name).items():
        chosen = given.get(key, option.default)
        for value in _choices(hints.get(key)):
            if value != chosen:
                yield base.changing(**{key: value})
    for key, value in registry.example(base.name).items():
        if key not in given:
            yield base.changing(**{key: value})
    made = maker if inspect.isclass(maker) else hints.get("return")
    if getattr(made, "partial", False) and "share" not in given:
        yield base.changing(share=SHARED)
        yield base.changing(share=SHARED, local="exact")


def _choices(hint: Any) -> tuple[Any, ...]:
    """The values of a parameter that can be listed."""
    if hint is bool:
        return (False, True)
    if hint == int | None:
        return (0,)  # never, in methods that do something every so many rounds
    return get_args(hint) if get_origin(hint) is Literal else ()
