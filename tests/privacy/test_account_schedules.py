"""Streams in which every step differs: coarsened losses, and rates that dominate many."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy import Gaussian, Laplace, Release, epsilon
from tacit.privacy.accounting import coarsening, composition, convolution
from tacit.privacy.accounting.accountant import dominating_values
from tacit.privacy.accounting.composition import forget_compositions
from tacit.privacy.accounting.losses import LossCounts, SampledLoss
from tests.privacy.oracles_accounting import gaussian_delta
from tests.privacy.streams import sampling


def schedule(multipliers, rates, mechanism=Gaussian, relation="add-remove"):
    rates = np.broadcast_to(rates, multipliers.shape)
    return [
        Release(step, "gradient", mechanism(multiplier), sampling("poisson", rate, relation))
        for step, (multiplier, rate) in enumerate(zip(multipliers, rates, strict=True))
    ]


@pytest.mark.parametrize("mechanism", [Gaussian, Laplace])
@pytest.mark.parametrize(("rate", "strongest", "decay"), [(0.01, 0.45, 8), (0.3, 2.0, 3), (1.0, 9.0, 1.5)])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_coarsened_schedule_is_a_close_upper_bound(monkeypatch, mechanism, rate, strongest, decay, relation):
    releases = schedule(strongest * decay ** np.linspace(0, 1, 300), rate, mechanism, relation)
    thinned = epsilon(releases, 1e-5)
    monkeypatch.setattr(coarsening, "MAX_DISTINCT", 1000)
    forget_compositions()
    whole = epsilon(releases, 1e-5)
    assert 0.995 * whole <= thinned <= 1.008 * whole


def test_schedule_lies_between_its_extremes_and_agrees_with_few_equal_steps():
    multipliers = np.repeat(np.linspace(0.8, 1.6, 20), 10)
    jitter = 1 + 1e-9 * np.arange(200)  # makes all steps different, to no effect
    plain, different = (epsilon(schedule(multipliers * j, 0.05), 1e-6) for j in (1, jitter))
    assert different == pytest.approx(plain, rel=0.008)


def test_schedule_of_rates():
    rates = np.linspace(0.01, 0.03, 400)
    several = epsilon(schedule(np.full(400, 0.9), rates), 1e-5)
    low, high = (epsilon(schedule(np.full(400, 0.9), r), 1e-5) for r in (0.01, 0.03))
    assert low < several < high
    fine = np.ceil(rates / 0.001 - 1e-9) * 0.001  # 21 rates, all exact
    coarse = np.floor(rates / 0.001 + 1e-9) * 0.001
    middle = [epsilon(schedule(np.full(400, 0.9), r), 1e-5) for r in (coarse, fine)]
    assert middle[0] * 0.995 <= several <= middle[1] * 1.005


@settings(max_examples=60, deadline=None)
@given(
    low=st.floats(min_value=0.01, max_value=6),
    ratio=st.floats(min_value=1.001, max_value=2),
    part=st.floats(min_value=0.01, max_value=0.99),
    at=st.floats(min_value=-6, max_value=6),
)
def test_mixture_of_two_levels_dominates_values_between_them(low, ratio, part, at):
    high = low * ratio
    mu = low + part * (high - low)
    p = float(coarsening.strong_probability(Gaussian.loss, *(np.array([x]) for x in (low, high, mu)))[0])
    e = at * mu
    mixed = (1 - p) * gaussian_delta(e, low) + p * gaussian_delta(e, high)
    assert float(mixed) >= float(gaussian_delta(e, mu)) * (1 - 1e-9) - 1e-15


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=12))
def test_equal_probabilities_with_the_same_product_dominate(chances):
    """J of unequal chances is stochastically below the binomial with (1 − p)ⁿ = Π(1 − p_k)."""
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    kept = math.prod(1 - p for p in chances) ** (1 / len(chances))
    binomial = np.ones(1)
    for _ in chances:
        binomial = np.convolve(binomial, [kept, 1 - kept])
    assert (np.cumsum(binomial[::-1]) >= np.cumsum(law[::-1]) - 1e-12).all()


def test_coarsening_keeps_the_count_and_dominates():
    counts = LossCounts({SampledLoss(Gaussian.loss, 0.1, float(mu)): 3 for mu in np.geomspace(0.1, 3, 500)})
    losses, factors = coarsening.coarsen_losses(counts, 0.02)
    assert sum(factor.times for factor in factors) == 1500
    assert all(a.mu < b.mu for a, b in pairwise(losses))
    s = {loss.mu: math.erf(loss.mu / math.sqrt(8)) for loss in losses}
    mean = sum(f.times * ((1 - f.p) * s[losses[f.weak].mu] + f.p * s[losses[f.strong].mu]) for f in factors)
    assert mean >= sum(3 * math.erf(loss.mu / math.sqrt(8)) for loss in counts)


def test_schedule_of_3500_steps():
    """Dyn-D²P's schedule (ρ_μ = 10). All 3,500 losses composed by dp_accounting, in three minutes: 3.9862."""
    mus = 0.2953565885116193 * 10 ** (np.arange(3500) / 3500)
    assert 3.98 < epsilon(schedule(1 / mus, 1 / 2500), 1e-4) < 1.005 * 3.9862


@settings(max_examples=100, deadline=None)
@given(
    rates=st.lists(st.floats(min_value=1e-6, max_value=1), min_size=1, max_size=200),
    most=st.integers(min_value=2, max_value=20),
)
def test_dominating_values(rates, most):
    given_, raised = np.array(rates), dominating_values(rates, most)
    assert (raised >= given_).all()
    assert raised.max() == given_.max()
    assert len(np.unique(raised)) <= most
    if len(set(rates)) <= most:
        assert (raised == given_).all()
    else:
        assert (raised / given_).max() <= (given_.max() / given_.min()) ** (1 / most) * (1 + 1e-6)


def test_dominating_values_with_zeros_and_invalid_values():
    raised = dominating_values([0.0, 0.1, 0.2, 0.3], max_values=2)
    assert raised[0] == 0
    assert len(np.unique(raised)) == 2
    for wrong in ([0.1, math.nan, 0.2, 0.3], [-0.1, 0.1, 0.2, 0.3]):
        with pytest.raises(TacitError):
            dominating_values(wrong, max_values=2)


def endless_schedule(rounds):
    """A schedule of five rounds, of which each has 13 % less noise than the one before, that runs on after its end."""
    return schedule(3.0 * 2 ** (-np.arange(rounds) / 5), 0.44)


def test_enormous_epsilon_needs_no_enormous_grid(monkeypatch):
    """Budgets of extended runs compute it. Rounds 70 to 105 of this schedule once needed 2²⁵ cells and minutes."""
    lengths = []
    transform = convolution.tilted_transform
    monkeypatch.setattr(convolution, "tilted_transform", lambda *given: lengths.append(given[-1]) or transform(*given))
    found = epsilon(endless_schedule(105), 1e-4)
    without_sampling = epsilon(schedule(3.0 * 2 ** (-np.arange(105) / 5), 1.0), 1e-4)
    assert 0.9 * without_sampling < found <= 1.01 * without_sampling
    assert max(lengths) < 2**20


def test_coarse_grid_of_an_enormous_epsilon_is_a_close_upper_bound(monkeypatch):
    coarse = epsilon(endless_schedule(65), 1e-4)
    monkeypatch.setattr(composition, "_LARGEST_ERROR", 0.0)
    forget_compositions()
    assert 0.995 * epsilon(endless_schedule(65), 1e-4) <= coarse <= 1.005 * epsilon(endless_schedule(65), 1e-4)
