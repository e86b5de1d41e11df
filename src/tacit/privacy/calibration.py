"""How much noise a wanted ε needs."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.bounded import Relation
from tacit.privacy.composition import steps_epsilon
from tacit.privacy.release import Release
from tacit.privacy.steps import Steps, read_steps

_FAR = math.log(2.0**40)
_NEAR = math.log(0.996)  # the search ends at an ε between this share of the target and the target
_ROUGH = math.log(0.9)


def calibrate(
    releases_at: Callable[[float], Iterable[Release]], epsilon: float, delta: float, *, start: float = 1.0
) -> float:
    """Return the least noise scale s, to within half a percent of ε, that makes `releases_at(s)` (ε, δ)-private.

    Args:
        releases_at: Returns the releases of one node with their noise multiplied by s, so that ε falls as s grows.
        epsilon: The target ε.
        delta: The target δ.
        start: A first guess of s.

    Example:
        >>> from tacit.privacy import Gaussian, Sampling
        >>> sampling = Sampling("none", np.ones(1), "add-remove")
        >>> scale = calibrate(lambda s: [Release(0, "mean", Gaussian(s), sampling)], epsilon=1.0, delta=1e-5)
        >>> 3.730 < scale < 3.746
        True
    """
    one = np.zeros(1, np.int64)
    relation: Relation = next((release.sampling.relation for release in releases_at(start)), "add-remove")
    return calibrate_steps(lambda s: read_steps(releases_at(s), one), epsilon, delta, relation, start=start)


def calibrate_steps(
    steps_at: Callable[[float], Steps],
    epsilon: float,
    delta: float,
    relation: Relation,
    *,
    start: float = 1.0,
) -> float:
    """`calibrate` for a stream that is a bag of steps already."""
    if not 0 < epsilon < math.inf:
        raise TacitError(f"noise can be calibrated for a finite ε above 0, not for ε = {epsilon}")
    if not 0 <= delta < 1:
        raise TacitError(f"noise can be calibrated for a δ from 0 to 1, not for δ = {delta}")

    def excess(log_scale: float, tolerance: float) -> float:
        """log(ε/target), kept finite; enough noise makes it 0 or less."""
        spent = steps_epsilon(steps_at(math.exp(log_scale)), delta, relation, tolerance)
        return min(20.0, math.log(spent / epsilon)) if spent > epsilon * 1e-9 else -20.0

    rough = _least(lambda at: excess(at, 0.1), math.log(start), _ROUGH, 0.3, (epsilon, delta))
    return math.exp(_least(lambda at: excess(at, 0.006), rough, _NEAR, 0.01, (epsilon, delta)))


def _least(
    excess: Callable[[float], float], at: float, near: float, stride: float, wanted: tuple[float, float]
) -> float:
    """A point where the falling function `excess` lies between `near` and 0, by false position (Illinois)."""
    aim, origin = near / 2, at
    low: tuple[float, float] | None = None  # too little noise
    high: tuple[float, float] | None = None  # enough of it
    while low is None or high is None:
        value = excess(at)
        if near <= value <= 0:
            return at
        if value > 0:
            low, at = (at, value - aim), at + max(stride, min(value / 2, 2.0))
        else:
            high, at = (at, value - aim), at - max(stride, min(-value / 2, 2.0))
        stride *= 1.5
        if abs(at - origin) > _FAR:
            goal = f"{wanted[0]:g} at δ = {wanted[1]:g}"
            if high is None:
                raise TacitError(f"no amount of noise brings ε down to {goal}")
            raise TacitError(f"ε stays below {goal} however little noise there is, so there is nothing to calibrate")
    found, side = high[0], 0
    while high[0] - low[0] > 2e-4:  # ε may jump by a little where the accountant refines its grid
        share = low[1] / (low[1] - high[1])
        at = low[0] + min(max(share, 0.01), 0.99) * (high[0] - low[0])
        value = excess(at)
        if value > 0:  # an end that stays twice counts for half
            low, high = (at, value - aim), (high[0], high[1] / 2 if side > 0 else high[1])
            side = 1
            continue
        found = at
        if value >= near:
            break
        low, high = (low[0], low[1] / 2 if side < 0 else low[1]), (at, value - aim)
        side = -1
    return found
