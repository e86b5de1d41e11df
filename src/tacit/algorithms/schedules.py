"""Numbers that change over the rounds: clipping bounds and noise multipliers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tacit.errors import TacitError

Schedule = Callable[[int, int], float]
"""The value in round k of K."""


@dataclass(frozen=True)
class Geometric:
    """start · ratio^(k / K): from `start` in round 0 towards `start · ratio` in round K.

    >>> Geometric(8.0, 1 / 4)(50, 100)
    4.0
    """

    start: float = 1.0
    ratio: float = 1.0

    def __call__(self, k: int, K: int) -> float:
        return float(self.start * self.ratio ** (k / K))


@dataclass(frozen=True)
class Steps:
    """start, multiplied by `factor` in each of the rounds `at` and from there on.

    >>> [Steps(1.0, 0.5, (2, 3))(k, 5) for k in range(5)]
    [1.0, 1.0, 0.5, 0.25, 0.25]
    """

    start: float
    factor: float
    at: Sequence[int]

    def __call__(self, k: int, K: int) -> float:
        return float(self.start * self.factor ** sum(k >= place for place in self.at))


@dataclass(frozen=True)
class Listed:
    """One value a round.

    >>> Listed([3.0, 2.0, 1.0])(1, 3)
    2.0
    """

    values: Sequence[float]

    def __post_init__(self) -> None:
        wrong = [value for value in self.values if not 0 < value < math.inf]
        if wrong:
            raise TacitError(f"a schedule lists positive and finite values, not {wrong[0]}")

    def __call__(self, k: int, K: int) -> float:
        if len(self.values) < K:
            raise TacitError(f"the schedule lists {len(self.values)} values, fewer than the {K} rounds")
        return self.values[k]
