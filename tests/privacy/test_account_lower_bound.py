"""The lower bound on ε: never above the exact value, and close to it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from tacit.privacy import Exact, Gaussian, Laplace, Release, Sampling, Unproven, epsilon, epsilon_lower_bound
from tacit.privacy.gdp import delta_of, mu_to_epsilon
from tests.privacy.oracles_accounting import bracket, laplace_delta
from tests.privacy.streams import MECHANISMS, poisson, repeated, sampling, stream, without_replacement


@settings(max_examples=25, deadline=None)
@given(
    law=st.sampled_from(["gaussian", "laplace"]),
    log_multiplier=st.floats(min_value=-0.4, max_value=1),
    rate=st.sampled_from([0.003, 0.02, 0.1, 0.5, 1.0]),
    count=st.integers(min_value=1, max_value=60),
    log_delta=st.floats(min_value=-7, max_value=-2),
)
def test_the_lower_bound_agrees_with_independent_bounds(law, log_multiplier, rate, count, log_delta):
    multiplier, delta = 10**log_multiplier, 10**log_delta
    found = epsilon_lower_bound(poisson(multiplier, rate, law=law), delta, times=count)
    lower, upper = bracket(law, multiplier, rate, count, delta, step=max(4e-3 * found, 1e-4))
    assert found <= upper + 1e-9
    assert found >= 0.985 * lower - 1e-3 * rate / multiplier


@pytest.mark.parametrize(("law", "delta_at"), [("gaussian", lambda e: delta_of(e, 0.8)), ("laplace", laplace_delta)])
@pytest.mark.parametrize("sampled", ["poisson", "without-replacement"])
def test_one_draw_is_just_below_the_closed_form(law, delta_at, sampled):
    """δ(ε′) = q δ(ε) with ε′ = log(1 + q (e^ε − 1)): Balle, Barthe and Gaboardi 2018."""
    rate = 0.2
    for inner in (0.05, 0.3, 0.7):
        delta = rate * (delta_at(inner, 1.25) if law == "laplace" else delta_at(inner))
        releases = [Release(0, "value", MECHANISMS[law](1.25), sampling(sampled, rate, "replace-one"))]
        exact = math.log1p(rate * math.expm1(inner))
        assert 0.994 * exact - 1e-4 <= epsilon_lower_bound(releases, delta) <= exact


@pytest.mark.parametrize("count", [1, 7, 400])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_gaussian_noise_without_sampling_is_exact(count, relation):
    for multiplier, delta in ((0.5, 1e-5), (4.0, 1e-3), (30.0, 1e-9)):
        exact = mu_to_epsilon(math.sqrt(count) / multiplier, delta)
        releases = stream([Gaussian(multiplier)], sampling(relation=relation))
        assert exact * (1 - 1e-7) <= epsilon_lower_bound(releases, delta, times=count) <= exact


@settings(max_examples=25, deadline=None)
@given(
    law=st.sampled_from(["gaussian", "laplace"]),
    relation=st.sampled_from(["add-remove", "replace-one"]),
    multiplier=st.floats(min_value=0.3, max_value=50),
    rate=st.floats(min_value=1e-4, max_value=1),
    count=st.integers(min_value=1, max_value=5_000),
    log_delta=st.floats(min_value=-9, max_value=-0.1),
)
def test_the_lower_bound_is_below_the_guarantee(law, relation, multiplier, rate, count, log_delta):
    releases, delta = poisson(multiplier, rate, law=law, relation=relation), 10**log_delta
    upper = epsilon(releases, delta, times=count)
    lower = epsilon_lower_bound(releases, delta, times=count)
    assert 0 <= lower <= upper
    if relation == "add-remove" and upper < 500:
        assert lower >= 0.95 * upper - 0.01 * rate / multiplier


def test_a_permutation_is_bounded_by_one_draw():
    """Two batches: the laws are ½ N((μ, 0), I) + ½ N((0, μ), I) and N(0, I), integrated on a plane."""
    mu, delta = 1.5, 1e-3
    line = np.linspace(-9, 11, 1001)
    one, other = (stats.norm(mean, 1).pdf(line) * (line[1] - line[0]) for mean in (mu, 0.0))
    with_record = (np.multiply.outer(one, other) + np.multiply.outer(other, one)) / 2
    without = np.multiply.outer(other, other)

    def excess(e):
        both = (np.maximum(p - math.exp(e) * q, 0).sum() for p, q in ((with_record, without), (without, with_record)))
        return max(both) - delta

    exact = optimize.brentq(excess, 0.1, 20)
    releases = repeated(Gaussian(1 / mu), 2, sampling("permutation", 0.5, "replace-one"))
    lower = epsilon_lower_bound(releases, delta)
    assert 0.5 * exact < lower < exact < epsilon(releases, delta)


def test_epochs_of_a_permutation_may_depend_on_each_other():
    drawn = sampling("permutation", 0.25, "replace-one")
    one = epsilon_lower_bound(repeated(Gaussian(1.0), 4, drawn), 1e-5)
    assert one > 0
    assert epsilon_lower_bound(repeated(Gaussian(1.0), 40, drawn), 1e-5) == one
    all_records = sampling("permutation", 1.0, "replace-one")
    exact = mu_to_epsilon(2.0, 1e-5)
    assert epsilon_lower_bound(repeated(Gaussian(1.0), 4, all_records), 1e-5) == pytest.approx(exact, rel=1e-6)


def test_many_different_losses_count_as_slightly_smaller_ones():
    noise = np.linspace(1.0, 3.0, 500)
    for drawn in (sampling("poisson", 0.02), sampling()):
        for law in (Gaussian, Laplace):
            releases = stream([law(multiplier) for multiplier in noise], drawn)
            upper = epsilon(releases, 1e-5)
            assert 0.96 * upper < epsilon_lower_bound(releases, 1e-5) <= upper
    rates = np.linspace(0.01, 0.02, 500)
    releases = [
        Release(t, "value", Gaussian(1.0), Sampling("poisson", rates[t, None], "add-remove")) for t in range(500)
    ]
    upper = epsilon(releases, 1e-5)
    assert 0.9 * upper < epsilon_lower_bound(releases, 1e-5) <= upper


def test_the_node_with_the_largest_epsilon_counts():
    drawn = Sampling("poisson", np.array([0.01, 0.2, 0.05]), "add-remove")
    releases = [Release(t, "value", Gaussian(np.array([1.0, 1.0, 2.0])), drawn) for t in range(20)]
    alone = epsilon_lower_bound(poisson(1.0, 0.2), 1e-5, times=20)
    assert epsilon_lower_bound(releases, 1e-5) == pytest.approx(alone, rel=1e-9)


def test_without_noise_no_epsilon_holds():
    assert epsilon_lower_bound(stream([Exact()]), 1e-5) == math.inf
    assert epsilon_lower_bound(stream([Gaussian(1.0), Exact()], sampling("poisson", 0.1)), 1e-5) == math.inf
    assert epsilon_lower_bound(stream([Exact()], sampling("poisson", 1e-6)), 1e-5) == 0  # δ allows it
    assert epsilon_lower_bound(stream([Gaussian(1e-200)]), 1e-5) > 1000


def test_noise_without_a_proof_counts_as_no_loss():
    assert epsilon_lower_bound(stream([Unproven(Gaussian(1.0))]), 1e-5) == 0
    both = epsilon_lower_bound(stream([Unproven(Gaussian(1.0)), Gaussian(2.0)]), 1e-5)
    assert both == pytest.approx(mu_to_epsilon(0.5, 1e-5), rel=1e-6)


def test_a_pair_of_laws_that_no_value_attains_counts_as_no_loss(monkeypatch):
    releases = stream([Laplace(2.0), Gaussian(2.0)])
    assert epsilon_lower_bound(releases, 1e-5) > mu_to_epsilon(0.5, 1e-5)
    monkeypatch.setattr(type(Laplace.loss), "is_attained", False)
    assert epsilon_lower_bound(releases, 1e-5) == pytest.approx(mu_to_epsilon(0.5, 1e-5), rel=1e-6)


def test_delta_0():
    assert epsilon_lower_bound(stream([Gaussian(5.0)]), 0.0) == math.inf
    assert epsilon_lower_bound(repeated(Laplace(2.0), 3), 0.0) == pytest.approx(1.5, rel=1e-5)
    exact = 3 * math.log1p(0.1 * math.expm1(0.5))
    assert epsilon_lower_bound(poisson(2.0, 0.1, 3, "laplace"), 0.0) == pytest.approx(exact, rel=1e-5)
    assert epsilon_lower_bound(without_replacement(2.0, 0.1, 3, "laplace"), 0.0) == pytest.approx(exact, rel=1e-5)


def test_no_releases_have_lower_bound_0():
    assert epsilon_lower_bound([], 1e-5) == 0
    assert epsilon_lower_bound(poisson(1e9, 0.1), 1e-5) == 0
