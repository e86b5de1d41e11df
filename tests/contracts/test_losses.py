"""The tests that the privacy loss of every registered mechanism must pass: the contract in `PrivacyLoss`."""

import math

import numpy as np
import pytest

from tacit.privacy import NO_PRIVACY, PrivacyLoss, mechanisms
from tacit.privacy.accounting.composition import compose_losses
from tacit.privacy.accounting.losses import LossCounts, SampledLoss

LAWS: list[PrivacyLoss] = sorted(
    {mechanisms.registered(name).loss for name in mechanisms} - {NO_PRIVACY}, key=lambda law: law.name
)
MUS = [0.02, 0.3, 1.0, 2.5, 6.0]

every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
every_mu = pytest.mark.parametrize("mu", MUS)


def points(law, mu):
    """Losses in the bulk and in the tails, with those at which an atom may be."""
    reach = law.reach(mu, 1e-9)
    return np.unique(np.concatenate([np.linspace(-1.2 * reach, 1.2 * reach, 401), [-reach, 0.0, reach, -mu, mu]]))


def delta(law, at, mu):
    """δ(ε) = P(loss > ε) − e^ε Q(loss > ε)."""
    at = np.asarray(at, float)
    return law.shifted_cdf(at, mu)[1] - np.exp(at) * law.cdf(at, mu)[1]


@every_law
@every_mu
def test_both_laws_are_distributions(law, mu):
    y = points(law, mu)
    for below, above in (law.cdf(y, mu), law.shifted_cdf(y, mu)):
        assert (np.diff(below) >= 0).all()
        assert (np.diff(above) <= 0).all()
        assert below + above == pytest.approx(np.ones(len(y)), abs=1e-12)
        assert below.min() >= 0
        assert above.min() >= 0


@every_law
@every_mu
def test_the_pair_is_symmetric(law, mu):
    """P(loss ≤ y) = Q(loss ≥ −y), with atoms: Q(loss ≥ −y) = Q(loss > y′) for the largest y′ < −y."""
    y = points(law, mu)
    assert law.shifted_cdf(y, mu)[0] == pytest.approx(law.cdf(np.nextafter(-y, -np.inf), mu)[1], rel=1e-9, abs=1e-300)


@every_law
@every_mu
def test_the_loss_is_the_logarithm_of_the_likelihood_ratio(law, mu):
    """Where the loss is in (a, b], P is between e^a and e^b times Q."""
    y = points(law, mu)
    p, q = np.diff(law.shifted_cdf(y, mu)[0]), np.diff(law.cdf(y, mu)[0])
    assert (p >= np.exp(y[:-1]) * q - 1e-13 * np.exp(np.maximum(y[:-1], 0))).all()
    assert (p <= np.exp(y[1:]) * q + 1e-13 * np.exp(np.maximum(y[1:], 0))).all()


@every_law
@every_mu
def test_tails_are_accurate_where_they_are_small(law, mu):
    """P(loss > y) is at least e^y Q(loss > y), also far out, where 1 − cdf would be 0."""
    y = np.linspace(0, 0.999 * law.reach(mu, 1e-60), 200)
    p, q = law.shifted_cdf(y, mu)[1], law.cdf(y, mu)[1]
    assert (p > 0).all()
    assert (np.log(p) >= y + np.log(q) - 1e-9).all()


@every_law
def test_a_larger_mu_dominates(law):
    at = np.linspace(-4, 8, 241)
    profiles = np.array([delta(law, at, mu) for mu in np.geomspace(0.01, 8, 60)])
    assert (np.diff(profiles, axis=0) >= -1e-13 * np.exp(np.maximum(at, 0))).all()


@every_law
def test_the_total_variation_is_delta_at_0(law):
    mus = np.array(MUS)
    exact = np.array([float(delta(law, 0.0, mu)) for mu in MUS])
    assert law.total_variation(mus) == pytest.approx(exact, rel=1e-9, abs=1e-14)
    assert law.total_variation_complement(mus) == pytest.approx(1 - exact, rel=1e-9, abs=1e-14)


@every_law
@every_mu
@pytest.mark.parametrize("tail", [0.1, 1e-3, 1e-9, 1e-100])
def test_the_reach_bounds_the_tail(law, mu, tail):
    reach = np.array([law.reach(mu, tail)])
    assert law.shifted_cdf(reach, mu)[1] <= tail * (1 + 1e-9)
    assert law.cdf(np.nextafter(-reach, -np.inf), mu)[0] <= tail * (1 + 1e-9)


@every_law
@every_mu
def test_no_loss_exceeds_the_largest(law, mu):
    largest = law.max_loss(mu)
    if math.isfinite(largest):
        assert law.shifted_cdf(np.array([largest]), mu)[1] == 0
        assert law.shifted_cdf(np.array([largest * (1 - 1e-9)]), mu)[1] > 0
    else:
        assert law.shifted_cdf(np.array([law.reach(mu, 1e-12)]), mu)[1] > 0


@every_law
def test_delta_is_convex_in_the_total_variation_where_that_is_stated(law):
    if not law.delta_is_convex:
        pytest.skip("is not stated")
    mus = np.geomspace(1e-3, 8, 500)
    s = law.total_variation(mus)
    for at in (-1.0, -0.1, 0.0, 0.05, 0.5, 2.0):
        profile = np.array([float(delta(law, at, mu)) for mu in mus])
        slopes = np.diff(profile) / np.diff(s)
        assert (np.diff(slopes) >= -1e-9).all()


@every_law
@every_mu
@pytest.mark.parametrize("target", [1e-3, 1e-6])
def test_a_closed_form_of_epsilon_has_the_stated_delta(law, mu, target):
    found = law.epsilon(mu, target)
    if found is None:
        pytest.skip("no closed form")
    if found == 0:
        assert law.total_variation(np.array(mu)) <= target
    else:
        assert float(delta(law, found, mu)) == pytest.approx(target, rel=1e-6)


@every_law
def test_several_releases_of_one_draw_are_dominated_by_the_combined_one(law):
    combined = law.combine([2.0, 3.0])
    if combined is None:
        pytest.skip("is not known")
    assert combined <= 2.0
    assert law.combine([2.0]) == pytest.approx(2.0)
    # Without sampling, several releases of one draw are a composition.
    counts = LossCounts({SampledLoss(law, 1.0, 1 / 2.0): 1, SampledLoss(law, 1.0, 1 / 3.0): 1})
    one = LossCounts({SampledLoss(law, 1.0, 1 / combined): 1})
    both = compose_losses(counts, 1e-5, "add-remove", 0.006)
    assert compose_losses(one, 1e-5, "add-remove", 0.006) >= both * (1 - 0.01)


@every_law
def test_a_closed_form_of_compositions_equals_the_composition(law):
    composed = law.compose({0.5: 3, 0.2: 4})
    if composed is None:
        pytest.skip("no closed form")
    counts = LossCounts({SampledLoss(law, 1.0, 0.5): 3, SampledLoss(law, 1.0, 0.2): 4})
    one = LossCounts({SampledLoss(law, 1.0, composed): 1})
    both = compose_losses(counts, 1e-5, "add-remove", 0.006)
    assert compose_losses(one, 1e-5, "add-remove", 0.006) == pytest.approx(both, rel=0.01)
