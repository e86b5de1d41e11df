"""What is compared: configs made alike in everything but the method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.algorithms import algorithms
from tacit.errors import TacitError
from tacit.runs import Config, build_algorithm, from_config

_TASK = ("data", "sharding", "model")
_PROBED = 64  # rounds of a trial, at the most


@dataclass(frozen=True)
class Entry:
    """A method with its label; `private` says whether it has noise that a target ε can set."""

    label: str
    config: Config
    private: bool


def entries(
    names: Sequence[str],
    *,
    settings: Sequence[str] = (),
    epsilon: float,
    delta: float | None = None,
    cost: float | None = None,
) -> list[Entry]:
    """The methods that `names` (config files, or names of algorithms on the example's task) stand for.

    All get the same target: guaranteed `epsilon` at one δ. A method without noise runs as a reference. With `cost`,
    each gets as many rounds as that many seconds of the cost clock pay for.
    """
    if len(names) < 2:
        raise TacitError("comparing takes two methods or more: give several config files, or names of algorithms")
    loaded = [_load(name, settings) for name in names]
    _one_task(names, loaded)
    delta = loaded[0].privacy.delta if delta is None else delta
    labels = _labels(names, loaded)
    made = [_aimed(label, config, epsilon, delta) for label, config in zip(labels, loaded, strict=True)]
    return made if cost is None else [_afforded(entry, cost) for entry in made]


def _load(name: str, settings: Sequence[str]) -> Config:
    if name.endswith(".toml") or Path(name).is_file():
        return Config.load(Path(name), settings)
    return Config.load(None, [f"algorithm={name}", *settings])


def _labels(names: Sequence[str], configs: Sequence[Config]) -> list[str]:
    """The files' names, or the algorithms'; numbered where they are the same."""
    labels = [
        Path(name).stem if name.endswith(".toml") else config.algorithm.name
        for name, config in zip(names, configs, strict=True)
    ]
    return [
        f"{label}-{labels[: k + 1].count(label)}" if labels.count(label) > 1 else label
        for k, label in enumerate(labels)
    ]


def _one_task(names: Sequence[str], configs: Sequence[Config]) -> None:
    first = configs[0].as_dict()
    for name, config in zip(names[1:], configs[1:], strict=True):
        other = config.as_dict()
        for section in _TASK:
            if first.get(section) != other.get(section):
                raise TacitError(
                    f"{names[0]} and {name} are not the same task: their {section} differ "
                    f"({first.get(section)} and {other.get(section)})"
                )
        if configs[0].graph.parameters.get("nodes") != config.graph.parameters.get("nodes"):
            raise TacitError(f"{names[0]} and {name} are not the same task: they have different numbers of nodes")


def _aimed(label: str, config: Config, epsilon: float, delta: float) -> Entry:
    """The config with the target in the place of any noise it sets itself."""
    noise = algorithms.noise_parameters(config.algorithm.name)
    parameters = {k: v for k, v in config.algorithm.model_dump().items() if k not in noise}
    bare = build_algorithm(type(config.algorithm).model_validate(parameters))
    private = True
    try:
        bare.with_noise(np.ones(1))
    except TacitError:
        private = False
    table: dict[str, Any] = config.as_dict()
    table["algorithm"] = parameters if private else config.algorithm.model_dump()
    table["privacy"] = {"delta": delta, **({"epsilon": epsilon} if private else {})}
    return Entry(label, Config.parse(table, label), private)


def _afforded(entry: Entry, cost: float) -> Entry:
    """As many rounds as `cost` seconds pay for: the clock is asked, since rounds may cost more now and then."""
    low, high, spent = 0, 1, _seconds(entry.config, 1)
    if spent <= 0:
        raise TacitError("rounds cost nothing: set network.gradient_time, link_time or bandwidth to compare at a cost")
    if spent > cost:
        raise TacitError(f"{entry.label}: one round costs {spent:g} s, more than {cost:g}")
    while spent <= cost and high < _PROBED:
        low, high = high, 2 * high
        spent = _seconds(entry.config, high)
    if spent <= cost:  # by now a long stretch is known, and what follows it is like it
        return _with_rounds(entry, int(high * cost / spent + 1e-9))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _seconds(entry.config, middle) <= cost else (low, middle)
    return _with_rounds(entry, low)


def _with_rounds(entry: Entry, rounds: int) -> Entry:
    return Entry(entry.label, entry.config.model_copy(update={"rounds": rounds}), entry.private)


def _seconds(config: Config, rounds: int) -> float:
    """What so many rounds cost. Their noise costs nothing, so none is worked out."""
    bare = config.model_copy(update={"rounds": rounds, "evaluate_every": rounds, "measure": ()})
    run = from_config(bare).go()
    return run.network.seconds(run.task.draws)
