"""The least noise for a target ε."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.accounting.composition import TOLERANCE, epsilon_of_losses
from tacit.privacy.accounting.losses import LossCounts, count_losses
from tacit.privacy.release import Release
from tacit.privacy.sampling import Relation

_MAX_LOG_DISTANCE = math.log(2.0**40)  # from the start of a search, in either direction
_LOG_ACCURACY = math.log(0.996)  # the search ends at an ε between this share of the target and the target
_LOG_COARSE_ACCURACY = math.log(0.9)
_COARSE_TOLERANCE = 0.1


def calibrate(
    releases_at: Callable[[float], Iterable[Release]],
    epsilon: float,
    delta: float,
    *,
    times: int = 1,
    start: float = 1.0,
) -> float:
    """Return the least noise scale s, to within half a percent of ε, that makes `releases_at(s)` (ε, δ)-private.

    Args:
        releases_at: Returns the releases of one node with their noise multiplied by s, so that ε falls as s grows.
        epsilon: The target ε.
        delta: The target δ.
        times: How often all releases are made, each time with new draws of records and new noise.
        start: A first guess of s.

    Raises:
        TacitError: If no s meets the target.

    Example:
        >>> from tacit.privacy import Gaussian, Sampling
        >>> sampling = Sampling("none", np.ones(1), "add-remove")
        >>> scale = calibrate(lambda s: [Release(0, "mean", Gaussian(s), sampling)], epsilon=1.0, delta=1e-5)
        >>> 3.730 < scale < 3.746
        True
    """
    row = np.zeros(1, np.intp)
    relation: Relation = next((release.sampling.relation for release in releases_at(start)), "add-remove")
    return calibrate_losses(lambda s: count_losses(releases_at(s), row, times), epsilon, delta, relation, start=start)


def epsilon_per_run(total_at: Callable[[float], float], epsilon: float, runs: int) -> float:
    """Return the largest ε of each run, to within a percent of the total, with which all runs together have `epsilon`.

    Args:
        total_at: Returns ε of all runs together if each of them is calibrated for the given ε.
        epsilon: The target ε of all runs together.
        runs: The number of runs.

    Raises:
        TacitError: If no ε per run meets the target.
    """
    if runs < 1:
        raise TacitError(f"runs must be at least 1, got {runs}")

    def excess(at: float) -> float:
        return min(20.0, math.log(total_at(math.exp(-at)) / epsilon))

    start = -math.log(epsilon / runs**0.6)  # between √n of many private runs and n of runs that protect little
    return math.exp(-_solve(excess, start, math.log(0.99), 0.1, f"{epsilon:g} for {runs} runs"))


def calibrate_losses(
    losses_at: Callable[[float], LossCounts],
    epsilon: float,
    delta: float,
    relation: Relation,
    *,
    start: float = 1.0,
) -> float:
    """Return the least noise scale s for counted losses; see `calibrate`.

    A search on a coarse grid, which is an upper bound too, is followed by one on a fine grid.
    """
    if not 0 < epsilon < math.inf:
        raise TacitError(f"The target epsilon must be positive and finite, got {epsilon}")
    if not 0 <= delta < 1:
        raise TacitError(f"The target delta must be in [0, 1), got {delta}")

    def excess(log_scale: float, tolerance: float) -> float:
        """Return log(ε/target), limited to ±20; with enough noise it is 0 or less."""
        spent = epsilon_of_losses(losses_at(math.exp(log_scale)), delta, relation, tolerance)
        return min(20.0, math.log(spent / epsilon)) if spent > epsilon * 1e-9 else -20.0

    target = f"{epsilon:g} at δ = {delta:g}"
    coarse = _solve(lambda at: excess(at, _COARSE_TOLERANCE), math.log(start), _LOG_COARSE_ACCURACY, 0.3, target)
    return math.exp(_solve(lambda at: excess(at, TOLERANCE), coarse, _LOG_ACCURACY, 0.01, target))


def _solve(excess: Callable[[float], float], at: float, accuracy: float, stride: float, target: str) -> float:
    """Return a point where the falling function `excess` lies between `accuracy` and 0, by false position (Illinois).

    Args:
        excess: The function; positive means too little noise.
        at: Where the search starts.
        accuracy: The lower end of the accepted values, below 0.
        stride: The first step of the search for a bracket.
        target: The target ε and δ, for error messages.
    """
    aim, origin = accuracy / 2, at
    low: tuple[float, float] | None = None  # too little noise
    high: tuple[float, float] | None = None  # enough noise
    while low is None or high is None:
        value = excess(at)
        if accuracy <= value <= 0:
            return at
        if value > 0:
            low, at = (at, value - aim), at + max(stride, min(value / 2, 2.0))
        else:
            high, at = (at, value - aim), at - max(stride, min(-value / 2, 2.0))
        stride *= 1.5
        if abs(at - origin) > _MAX_LOG_DISTANCE:
            if high is None:
                raise TacitError(f"No amount of noise reduces ε to {target}")
            raise TacitError(f"ε is below {target} for any amount of noise, so there is nothing to calibrate")
    found, side = high[0], 0
    while high[0] - low[0] > 2e-4:  # ε may jump slightly where the accountant refines its grid
        share = low[1] / (low[1] - high[1])
        at = low[0] + min(max(share, 0.01), 0.99) * (high[0] - low[0])
        value = excess(at)
        if value > 0:  # an end that stays twice counts for half
            low, high = (at, value - aim), (high[0], high[1] / 2 if side > 0 else high[1])
            side = 1
            continue
        found = at
        if value >= accuracy:
            break
        low, high = (low[0], low[1] / 2 if side < 0 else low[1]), (at, value - aim)
        side = -1
    return found
