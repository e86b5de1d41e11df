"""Schedules: values that change over the rounds, such as clipping bounds, noise multipliers and step sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacit.errors import TacitError

Schedule = Callable[[int, int], float]
"""A function (k, K) → the value in round k of K."""


@dataclass(frozen=True)
class Geometric:
    """start · ratio^(k / K): moves from `start` in round 0 towards `start · ratio` in round K.

    >>> Geometric(8.0, 1 / 4)(50, 100)
    4.0
    """

    start: float = 1.0
    ratio: float = 1.0

    def __call__(self, k: int, K: int) -> float:
        return float(self.start * self.ratio ** (k / K))


@dataclass(frozen=True)
class StepDecay:
    """`start`, multiplied by `factor` at each of the given rounds.

    >>> [StepDecay(1.0, 0.5, (2, 3))(k, 5) for k in range(5)]
    [1.0, 1.0, 0.5, 0.25, 0.25]
    """

    start: float
    factor: float
    at: Sequence[int]

    def __call__(self, k: int, K: int) -> float:
        return float(self.start * self.factor ** sum(k >= at for at in self.at))


@dataclass(frozen=True)
class Listed:
    """One value per round, from a list.

    >>> Listed([3.0, 2.0, 1.0])(1, 3)
    2.0
    """

    values: Sequence[float]

    def __post_init__(self) -> None:
        for value in self.values:
            if not 0 < value < math.inf:
                raise TacitError(f"all values of a schedule must be positive and finite, got {value}")

    def __call__(self, k: int, K: int) -> float:
        if len(self.values) < max(K, k + 1):
            raise TacitError(
                f"the schedule has {len(self.values)} values for {max(K, k + 1)} rounds: add a value for every round"
            )
        return self.values[k]
