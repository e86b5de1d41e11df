"""Few steps with a small sampling rate: a rare loss is many times larger than ε."""

import math

import pytest

from tacit.privacy import epsilon
from tacit.privacy.accounting import convolution
from tacit.privacy.gdp import delta_of
from tests.privacy.oracles_accounting import bracket
from tests.privacy.streams import poisson


@pytest.mark.parametrize("rate", [1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("multiplier", [0.5, 1.0])
def test_one_draw_has_the_closed_form(rate, multiplier):
    """δ(ε′) = q δ(ε) with ε′ = log(1 + q (e^ε − 1)), from δ close to the total variation to a small δ."""
    for inner in (0.05, 1.0, 3.0, 5.0):
        exact = math.log1p(rate * math.expm1(inner))
        found = epsilon(poisson(multiplier, rate), rate * delta_of(inner, 1 / multiplier))
        assert exact * (1 - 1e-9) <= found <= 1.01 * exact + 2e-3 * rate / multiplier


@pytest.mark.parametrize(("count", "delta"), [(10, 1.4e-6), (10, 2e-5), (100, 1.4e-5), (100, 2e-4)])
def test_few_draws_agree_with_independent_bounds(count, delta):
    found = epsilon(poisson(0.5, 1e-5, count), delta)
    lower, upper = bracket("gaussian", 0.5, 1e-5, count, delta, step=1e-6 * count)
    assert lower <= found <= 1.01 * upper + 1e-5


def test_transforms_stay_short_where_losses_have_heavy_tails(monkeypatch):
    lengths = []
    inverse = convolution.scipy.fft.irfft
    monkeypatch.setattr(convolution.scipy.fft, "irfft", lambda a, n: lengths.append(n) or inverse(a, n))
    assert epsilon(poisson(0.92, 3.6e-4, 42_000), 1e-12) < 1.05
    assert epsilon(poisson(0.5, 1e-4, 38), 1e-3) < 1e-3
    assert max(lengths) < 2**21
