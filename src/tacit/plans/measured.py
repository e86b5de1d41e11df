"""Accuracies that were measured on public data sets, as data, and what they let one expect of other runs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tacit.runs import PublicFacts, default_colluders

_LARGEST_RATIO = 10.0  # the signal may differ from a measurement by this factor at most


@dataclass(frozen=True)
class Measurement:
    """One measured accuracy. `command` produced it; `method` is a recipe or an algorithm with its default settings.

    Paired noise is against the default number of colluding nodes.
    """

    data: str
    kind: str
    classes: int
    records: int
    nodes: int
    method: str
    noise: str
    epsilon: float
    delta: float
    accuracy: float
    trivial: float
    seeds: int
    command: str

    @property
    def signal(self) -> float:
        """What decides how much of the accuracy the noise costs."""
        colluders = default_colluders(self.nodes) if self.noise == "paired" else None
        return _signal(self.records, self.epsilon, self.nodes, colluders)


@dataclass(frozen=True)
class Expectation:
    """An accuracy to expect, with its source in words."""

    accuracy: float
    trivial: float
    source: str

    @property
    def is_trivial(self) -> bool:
        """Whether the model is hardly better than the trivial predictor."""
        return self.accuracy - self.trivial < 0.1 * (1 - self.trivial)


@cache
def measurements() -> tuple[Measurement, ...]:
    """Return all measurements of the package (measured.json)."""
    text = files("tacit.plans").joinpath("measured.json").read_text(encoding="utf-8")
    return tuple(Measurement(**each) for each in json.loads(text))


def expected_accuracy(
    facts: PublicFacts,
    data: str,
    method: str,
    epsilon: float,
    nodes: int,
    colluders: int | None = None,
    known: Sequence[Measurement] | None = None,
) -> Expectation | None:
    """Return the accuracy that was measured with this method for a similar signal; None if none was.

    The signal is records · ε divided by the noise in the mean of the network: √nodes with independent noise, about
    √(nodes / (nodes − colluders)) with paired noise. Only measurements with as many classes are used. Those on the same
    data set are preferred to those on other data of the same kind. Between two of them, the accuracy is interpolated in
    log(signal); outside of them, the nearest one is returned.

    Args:
        facts: The public facts about the records.
        data: The name of the data set.
        method: A recipe or an algorithm.
        epsilon: The target ε.
        nodes: The number of nodes.
        colluders: With paired noise, the number of colluding nodes; None: independent noise.
        known: The measurements; None: those of the package.

    Privacy:
        No record is used: only public facts and stored measurements.
    """
    if facts.target != "class":
        return None
    signal = _signal(facts.records, epsilon, nodes, colluders)
    wanted = method, "independent" if colluders is None else "paired", facts.classes
    fitting = [each for each in known or measurements() if (each.method, each.noise, each.classes) == wanted]
    fitting = [each for each in fitting if each.kind == facts.kind or each.data == data]
    near = [each for each in fitting if abs(math.log(each.signal / signal)) <= math.log(_LARGEST_RATIO)]
    if not near:
        return None
    best = data if any(each.data == data for each in near) else min(near, key=lambda m: _distance(m, signal)).data
    same = sorted((each for each in near if each.data == best), key=lambda m: m.signal)
    below = [each for each in same if each.signal <= signal]
    above = [each for each in same if each.signal >= signal]
    low, high = (below or above[:1])[-1], (above or below[-1:])[0]
    share = 0.0 if low.signal == high.signal else math.log(signal / low.signal) / math.log(high.signal / low.signal)
    accuracy = low.accuracy + share * (high.accuracy - low.accuracy)
    return Expectation(accuracy, low.trivial, _source(low, high, best == data))


def _signal(records: int, epsilon: float, nodes: int, colluders: int | None) -> float:
    gain = 1 if colluders is None else max(1, nodes - colluders)
    return records * epsilon * math.sqrt(gain / nodes)


def _distance(measurement: Measurement, signal: float) -> float:
    return abs(math.log(measurement.signal / signal))


def _source(low: Measurement, high: Measurement, same_data: bool) -> str:
    epsilons = f"ε = {low.epsilon:g}" if low == high else f"ε = {low.epsilon:g} and {high.epsilon:g}"
    other = "" if same_data else "other data of the same kind: "
    trivial = "" if same_data else f"; the trivial predictor reaches {100 * low.trivial:.1f} % there"
    source = f"measured on {other}{low.data}, {low.records:,} records, {low.nodes} nodes, {epsilons}, {low.seeds} seeds"
    return source + trivial
