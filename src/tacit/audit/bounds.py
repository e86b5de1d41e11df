"""From true and false positives of an attack to a lower bound on ε."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]


class ThresholdTest(NamedTuple):
    """A test on scores: positive if `sign` · score > `threshold`.

    With `sign` = 1 a positive means "the canary is included", with `sign` = −1 "it is not".
    """

    sign: int
    threshold: float


def lower_bound(
    true_positives: int, positives: int, false_positives: int, negatives: int, delta: float, confidence: float
) -> float:
    """Return a lower bound on ε at `delta`, with `confidence`, from the outcomes of one test.

    A mechanism that is (ε, δ)-private has TPR ≤ e^ε FPR + δ for every test. Both rates are bounded by the
    Clopper–Pearson method, each with half of 1 − confidence.

    Args:
        true_positives: Positive outcomes among the trials in which the tested statement is true.
        positives: Number of those trials.
        false_positives: Positive outcomes among the other trials.
        negatives: Number of the other trials.
        delta: δ at which ε is bounded.
        confidence: Probability with which the bound holds.

    >>> round(lower_bound(900, 1000, 100, 1000, 1e-5, 0.95), 2), lower_bound(500, 1000, 500, 1000, 1e-5, 0.95)
    (1.99, 0.0)
    """
    counts = np.array([true_positives]), positives, np.array([false_positives]), negatives
    return float(_lower_bounds(*counts, delta, confidence)[0])


def best_threshold(
    scores: Array, included: Flags, delta: float, confidence: float, thresholds: int = 400
) -> tuple[float, ThresholdTest]:
    """Return the largest lower bound on these scores and its test.

    The bound is optimistic, because the test was selected on the same scores. Apply the test to other scores
    with `bound_by_test`.
    """
    found: list[tuple[float, ThresholdTest]] = []
    for sign in (1, -1):
        targets = (included, ~included) if sign > 0 else (~included, included)
        positives, negatives = (np.sort(sign * scores[target]) for target in targets)
        levels = np.unique(np.quantile(sign * scores, _quantile_levels(len(scores), thresholds)))
        true, false = (len(each) - np.searchsorted(each, levels, "right") for each in (positives, negatives))
        bounds = _lower_bounds(true, len(positives), false, len(negatives), delta, confidence)
        found.append((float(bounds.max()), ThresholdTest(sign, float(levels[bounds.argmax()]))))
    return max(found)


def bound_by_test(test: ThresholdTest, scores: Array, included: Flags, delta: float, confidence: float) -> float:
    """The lower bound on ε that a test, selected on other scores, reaches on these scores."""
    outcome = test.sign * scores > test.threshold
    target = included if test.sign > 0 else ~included
    counts = int(outcome[target].sum()), int(target.sum()), int(outcome[~target].sum()), int((~target).sum())
    return lower_bound(*counts, delta, confidence)


def _lower_bounds(
    true: Counts, positives: int, false: Counts, negatives: int, delta: float, confidence: float
) -> Array:
    error = (1 - confidence) / 2
    least_tpr = np.where(true > 0, special.betaincinv(np.maximum(true, 1), positives - true + 1, error), 0.0)
    most_fpr = np.where(
        false < negatives, special.betaincinv(false + 1, np.maximum(negatives - false, 1), 1 - error), 1.0
    )
    bounds: Array = np.log(np.maximum(least_tpr - delta, 1e-300) / most_fpr).clip(min=0.0)
    return bounds


def _quantile_levels(count: int, thresholds: int) -> Array:
    """Quantiles to try as thresholds: half of them even, half dense in the upper tail, where rates are small."""
    tail = 1 - np.geomspace(1 / count, 0.5, thresholds // 2)
    return np.concatenate([np.linspace(0, 1, thresholds // 2, endpoint=False), tail])
