"""What the attack makes of transcripts whose law is known."""

import numpy as np
import pytest
from scipy import stats

from tacit.audit.attack import Evidence, gathered, innovations
from tacit.privacy import epsilon, epsilon_to_mu, mu_to_epsilon
from tests.privacy.streams import poisson

THERE = np.arange(20_000) % 2 == 1


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def linear_only(evidence):
    return Evidence(evidence.scores[:1], evidence.there, evidence.learn)


def test_innovations_are_what_regression_on_the_past_leaves(rng):
    mixing, moved = rng.normal(size=(6, 6)), rng.normal(size=6)
    transcript = rng.normal(size=(len(THERE), 6)) @ mixing + THERE[:, None] * moved
    learn = np.arange(len(THERE)) % 8 < 2
    news = innovations(transcript, THERE, learn)
    columns = (transcript - transcript[THERE & learn].mean(0) * THERE[:, None])[learn]
    columns -= np.where(THERE[learn, None], 0, transcript[~THERE & learn].mean(0))
    for k in range(6):
        left = columns[:, k] - columns[:, :k] @ np.linalg.lstsq(columns[:, :k], columns[:, k], rcond=None)[0]
        within = news[learn, k] - np.where(THERE[learn], *(news[learn & w, k].mean() for w in (THERE, ~THERE)))
        assert abs(np.corrcoef(left, within)[0, 1]) == pytest.approx(1, abs=1e-6)
        assert within.std() == pytest.approx(1, abs=1e-6)
    # The linear score is Σ⁻¹ (m₁ − m₀): its separation is Mahalanobis' distance.
    assert gathered(transcript, THERE).separation == pytest.approx(
        np.linalg.norm(np.linalg.solve(mixing.T, moved)), rel=0.03
    )


def test_a_record_that_is_drawn_now_and_then_is_found_by_mixtures(rng):
    rate, rounds, multiplier = 0.1, 10, 0.7
    drawn = THERE[:, None] & (rng.random((len(THERE), rounds)) < rate)
    evidence = gathered(rng.normal(size=drawn.shape) + drawn / multiplier, THERE, rate, rounds)
    mixed, linear = (each.lower(1e-5, 0.95) for each in (evidence, linear_only(evidence)))
    guaranteed = epsilon(poisson(multiplier, rate, rounds), 1e-5)
    assert 1.3 * linear < mixed <= guaranteed
    assert mixed > 0.2 * guaranteed


def test_other_deltas_tell_more(rng):
    """√2 times the μ that is said: not seen at δ = 1e-5 with so few trials, plain at 0.1."""
    said = epsilon_to_mu(2.0, 1e-5)
    evidence = gathered((rng.normal(size=len(THERE)) + np.sqrt(2) * said * THERE)[:, None], THERE)
    assert evidence.lower(1e-5, 0.95) < 2.0
    assert evidence.lower(0.1, 0.99) > mu_to_epsilon(said, 0.1)


def test_sound_worlds_are_rarely_called_broken(rng):
    """The tightest sound case at several δ, 99 % confidence each: of 300 at most what chance allows."""
    mu, there, deltas = 1.0, THERE[:2000], (1e-5, 0.01, 0.1)
    alarms = 0
    for _ in range(100):
        evidence = gathered(rng.normal(mu * there)[:, None], there)
        alarms += sum(evidence.lower(delta, 0.99) > mu_to_epsilon(mu, delta) for delta in deltas)
    assert alarms <= stats.binom.ppf(0.999, 300, 0.01)


def test_more_numbers_than_trials_are_no_fault(rng):
    evidence = gathered(rng.normal(size=(80, 100)), THERE[:80])
    assert evidence.lower(1e-5, 0.95) == 0
