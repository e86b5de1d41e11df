"""The guaranteed ε: never below independent lower bounds, and within one percent of the exact value."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant, pld_pmf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from tacit.errors import TacitError
from tacit.privacy import Exact, Gaussian, Laplace, Unproven, epsilon
from tacit.privacy.accounting.coarsening import Factor
from tacit.privacy.accounting.composition import compose_losses
from tacit.privacy.accounting.convolution import epsilon_of_sum
from tacit.privacy.accounting.losses import LossCounts, SampledLoss
from tacit.privacy.accounting.pld import LossDistribution, loss_distribution
from tacit.privacy.gdp import delta_of, mu_to_epsilon
from tests.privacy.oracles_accounting import bracket, compose, gaussian_delta, laplace_delta, pair, sampled
from tests.privacy.streams import poisson, repeated, sampling, stream, without_replacement


@pytest.mark.parametrize(
    ("multiplier", "rate", "count", "delta", "least", "most"),
    [
        (1, 0.01, 1000, 1e-5, 1.8180, 1.8282 * 1.01),  # prv_accountant: at least 1.818
        (0.8, 0.05, 2000, 1e-6, 29.08, 29.10 * 1.01),
        (4, 1, 100, 1e-5, 13.20671, 13.20672),
        (1, 1e-3, 20000, 1e-6, 0.7930, 0.794 * 1.01),
    ],
)
def test_known_values(multiplier, rate, count, delta, least, most):
    assert least <= epsilon(poisson(multiplier, rate, count), delta) <= most


def test_composition_is_far_below_the_sum():
    """Fifty rounds, each (1, 1e-5) by the classical σ = √(2 log(1.25/δ))."""
    assert epsilon(repeated(Gaussian(math.sqrt(2 * math.log(1.25e5))), 50), 1e-5) == pytest.approx(6.8, abs=0.05)


def test_dp_norm_costs_less_than_it_claims():
    assert epsilon(repeated(Gaussian(167.7), 2000), 1e-3) == pytest.approx(0.64, abs=0.005)


@settings(max_examples=20, deadline=None)
@given(
    law=st.sampled_from(["gaussian", "laplace"]),
    relation=st.sampled_from(["add-remove", "replace-one"]),
    log_multiplier=st.floats(min_value=-0.4, max_value=1),
    rate=st.sampled_from([0.003, 0.02, 0.1, 0.5, 1.0]),
    count=st.integers(min_value=1, max_value=60),
    log_delta=st.floats(min_value=-7, max_value=-2),
)
def test_epsilon_is_within_independent_bounds(law, relation, log_multiplier, rate, count, log_delta):
    multiplier, delta = 10**log_multiplier, 10**log_delta
    found = epsilon(poisson(multiplier, rate, count, law, relation), delta)
    spread = max(4e-3 * found, 1e-4)
    lower, upper = bracket(law, multiplier, rate, count, delta, relation, step=spread)
    assert lower - 1e-9 <= found
    assert found <= max(1.01 * upper, upper + 1e-3 * rate / multiplier)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize(("multiplier", "rate", "count"), [(0.6, 0.1, 30), (2.0, 0.02, 400), (1.0, 0.5, 5)])
def test_agrees_with_dp_accounting(law, multiplier, rate, count):
    one = dp.GaussianDpEvent(multiplier) if law == "gaussian" else dp.LaplaceDpEvent(multiplier)
    other = PLDAccountant(value_discretization_interval=1e-3 if multiplier < 1 else 1e-4)
    other.compose(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, one), count))
    assert epsilon(poisson(multiplier, rate, count, law), 1e-6) == pytest.approx(other.get_epsilon(1e-6), rel=0.01)


def test_many_releases_add_up_even_if_each_is_negligible():
    other = PLDAccountant(value_discretization_interval=1e-4)
    other.compose(dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(1e-3, dp.GaussianDpEvent(1.0)), 5000))
    assert epsilon(poisson(1.0, 1e-3), 1e-3) == 0
    assert epsilon(poisson(1.0, 1e-3, 5000), 1e-3) == pytest.approx(other.get_epsilon(1e-3), rel=0.01)


@pytest.mark.parametrize(
    ("mu", "count", "delta"),
    [
        (0.01, 10_000, 1e-60),
        (1, 10, 1e-100),
        (5, 50, 1e-10),
        (100, 3, 1e-5),
        (1e-4, 10**6, 1e-6),
        (1e-6, 10, 1e-9),
    ],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_composition_of_gaussian_losses_matches_the_closed_form(mu, count, delta, relation):
    """The convolution, where the answer is known: tiny δ, huge and tiny ε, many steps."""
    exact = mu_to_epsilon(mu * math.sqrt(count), delta)
    losses = LossCounts({SampledLoss(Gaussian.loss, 1.0, mu): count})
    assert exact <= compose_losses(losses, delta, relation, 0.006) <= 1.006 * exact


@pytest.mark.parametrize(("multiplier", "count", "delta"), [(4.0, 100, 1e-5), (1.0, 1, 1e-2), (0.3, 7, 1e-9)])
def test_epsilon_of_gaussian_releases_is_an_upper_bound_to_sixty_digits(multiplier, count, delta):
    found = epsilon(repeated(Gaussian(multiplier), count), delta)
    mu = math.sqrt(count) / multiplier
    assert gaussian_delta(found, mu) <= delta
    assert gaussian_delta(found * (1 - 1e-8), mu) > delta


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_sum_of_few_losses_matches_direct_convolution(count, delta):
    """Losses from −5h to 20h, the likeliest at h, and infinite losses for a tenth of δ."""
    h, infinite = 0.1, delta / count / 10
    mass = 0.6 ** np.abs(np.arange(-5.0, 21.0) - 1)
    mass *= (1 - infinite) / mass.sum()
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, mass)
    losses = h * (np.arange(len(total)) - 5 * count)

    def excess(at):
        return -np.expm1(count * np.log1p(-infinite)) + np.maximum(-np.expm1(at - losses), 0) @ total - delta

    exact = optimize.brentq(excess, 0, losses[-1], xtol=1e-14)
    law = LossDistribution(np.arange(-5, 21), mass, infinite)
    assert exact * (1 - 1e-9) <= epsilon_of_sum([law], [Factor(0, 0, 0.0, count)], h, delta, exact) <= 1.001 * exact


@pytest.mark.parametrize("tail", [1e-2, 1e-5])
@pytest.mark.parametrize("direction", ["remove", "add", "replace"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_no_mass_is_lost_beyond_the_last_cell(rate, direction, tail):
    found = loss_distribution(SampledLoss(Gaussian.loss, rate, 1.5), direction, 0.05, tail)
    assert found.mass.sum() + found.infinite == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(min_value=1e-3, max_value=1),
    mu=st.floats(min_value=0.05, max_value=5),
    index=st.integers(min_value=-40, max_value=40),
    direction=st.sampled_from(["remove", "add", "replace"]),
)
def test_profile_is_exact_on_the_grid(rate, mu, index, direction):
    """δ(ε) of the discretised loss at multiples of h against amplification by subsampling of the exact δ."""
    h = 0.02 * mu * math.sqrt(rate)
    at = index * h

    def removed(e: float) -> float:
        inner = math.expm1(e) / rate
        return rate * float(gaussian_delta(math.log1p(inner), mu)) if inner > -1 else -math.expm1(e)

    exact = removed(at) if direction == "remove" or (direction == "replace" and at >= 0) else None
    if exact is None:  # the mirror image: H_α(Q‖P) = 1 − α + α H_{1/α}(P‖Q)
        exact = -math.expm1(at) + math.exp(at) * removed(-at)
    assert profile(direction, rate, mu, h, at) == pytest.approx(exact, rel=1e-6, abs=1e-12)
    assert profile(direction, rate, mu, h, at) >= exact * (1 - 1e-9) - 1e-15


def profile(direction: str, rate: float, mu: float, h: float, at: float) -> float:
    found = loss_distribution(SampledLoss(Gaussian.loss, rate, mu), direction, h, 1e-14)
    losses = found.multiples * h
    return float(found.infinite + np.maximum(-np.expm1(at - losses), 0) @ found.mass)


@pytest.mark.parametrize(
    ("law", "base"), [("gaussian", lambda e: delta_of(e, 0.8)), ("laplace", lambda e: laplace_delta(e, 1.25))]
)
def test_one_draw_without_replacement_is_the_closed_form(law, base):
    """δ(ε′) = q δ(ε) with ε′ = log(1 + q (e^ε − 1)): Balle, Barthe and Gaboardi 2018."""
    for inner in (0.05, 0.3, 0.7):
        rate, outer = 0.2, math.log1p(0.2 * math.expm1(inner))
        found = epsilon(without_replacement(1.25, rate, law=law), rate * base(inner))
        assert outer * (1 - 1e-9) <= found <= 1.01 * outer


def test_replace_one_matches_dp_accounting_on_the_same_profile():
    rate, mu, h, count = 0.1, 1.0, 2e-3, 25
    grid = np.arange(-4000, 8001)
    at = np.abs(grid) * h
    inner = np.log1p(np.expm1(at) / rate)
    one = rate * np.array([delta_of(e, mu) for e in inner])
    deltas = np.where(grid >= 0, one, -np.expm1(-at) + np.exp(-at) * one)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(h, grid, np.clip(deltas, 0, 1)).self_compose(count)
    found = epsilon(without_replacement(1.0, rate, count), 1e-5)
    assert found == pytest.approx(pmf.get_epsilon_for_delta(1e-5), rel=0.005)


def test_replace_one_dominates_both_single_directions():
    for multiplier, rate, count in ((0.7, 0.05, 50), (1.5, 0.3, 20)):
        replaced = epsilon(poisson(multiplier, rate, count, relation="replace-one"), 1e-5)
        assert replaced >= epsilon(poisson(multiplier, rate, count), 1e-5) * (1 - 0.007)


@pytest.mark.parametrize(
    ("multiplier", "rate", "count", "delta"), [(2.0, 0.5, 2, 0.1), (1.0, 0.7, 2, 0.3), (5.0, 0.5, 4, 0.01)]
)
def test_adding_a_record_can_cost_more_than_removing_one(multiplier, rate, count, delta):
    """Laplace noise with large δ: ε of both relations is the larger of the two directions."""
    base, step = pair("laplace", multiplier, 100_001), 2e-5
    masses, low, _ = sampled(base, rate, "add")
    added = compose(masses, low, False, count, delta, step)
    masses, _, high = sampled(base, rate, "remove")
    removed = compose(masses, high, True, count, delta, step)
    assert added > 1.04 * removed
    found = epsilon(poisson(multiplier, rate, count, "laplace"), delta)
    assert added - 1e-9 <= found <= 1.01 * added + 1e-3


def test_rate_1_equals_no_sampling():
    plain = {
        relation: epsilon(repeated(Laplace(3.0), 20, sampling("none", 1.0, relation)), 1e-4)
        for relation in ("add-remove", "replace-one")
    }
    for relation, exact in plain.items():
        assert epsilon(poisson(3.0, 1.0, 20, "laplace", relation), 1e-4) == pytest.approx(exact, rel=1e-12)
    all_drawn = epsilon(without_replacement(3.0, 1.0, 20, "laplace"), 1e-4)
    assert all_drawn == pytest.approx(plain["add-remove"], rel=1e-12)
    assert epsilon(poisson(2.0, 1.0, 9), 1e-4) == pytest.approx(mu_to_epsilon(1.5, 1e-4), rel=1e-8)


@settings(max_examples=30, deadline=None)
@given(
    multiplier=st.floats(min_value=0.4, max_value=8),
    rate=st.floats(min_value=1e-3, max_value=0.9),
    count=st.integers(min_value=1, max_value=500),
    log_delta=st.floats(min_value=-9, max_value=-2),
    law=st.sampled_from(["gaussian", "laplace"]),
    relation=st.sampled_from(["add-remove", "replace-one"]),
)
def test_epsilon_is_monotone(multiplier, rate, count, log_delta, law, relation):
    """Up to the percent that any two values may differ by."""
    delta = 10**log_delta
    here = epsilon(poisson(multiplier, rate, count, law, relation), delta)
    slack = 0.007 * here + 1e-3 * rate / multiplier
    assert epsilon(poisson(1.2 * multiplier, rate, count, law, relation), delta) <= here + slack
    assert epsilon(poisson(multiplier, 0.8 * rate, count, law, relation), delta) <= here + slack
    assert epsilon(poisson(multiplier, rate, count + 1 + count // 4, law, relation), delta) >= here - slack
    assert epsilon(poisson(multiplier, rate, count, law, relation), min(0.9, 3 * delta)) <= here + slack


@settings(max_examples=40, deadline=None)
@given(
    share=st.floats(min_value=0.01, max_value=0.99),
    scale=st.floats(min_value=0.3, max_value=5),
    at=st.floats(min_value=-1, max_value=1),
)
def test_one_axis_is_the_worst_shift_of_laplace_noise(share, scale, at):
    """The L1 sensitivity spread over two coordinates gives no more δ than all of it in one."""
    width = 0.005
    spread = [SampledLoss(Laplace.loss, 1.0, part / scale) for part in (share, 1 - share)]
    parts = [loss_distribution(loss, "remove", width, 1e-12) for loss in spread]
    mass = np.multiply.outer(parts[0].mass, parts[1].mass).ravel()
    losses = np.add.outer(parts[0].multiples, parts[1].multiples).ravel() * width
    both = float(np.maximum(-np.expm1(at - losses), 0) @ mass)
    least = at - 2 * width  # each part's losses are rounded up by at most a cell
    alone = max(0.0, -math.expm1((least - 1 / scale) / 2)) if least > -1 / scale else -math.expm1(least)
    assert both <= alone + 1e-9


def test_laplace_is_at_most_the_sum_of_its_losses():
    one = Laplace(4.0)
    assert epsilon(repeated(one, 8), 0.0) == pytest.approx(2.0)
    assert epsilon(repeated(one, 1), 1e-12) <= 0.25 * (1 + 1e-8)
    assert epsilon(repeated(one, 1000), 1e-6) < 70 < 250
    assert epsilon(repeated(one, 1, sampling("poisson", 0.1)), 0.0) == pytest.approx(math.log1p(0.1 * math.expm1(0.25)))


def test_streams_of_several_mechanisms():
    """Gaussian parts merge; a mixture of laws lies between its parts and their sum."""
    gaussian, laplace = [Gaussian(5.0)] * 9, [Laplace(6.0)] * 9
    both = epsilon(stream([*gaussian, *laplace]), 2e-6)
    assert max(epsilon(stream(gaussian), 2e-6), epsilon(stream(laplace), 2e-6)) < both
    assert both < epsilon(stream(gaussian), 1e-6) + epsilon(stream(laplace), 1e-6)
    merged = stream([Gaussian(3.0), Gaussian(4.0), Gaussian(4.0)])
    assert epsilon(merged, 1e-5) == pytest.approx(mu_to_epsilon(math.sqrt(1 / 9 + 2 / 16), 1e-5), rel=1e-8)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_noise_gives_infinite_epsilon(relation):
    drawn = sampling("poisson", 0.1, relation)
    assert epsilon(stream([Gaussian(1.0), Exact()], drawn), 1e-5) == math.inf
    assert epsilon(stream([Gaussian(1.0), Unproven(Laplace(1.0))], drawn), 1e-5) == math.inf
    assert epsilon(stream([Gaussian(1.0), Gaussian(1e-150)], drawn), 1e-5) == math.inf


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_no_releases_give_epsilon_0(relation):
    assert epsilon(poisson(1.0, 0.0, relation=relation), 0.0) == 0
    assert epsilon([], 1e-5) == 0
    assert epsilon(stream([Gaussian(1e9)], sampling(relation=relation)), 0.0) == math.inf  # but not nothing at all
    assert epsilon(poisson(1e9, 0.1, relation=relation), 1e-5) == 0


def test_refusals():
    with pytest.raises(TacitError, match="replace-one"):
        epsilon(repeated(Gaussian(1.0), 1, sampling("without-replacement", 0.2)), 1e-5)
    for noise in (-1.0, 0.0, math.inf, math.nan):
        with pytest.raises(TacitError, match="noise_multiplier"):
            Gaussian(noise)
    for rate in (1.5, -0.1, math.nan):
        with pytest.raises(TacitError, match="sampling rate"):
            epsilon(poisson(1.0, rate), 1e-5)
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(TacitError):
            epsilon(stream([Gaussian(1.0)]), delta)
    with pytest.raises(TacitError, match="relation"):
        epsilon(stream([Gaussian(1.0)], sampling(relation="swap")), 1e-5)
    with pytest.raises(TacitError, match="same relation"):
        epsilon([*poisson(1.0, 0.1), *poisson(1.0, 0.1, relation="replace-one")], 1e-5)
    one, other = poisson(1.0, 0.1), poisson(1.0, 0.2)
    with pytest.raises(TacitError, match="several different draws"):
        epsilon([*one, *other], 1e-5)
