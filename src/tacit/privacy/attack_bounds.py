"""What (ε, δ) means for an attacker who tests which of two neighbouring data sets was used.

A test with false positive rate α has a false negative rate of at least (Wasserman and Zhou 2010; Kairouz, Oh and
Viswanath 2015)

    f(α) = max(0, 1 − δ − e^ε α, e^−ε (1 − δ − α)),

so its true positive rate is at most 1 − f(α).
"""

from __future__ import annotations

import math

import numpy as np

from tacit.privacy.release import Array

FALSE_ALARMS = 0.01  # the false positive rate of the test that statements describe
_MAX_EXPONENT = 700.0  # e^ε of a larger ε is not a finite float


def trade_off_bound(epsilon: float, delta: float, false_positives: Array) -> Array:
    """Return the largest true positive rate of a test with each of the false positive rates, 1 − f(α).

    >>> trade_off_bound(0.0, 0.0, np.array([0.0, 0.25, 1.0]))
    array([0.  , 0.25, 1.  ])
    """
    for_few_alarms = delta + math.exp(min(epsilon, _MAX_EXPONENT)) * false_positives
    for_many_alarms = 1 - math.exp(-epsilon) * (1 - delta - false_positives)
    return np.clip(np.minimum(for_few_alarms, for_many_alarms), 0.0, 1.0)


def trade_off_corners(epsilon: float, delta: float) -> Array:
    """Return the false positive rates between which the bound is a straight line, from 0 to 1.

    >>> trade_off_corners(0.0, 0.0)
    array([0. , 0.5, 1. , 1. ])
    """
    equal = (1 - delta) / (1 + math.exp(min(epsilon, _MAX_EXPONENT)))  # both lines of f meet here
    return np.array([0.0, equal, 1 - delta, 1.0])


def detection_bound(epsilon: float, delta: float, false_alarms: float = FALSE_ALARMS) -> float:
    """Return the largest true positive rate of a membership test with this false positive rate.

    >>> round(detection_bound(1.0, 1e-5), 3)
    0.027
    """
    return float(trade_off_bound(epsilon, delta, np.array([false_alarms]))[0])


def guess_bound(epsilon: float, delta: float) -> float:
    """Return the largest probability of guessing which of two neighbouring data sets was used, (e^ε + δ) / (e^ε + 1).

    >>> guess_bound(0.0, 0.0), round(guess_bound(1.0, 1e-5), 3)
    (0.5, 0.731)
    """
    return min(1.0, (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon)))
