"""From counts of right and wrong guesses to a lower bound on ε."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]


class Rule(NamedTuple):
    """Say "the record is there" where `sign` · score is above `threshold`; `sign` −1 says the opposite world."""

    sign: int
    threshold: float


def lower_bound(hits: int, present: int, alarms: int, absent: int, delta: float, confidence: float) -> float:
    """ε that any (ε, δ)-private mechanism exceeds with `confidence`, if a test on it has `hits` of `present` trials
    right and gives false alarm in `alarms` of `absent` ones: both rates by Clopper and Pearson.

    >>> round(lower_bound(900, 1000, 100, 1000, 1e-5, 0.95), 2), lower_bound(500, 1000, 500, 1000, 1e-5, 0.95)
    (1.99, 0.0)
    """
    return float(_bounds(np.array([hits]), present, np.array([alarms]), absent, delta, confidence)[0])


def best_rule(scores: Array, there: Flags, delta: float, confidence: float, most: int = 400) -> tuple[float, Rule]:
    """The largest bound on these scores and its rule; what that is worth is for *other* scores to say."""
    rules: list[tuple[float, Rule]] = []
    for sign in (1, -1):
        yes, no = (np.sort(sign * scores[world]) for world in ((there, ~there) if sign > 0 else (~there, there)))
        thresholds = np.unique(np.quantile(sign * scores, _levels(len(scores), most)))
        hits, alarms = (len(each) - np.searchsorted(each, thresholds, "right") for each in (yes, no))
        found = _bounds(hits, len(yes), alarms, len(no), delta, confidence)
        rules.append((float(found.max()), Rule(sign, float(thresholds[found.argmax()]))))
    return max(rules)


def _bounds(hits: Counts, present: int, alarms: Counts, absent: int, delta: float, confidence: float) -> Array:
    each = (1 - confidence) / 2
    right = np.where(hits > 0, stats.beta.ppf(each, np.maximum(hits, 1), present - hits + 1), 0.0)
    wrong = np.where(alarms < absent, stats.beta.ppf(1 - each, alarms + 1, np.maximum(absent - alarms, 1)), 1.0)
    bounds: Array = np.log(np.maximum(right - delta, 1e-300) / wrong).clip(min=0.0)
    return bounds


def judge(rule: Rule, scores: Array, there: Flags, delta: float, confidence: float) -> float:
    """The lower bound that a rule chosen beforehand reaches on these scores."""
    said = rule.sign * scores > rule.threshold
    claimed = there if rule.sign > 0 else ~there
    counts = int(said[claimed].sum()), int(claimed.sum()), int(said[~claimed].sum()), int((~claimed).sum())
    return lower_bound(*counts, delta, confidence)


def _levels(count: int, most: int) -> Array:
    """Quantiles to try: evenly in the middle, and densely in the upper tail, where small rates tell most."""
    tail = 1 - np.geomspace(1 / count, 0.5, most // 2)
    return np.concatenate([np.linspace(0, 1, most // 2, endpoint=False), tail])
