"""`tacit.claims.check`, as a user calls it."""

import pytest

import tacit
from tacit.privacy.gdp import mu_to_epsilon


@pytest.mark.parametrize(("claimed", "holds"), [(1, False), (3.02, None), (4, True)])
def test_the_claim_of_dyn_d2p(claimed, holds):
    settings = {"noise_multiplier": 0.4395, "sample_rate": 0.0004, "steps": 3500, "delta": 1e-4}
    verdict = tacit.claims.check(claimed=claimed, **settings)
    assert verdict.holds is holds
    assert 3.01 < verdict.at_least < verdict.guaranteed < 3.03
    assert str(verdict).startswith(f"The claim ε = {claimed} ")


@pytest.mark.parametrize("sampling", ["none", "poisson", "without-replacement", "permutation"])
def test_without_subsampling_every_kind_agrees_with_the_closed_form(sampling):
    exact = mu_to_epsilon(10**0.5 / 4, 1e-5)
    for claimed, holds in ((exact * 0.999, False), (exact * 1.001, True)):
        rate = None if sampling == "none" else 1.0
        verdict = tacit.claims.check(
            noise_multiplier=4.0, steps=10, sampling=sampling, sample_rate=rate, claimed=claimed
        )
        assert verdict.holds is holds


def test_laplace_noise_has_a_pure_guarantee():
    settings = {"noise_multiplier": 2.0, "steps": 3, "delta": 0.0, "mechanism": "laplace"}
    assert tacit.claims.check(claimed=1.5, **settings).holds is True
    assert tacit.claims.check(claimed=1.4, **settings).holds is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"claimed": -1.0}, "claimed must be a finite number of at least 0, got -1.0"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be positive, got 0.0"),
        ({"sample_rate": 2.0}, "sample_rate must be above 0 and at most 1, got 2.0"),
        ({"sampling": "poisson"}, 'sampling="poisson" needs sample_rate, the share of the records in one draw'),
        ({"sampling": 0.1, "sample_rate": 0.1}, "sampling=0.1 and sample_rate=0.1 are both rates: set one of them"),
        ({"sampling": "none", "sample_rate": 0.1}, "sampling none uses all records, got sample_rate 0.1"),
        ({"mechanism": "gausian"}, 'unknown mechanism "gausian"; did you mean "gaussian"?'),
        ({"steps": 10.5}, "steps must be a whole number, got 10.5"),
        ({"claimed": "1"}, "claimed must be a number, got '1'"),
        ({"noise_multiplier": None}, "noise_multiplier must be a number, got None"),
        ({"sampling": "poison"}, 'unknown sampling kind "poison"; did you mean "poisson"?'),
        ({"steps": 0}, "steps must be at least 1, got 0"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(tacit.TacitError) as refusal:
        tacit.claims.check(**{"claimed": 1.0, "noise_multiplier": 1.0, **arguments})
    assert message in str(refusal.value)


def test_a_number_is_the_rate_of_poisson_sampling():
    settings = {"noise_multiplier": 1.0, "steps": 100, "claimed": 1.0}
    expected = tacit.claims.check(sampling="poisson", sample_rate=0.01, **settings)
    assert tacit.claims.check(sampling=0.01, **settings) == expected
    assert tacit.claims.check(sample_rate=0.01, **settings) == expected
    assert tacit.claims.check(**settings).guaranteed > expected.guaranteed  # of all records


def test_a_verdict_shows_whether_the_claim_holds_and_cannot_be_taken_for_true():
    verdict = tacit.claims.check(noise_multiplier=1.0, claimed=1.0)
    assert repr(verdict).startswith("ClaimVerdict(holds=False, claimed=1.0, guaranteed=4.37")
    with pytest.raises(tacit.TacitError, match=r"use verdict\.holds"):
        bool(verdict)
