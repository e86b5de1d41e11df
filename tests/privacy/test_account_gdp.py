"""μ, ε and δ of the Gaussian mechanism against sixty digits."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy.gdp import delta_of, epsilon_to_mu, log_delta_of, mu_to_epsilon
from tests.privacy.oracles_accounting import gaussian_delta

logs = st.floats(min_value=-6, max_value=2)


@settings(max_examples=200, deadline=None)
@given(log_mu=logs, reach=st.floats(min_value=0, max_value=10))
def test_delta_agrees_with_sixty_digits(log_mu, reach):
    mu = 10**log_mu
    epsilon = mu * (mu / 2 + reach)
    with mpmath.workdps(60):
        exact = float(mpmath.log(gaussian_delta(epsilon, mu)))
    assert log_delta_of(epsilon, mu) == pytest.approx(exact, abs=1e-10)


@settings(max_examples=100, deadline=None)
@given(log_mu=logs, log_delta=st.floats(min_value=-250, max_value=-0.5))
def test_epsilon_and_mu_invert_each_other(log_mu, log_delta):
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = mu_to_epsilon(mu, delta)
    if epsilon > 0:
        assert log_delta_of(epsilon, mu) == pytest.approx(math.log(delta), rel=1e-10)
        assert epsilon_to_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)


def test_negative_epsilon_mirrors_positive():
    assert delta_of(-0.7, 1.3) == pytest.approx(float(gaussian_delta(-0.7, 1.3)), rel=1e-12)


def test_edges():
    assert mu_to_epsilon(0, 1e-5) == 0
    assert mu_to_epsilon(0.1, 0.5) == 0
    assert mu_to_epsilon(1, 0) == math.inf
    assert mu_to_epsilon(math.inf, 0.1) == math.inf
    assert delta_of(1, 0) == 0
    for wrong in (
        lambda: mu_to_epsilon(-1, 0.1),
        lambda: mu_to_epsilon(math.nan, 0.1),
        lambda: mu_to_epsilon(1, 1),
    ):
        with pytest.raises(TacitError):
            wrong()
    for epsilon, delta in ((1, 0), (-1, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1, math.nan)):
        with pytest.raises(TacitError):
            epsilon_to_mu(epsilon, delta)
