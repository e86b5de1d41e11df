"""The attack on transcripts with a known distribution."""

import numpy as np
import pytest
from scipy import stats

from tacit.audit.attack import AttackScores, score_transcripts, whiten
from tacit.privacy import epsilon, epsilon_to_mu, mu_to_epsilon
from tests.privacy.streams import poisson

INCLUDED = np.arange(20_000) % 2 == 1


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def linear_only(scores):
    return AttackScores(scores.scores[:1], scores.included, scores.training)


def test_whitening_equals_regression_on_earlier_numbers(rng):
    mixing, shift = rng.normal(size=(6, 6)), rng.normal(size=6)
    transcripts = rng.normal(size=(len(INCLUDED), 6)) @ mixing + INCLUDED[:, None] * shift
    training = np.arange(len(INCLUDED)) % 8 < 2
    whitened = whiten(transcripts, INCLUDED, training)
    columns = (transcripts - transcripts[INCLUDED & training].mean(0) * INCLUDED[:, None])[training]
    columns -= np.where(INCLUDED[training, None], 0, transcripts[~INCLUDED & training].mean(0))
    for k in range(6):
        residual = columns[:, k] - columns[:, :k] @ np.linalg.lstsq(columns[:, :k], columns[:, k], rcond=None)[0]
        means = (whitened[training & world, k].mean() for world in (INCLUDED, ~INCLUDED))
        within = whitened[training, k] - np.where(INCLUDED[training], *means)
        assert abs(np.corrcoef(residual, within)[0, 1]) == pytest.approx(1, abs=1e-6)
        assert within.std() == pytest.approx(1, abs=1e-6)
    # The linear score is Σ⁻¹ (m₁ − m₀), so its separation is the Mahalanobis distance.
    distance = np.linalg.norm(np.linalg.solve(mixing.T, shift))
    assert score_transcripts(transcripts, INCLUDED).separation == pytest.approx(distance, rel=0.03)


def test_mixtures_detect_a_record_that_is_sampled_in_few_rounds(rng):
    rate, rounds, multiplier = 0.1, 10, 0.7
    drawn = INCLUDED[:, None] & (rng.random((len(INCLUDED), rounds)) < rate)
    scores = score_transcripts(rng.normal(size=drawn.shape) + drawn / multiplier, INCLUDED, rate, rounds)
    mixed, linear = (each.lower(1e-5, 0.95) for each in (scores, linear_only(scores)))
    guaranteed = epsilon(poisson(multiplier, rate, rounds), 1e-5)
    assert 1.3 * linear < mixed <= guaranteed
    assert mixed > 0.2 * guaranteed


def test_a_larger_delta_reveals_a_mistake_with_fewer_trials(rng):
    """√2 times the stated μ: not visible at δ = 1e-5 with so few trials, but visible at δ = 0.1."""
    stated = epsilon_to_mu(2.0, 1e-5)
    transcripts = (rng.normal(size=len(INCLUDED)) + np.sqrt(2) * stated * INCLUDED)[:, None]
    scores = score_transcripts(transcripts, INCLUDED)
    assert scores.lower(1e-5, 0.95) < 2.0
    assert scores.lower(0.1, 0.99) > mu_to_epsilon(stated, 0.1)


def test_a_correct_mechanism_is_rarely_reported_as_broken(rng):
    """The tightest correct case at several δ, 99 % confidence each: at most as many of 300 as chance allows."""
    mu, included, deltas = 1.0, INCLUDED[:2000], (1e-5, 0.01, 0.1)
    false_alarms = 0
    for _ in range(100):
        scores = score_transcripts(rng.normal(mu * included)[:, None], included)
        false_alarms += sum(scores.lower(delta, 0.99) > mu_to_epsilon(mu, delta) for delta in deltas)
    assert false_alarms <= stats.binom.ppf(0.999, 300, 0.01)


def test_trials_from_which_the_attack_learned_do_not_count(rng):
    """Noise alone: a score that fits a hundred training trials seems to tell them apart, but no others."""
    found = [score_transcripts(rng.normal(size=(400, 50)), INCLUDED[:400]).lower(1e-5, 0.9) for _ in range(30)]
    assert sum(lower > 0 for lower in found) <= stats.binom.ppf(0.999, 30, 0.1)


def test_more_numbers_than_trials_are_accepted(rng):
    scores = score_transcripts(rng.normal(size=(80, 100)), INCLUDED[:80])
    assert scores.lower(1e-5, 0.95) == 0
