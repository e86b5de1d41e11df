"""Settings as nested tables, and how experiments combine them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Settings = dict[str, Any]
"""Part of a config: sections and keys."""
AxisValues = dict[str, Settings]
"""The settings of each value of an axis, by label. The key `without` lists axes that do not apply to the value."""


def expand_axis(axis: Any) -> Any:
    """The short form `set = "privacy.epsilon", values = [...]` of an axis as settings by label."""
    if not isinstance(axis, Mapping) or set(axis) != {"set", "values"}:
        return axis
    return {_label(value): nested_setting(axis["set"], value) for value in axis["values"]}


def nested_setting(key: str, value: Any) -> Settings:
    """
    >>> nested_setting("privacy.epsilon", 1.0)
    {'privacy': {'epsilon': 1.0}}
    """
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def nested_value(numbers: Any, labels: Iterable[str]) -> Any:
    """The value under the labels, one level each. A value that is reached earlier holds for all further labels.

    >>> nested_value({"A": {"1": 5}, "B": 7}, ["A", "1"]), nested_value({"A": {"1": 5}, "B": 7}, ["B", "1"])
    (5, 7)
    """
    for label in labels:
        numbers = numbers.get(label) if isinstance(numbers, Mapping) else numbers
    return numbers


def select_values(axes: Mapping[str, AxisValues], labels: Mapping[str, list[str]]) -> dict[str, AxisValues]:
    """The axes reduced to the given labels; an axis without labels there keeps all."""
    return {
        name: {label: axis[label] for label in labels[name]} if name in labels else axis for name, axis in axes.items()
    }


def merge_settings(base: Mapping[str, Any], over: Mapping[str, Any]) -> Settings:
    """`base` with the settings of `over`, section by section.

    A different `name` replaces the whole section except for its number of nodes.

    >>> ring = {"graph": {"name": "ring", "directed": True, "nodes": 4}, "rounds": 9}
    >>> merge_settings(ring, {"graph": {"name": "complete"}})
    {'graph': {'nodes': 4, 'name': 'complete'}, 'rounds': 9}
    """
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if "name" in value and value["name"] != old.get("name", value["name"]):
                old = {"nodes": old["nodes"]} if "nodes" in old else {}
            value = merge_settings(old, value)
        result[key] = value
    return result


def _label(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
