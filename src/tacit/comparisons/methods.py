"""The methods of a comparison: configs that differ in the method only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tacit.algorithms import AddsNoNoise, Algorithm, algorithms
from tacit.errors import TacitError
from tacit.runs import PYTHON_OBJECT_PREFIX, Config, UserParts, build_algorithm, from_config

_TASK_SECTIONS = ("data", "sharding", "task", "model")
_MAX_TRIAL_ROUNDS = 64

Method: TypeAlias = str | Algorithm[Any]
"""A config file, the name of an algorithm, or an algorithm."""


@dataclass(frozen=True)
class ComparedMethod:
    """A method with its label, its config and the parts given as objects; `private` if a target ε can set its noise."""

    label: str
    config: Config
    private: bool
    parts: UserParts = field(default_factory=UserParts)


def compared_methods(
    methods: Sequence[Method] | Mapping[str, Method],
    *,
    settings: Sequence[str] = (),
    parts: UserParts | None = None,
    epsilon: float,
    delta: float | None = None,
    cost: float | None = None,
) -> list[ComparedMethod]:
    """The methods to compare, all with the same target.

    Args:
        methods: Config files, names of algorithms or algorithms, which run on the task of the embedded example. A
            mapping gives each a label.
        settings: `key=value` settings for every config.
        parts: Data, model and other parts of every run that are given as objects.
        epsilon: Guaranteed ε of every private method. A method without noise runs as a reference.
        delta: δ of all methods; by default that of the first config.
        cost: Each method gets as many rounds as this many seconds of the cost clock allow.

    Raises:
        TacitError: There are fewer than two methods, or they do not have the same task.
    """
    if isinstance(methods, str | Algorithm):
        name = methods if isinstance(methods, str) else type(methods).__name__
        raise TacitError(f'A comparison needs a list of two or more methods, such as ["dyn-d2p", "sgp"], got "{name}"')
    if len(methods) < 2:
        raise TacitError(f"A comparison needs two or more config files or names of algorithms, got {len(methods)}")
    given = list(methods.values()) if isinstance(methods, Mapping) else list(methods)
    configs = [method_config(method, settings) for method in given]
    labels = _checked_labels(methods) if isinstance(methods, Mapping) else _labels(given, configs)
    _check_same_task([each if isinstance(each, str) else type(each).__name__ for each in given], configs)
    delta = configs[0].privacy.delta if delta is None else delta
    shared = parts or UserParts()
    own = [replace(shared, algorithm=None if isinstance(method, str) else method) for method in given]
    compared = [_with_target(*each, epsilon, delta) for each in zip(labels, configs, own, strict=True)]
    return compared if cost is None else [_with_affordable_rounds(method, cost) for method in compared]


def method_config(method: Method, settings: Sequence[str]) -> Config:
    """The config of a method before it gets a target."""
    if isinstance(method, Algorithm):
        others = [each for each in settings if not each.startswith("algorithm.")]  # an object has its own parameters
        return Config.load(None, [f"algorithm={PYTHON_OBJECT_PREFIX}{type(method).__name__}", *others])
    if not isinstance(method, str):
        raise TacitError(f"a method must be a config file, a name or an Algorithm, got {type(method).__name__}")
    if method.endswith(".toml") or Path(method).is_file():
        return Config.load(Path(method), settings)
    return Config.load(None, [f"algorithm={method}", *settings])


def differing_hyperparameters(methods: Sequence[ComparedMethod]) -> str | None:
    """Return a sentence with the hyperparameters whose values differ between methods; None if there are none.

    Only methods given by name or config are considered, and neither their noise nor names that only one method has.
    """
    values: dict[str, dict[str, list[str]]] = {}
    for method in methods:
        if method.parts.algorithm is not None:
            continue
        name, given = method.config.algorithm.name, method.config.algorithm.parameters
        for key, option in algorithms.options(name).items():
            value = given.get(key, option.default)
            if isinstance(value, bool | int | float | str) and key not in algorithms.noise_parameters(name):
                values.setdefault(key, {}).setdefault(str(value), []).append(method.label)
    listed = {
        key: [f"{value} ({', '.join(labels)})" for value, labels in found.items()] for key, found in values.items()
    }
    parts = [f"{key} is {' and '.join(found)}" for key, found in listed.items() if len(found) > 1]
    return f"The hyperparameters differ: {'; '.join(parts)}." if parts else None


def _checked_labels(labels: Mapping[str, Method]) -> list[str]:
    """The labels that a user has chosen. They name folders and runs."""
    for label in labels:
        if not re.fullmatch(r"[\w\-. ]*\w", label):
            raise TacitError(f'the label of a method contains letters, digits, "-", "." and spaces, got "{label}"')
    return list(labels)


def _labels(methods: Sequence[Method], configs: Sequence[Config]) -> list[str]:
    """File names without suffix, or names of algorithms; numbered if several are the same."""
    labels = [
        Path(method).stem
        if isinstance(method, str) and method.endswith(".toml")
        else config.algorithm.name.removeprefix(PYTHON_OBJECT_PREFIX)
        for method, config in zip(methods, configs, strict=True)
    ]
    return [
        f"{label}-{labels[: k + 1].count(label)}" if labels.count(label) > 1 else label
        for k, label in enumerate(labels)
    ]


def _check_same_task(names: Sequence[str], configs: Sequence[Config]) -> None:
    first = configs[0].as_dict()
    for name, config in zip(names[1:], configs[1:], strict=True):
        other = config.as_dict()
        for section in _TASK_SECTIONS:
            if first.get(section) != other.get(section):
                raise TacitError(
                    f"{names[0]} and {name} do not have the same {section}: "
                    f"{first.get(section)} and {other.get(section)}"
                )
        nodes = [each.graph.parameters.get("nodes") for each in (configs[0], config)]
        if nodes[0] != nodes[1]:
            raise TacitError(f"{names[0]} and {name} do not have the same number of nodes: {nodes[0]} and {nodes[1]}")


def _with_target(label: str, config: Config, parts: UserParts, epsilon: float, delta: float) -> ComparedMethod:
    """The config with the target ε in place of the noise it sets itself."""
    given = parts.algorithm
    noise = algorithms.noise_parameters(config.algorithm.name) if given is None else given.noise_parameters
    parameters = {k: v for k, v in config.algorithm.model_dump().items() if k not in noise}
    algorithm = given or build_algorithm(type(config.algorithm).model_validate(parameters))
    private = True
    try:
        algorithm.with_noise(np.ones(1))
    except AddsNoNoise as error:
        if noise and type(algorithm).with_noise is Algorithm.with_noise:  # its own noise would be at another ε
            raise TacitError(
                f"{algorithm.title} adds noise but has no with_noise, so no target ε can set it"
            ) from error
        private = False
    table: dict[str, Any] = config.as_dict()
    table["algorithm"] = parameters if private else config.algorithm.model_dump()
    table["privacy"] = {"delta": delta, **({"epsilon": epsilon} if private else {})}
    return ComparedMethod(label, Config.parse(table, label), private, parts)


def _with_affordable_rounds(method: ComparedMethod, cost: float) -> ComparedMethod:
    """As many rounds as `cost` seconds allow. Some rounds may cost more than others, so short runs measure it."""
    low, high, spent = 0, 1, _cost_of(method, 1)
    if spent <= 0:
        raise TacitError(
            "Rounds have no cost: set network.gradient_time, network.link_time or network.bandwidth to use cost"
        )
    if spent > cost:
        raise TacitError(f"{method.label}: one round costs {spent:g} s, more than cost = {cost:g} s")
    while spent <= cost and high < _MAX_TRIAL_ROUNDS:
        low, high = high, 2 * high
        spent = _cost_of(method, high)
    if spent <= cost:  # long enough to extrapolate
        return _with_rounds(method, int(high * cost / spent + 1e-9))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _cost_of(method, middle) <= cost else (low, middle)
    return _with_rounds(method, low)


def _with_rounds(method: ComparedMethod, rounds: int) -> ComparedMethod:
    return replace(method, config=method.config.model_copy(update={"rounds": rounds}))


def _cost_of(method: ComparedMethod, rounds: int) -> float:
    """Seconds of the cost clock that so many rounds take. The clock does not depend on the noise."""
    short = method.config.model_copy(update={"rounds": rounds, "evaluate_every": rounds, "measure": ()})
    run = from_config(short, method.parts).go()
    return run.network.seconds(run.task.draws)
