"""Bounds on attacks that follow from (ε, δ)."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tacit.privacy import detection_bound, guess_bound, mu_to_epsilon, trade_off_bound, trade_off_corners


def test_bounds_hold_for_the_gaussian_mechanism():
    """The exact trade-off of a Gaussian release with μ = 1 has power Φ(Φ⁻¹(α) + μ) and guesses with Φ(μ / 2)."""
    for delta in (1e-2, 1e-5):
        epsilon = mu_to_epsilon(1.0, delta)
        assert norm.cdf(0.5) <= guess_bound(epsilon, delta) < 1
        for alarms in np.linspace(0.001, 0.999, 50):
            assert norm.cdf(norm.ppf(alarms) + 1.0) <= detection_bound(epsilon, delta, alarms) + 1e-12
    assert guess_bound(1000.0, 1e-5) == detection_bound(1000.0, 1e-5) == 1.0
    assert math.isclose(detection_bound(0.0, 0.0), 0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 1e-5), (3.0, 1e-2), (1000.0, 1e-5), (0.1, 0.5)])
def test_trade_off_bound_is_the_published_formula(epsilon, delta):
    alarms, e = np.linspace(0, 1, 201), math.exp(min(epsilon, 500))
    least_misses = np.maximum(0, np.maximum(1 - delta - e * alarms, (1 - delta - alarms) / e))
    np.testing.assert_allclose(trade_off_bound(epsilon, delta, alarms), 1 - least_misses, atol=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (3.0, 1e-2), (0.1, 0.5)])
def test_trade_off_bound_is_straight_between_its_corners(epsilon, delta):
    corners, alarms = trade_off_corners(epsilon, delta), np.linspace(0, 1, 201)
    straight = np.interp(alarms, corners, trade_off_bound(epsilon, delta, corners))
    np.testing.assert_allclose(trade_off_bound(epsilon, delta, alarms), straight, atol=1e-12)


def test_randomised_response_attains_the_bounds():
    """Randomised response with ε tells the truth with probability e^ε / (1 + e^ε)."""
    truth = math.e / (1 + math.e)
    assert detection_bound(1.0, 0.0, 1 - truth) == pytest.approx(truth)
    assert guess_bound(1.0, 0.0) == pytest.approx(truth)
