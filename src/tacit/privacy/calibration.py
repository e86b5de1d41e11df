"""How much noise a wanted ε needs."""

import math
from collections.abc import Callable

import dp_accounting

from tacit.errors import TacitError
from tacit.privacy.accountant import epsilon as guaranteed
from tacit.privacy.bounded import Relation

_NEAR = 0.996  # an ε between this share of the target and the target itself is accepted
_FAR = 2.0**40


def calibrate(
    event_at: Callable[[float], dp_accounting.DpEvent],
    epsilon: float,
    delta: float,
    relation: Relation = "add-remove",
    *,
    start: float = 1.0,
) -> float:
    """The least noise scale s, to within half a percent of ε, at which `event_at(s)` is guaranteed (ε, δ)-private.

    `event_at(s)` is the whole stream with its noise multiplied by s; its ε must not grow with s. The search is on
    (log s, log ε), where the curve is nearly straight: false position (Illinois) between a scale that is too small and
    one that is large enough, which is what is returned.

    >>> scale = calibrate(lambda s: dp_accounting.GaussianDpEvent(s), epsilon=1.0, delta=1e-5)
    >>> 0.99 < guaranteed(dp_accounting.GaussianDpEvent(scale), 1e-5) <= 1.0
    True
    """
    if not 0 < epsilon < math.inf:
        raise TacitError(f"noise can be calibrated for a finite ε above 0, not for ε = {epsilon}")
    if not 0 < delta < 1:
        raise TacitError(f"noise can be calibrated for a δ between 0 and 1, not for δ = {delta}")

    def excess(log_scale: float) -> float:
        """log(ε/target), kept finite: 0 or less is good enough."""
        spent = guaranteed(event_at(math.exp(log_scale)), delta, relation)
        return 0.0 if spent == epsilon else max(-20.0, min(20.0, math.log(max(spent, 1e-300) / epsilon)))

    at = math.log(start)
    value = excess(at)
    low = high = (at, value)
    stride = max(0.05, abs(value) / 2)
    while value > 0:  # too little noise
        low = (at, value)
        at += min(stride, 3.0)
        if at > math.log(start * _FAR):
            raise TacitError(f"no amount of noise brings ε down to {epsilon:g} at δ = {delta:g}: it stays at {math.exp(value) * epsilon:.4g} or more")
        value = excess(at)
        high, stride = (at, value), stride * 1.6
    while low[1] <= 0 and not math.log(_NEAR) <= high[1]:  # more noise than needed
        at -= min(stride, 3.0)
        if at < math.log(start / _FAR):
            raise TacitError(f"ε stays below {epsilon:g} at δ = {delta:g} however little noise there is, so no noise scale is the right one")
        value = excess(at)
        stride *= 1.6
        low, high = ((at, value), high) if value > 0 else (low, (at, value))
    left, right = low[1], high[1]
    while high[1] < math.log(_NEAR) and high[0] - low[0] > 1e-9:
        aim = math.log((1 + _NEAR) / 2)  # the middle of what is accepted
        share = min(max((left - aim) / (left - right), 0.02), 0.98)
        at = low[0] + share * (high[0] - low[0])
        value = excess(at)
        if value > 0:
            low, left, right = (at, value), value, (right + aim) / 2
        else:
            high, left, right = (at, value), (left + aim) / 2, value
    return math.exp(high[0])
