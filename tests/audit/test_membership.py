"""Membership guesses: the bound compared with linear programs, and guesses for known distributions."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog
from scipy.special import expit

from tacit.audit import MembershipGuesses
from tacit.audit.membership import cumulative_sums, guess_membership
from tacit.privacy import mu_to_epsilon


def optimal_probability(canaries, guesses, correct, epsilon, delta):
    """max P[at least `correct` correct guesses] over all mechanisms that are (ε, δ)-private for each canary.

    A linear program: the unknowns are p(answer | memberships) and its excess over e^ε p(answer | one changed).
    """
    worlds = list(product((-1, 1), repeat=canaries))
    answers = [
        tuple(dict(zip(places, values, strict=True)).get(i, 0) for i in range(canaries))
        for places in combinations(range(canaries), guesses)
        for values in product((-1, 1), repeat=guesses)
    ]
    pairs = [(a, b) for a, s in enumerate(worlds) for b, u in enumerate(worlds) if sum(map(int.__ne__, s, u)) == 1]
    p = np.arange(len(worlds) * len(answers)).reshape(len(worlds), len(answers))
    excess = p.size + np.arange(len(pairs) * len(answers)).reshape(len(pairs), len(answers))
    total = p.size + excess.size
    above, limits, whole = [], [], []
    for k, (a, b) in enumerate(pairs):
        for t in range(len(answers)):
            row = np.zeros(total)
            row[p[a, t]], row[p[b, t]], row[excess[k, t]] = 1.0, -np.exp(epsilon), -1.0
            above.append(row)
            limits.append(0.0)
        row = np.zeros(total)
        row[excess[k]] = 1.0
        above.append(row)
        limits.append(delta)
    for a in range(len(worlds)):
        row = np.zeros(total)
        row[p[a]] = 1.0
        whole.append(row)
    gain = np.zeros(total)
    for (a, s), (t, answer) in product(enumerate(worlds), enumerate(answers)):
        gain[p[a, t]] = (sum(x * y > 0 for x, y in zip(s, answer, strict=True)) >= correct) / len(worlds)
    return -linprog(-gain, above, limits, whole, np.ones(len(worlds))).fun


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(("canaries", "guesses"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
def test_the_probability_is_that_of_the_optimal_mechanism(canaries, guesses, epsilon):
    for correct, delta in product(range(guesses + 1), (0.0, 0.01, 0.1)):
        best = optimal_probability(canaries, guesses, correct, epsilon, delta)
        assert best == pytest.approx(
            MembershipGuesses(canaries, guesses, correct).max_probability(epsilon, delta), abs=1e-7
        )


def symmetric_probability(canaries, guesses, correct, epsilon, delta):
    """The same with as many unknowns as guesses: P[k are correct] for a mechanism that is symmetric in the canaries."""
    r, k = guesses, np.arange(guesses + 1)
    up = np.diag(k / r) - np.exp(epsilon) * np.diag((r - k[:-1]) / r, -1)
    down = np.diag((r - k) / r) - np.exp(epsilon) * np.diag(k[1:] / r, 1)
    exceed = np.block([[up, -np.eye(r + 1), np.zeros_like(up)], [down, np.zeros_like(up), -np.eye(r + 1)]])
    total = np.concatenate([np.zeros(r + 1), np.full(2 * r + 2, r / canaries)])
    whole = np.concatenate([np.ones(r + 1), np.zeros(2 * r + 2)])
    limits = np.append(np.zeros(2 * r + 2), delta)
    gain = np.concatenate([k >= correct, np.zeros(2 * r + 2)])
    return -linprog(-gain, np.vstack([exceed, total]), limits, whole[None], [1.0]).fun


@pytest.mark.parametrize(("canaries", "guesses"), [(3, 2), (20, 20), (200, 30)])
def test_the_probability_for_many_canaries(canaries, guesses):
    for epsilon, correct in product((0.3, 1.0), range(guesses // 2, guesses + 1, 3)):
        best = symmetric_probability(canaries, guesses, correct, epsilon, 1e-4)
        assert best == pytest.approx(
            MembershipGuesses(canaries, guesses, correct).max_probability(epsilon, 1e-4), abs=1e-7
        )


def published(made, epsilon, delta):
    """Theorem 5.2 of Steinke, Nasr and Jagielski: β + 2mδ max_i P[v − i ≤ W < v]/i."""
    correct, i = stats.binom(made.guesses, expit(epsilon)), np.arange(1, made.correct + 1)
    largest = (correct.pmf(made.correct - i).cumsum() / i).max()
    return correct.sf(made.correct - 1) + 2 * made.canaries * delta * largest


def test_the_published_bound_is_larger_for_many_correct_guesses():
    assert published(MembershipGuesses(1000, 100, 75), 0.673, 1e-4) == pytest.approx(0.05, abs=5e-4)  # their Appendix D
    for epsilon, guesses, share in product((0.1, 1.0, 3.0), (10, 100, 900), (0.6, 0.8, 0.95, 1.0)):
        made = MembershipGuesses(1000, guesses, round(share * guesses))
        if 1e-12 < made.max_probability(epsilon, 0.0) < 0.5:
            assert made.max_probability(epsilon, 1e-5) <= published(made, epsilon, 1e-5)


def test_the_published_bound_is_too_small_for_few_correct_guesses():
    """All answers are equally likely except the one that is wrong everywhere: (0, 1/1023)-private."""
    delta, never_wrong = 1 / 1023, MembershipGuesses(10, 10, 1)
    assert never_wrong.max_probability(0.0, delta) == pytest.approx(1.0, abs=1e-12)
    assert published(never_wrong, 0.0, delta) < 1 - 9e-4


def test_a_mechanism_that_rarely_reveals_all_stays_below():
    """Randomised response that reveals everything with probability δ is (ε, δ)-private."""
    for correct, delta in product(range(1, 21), (1e-3, 1e-2)):
        probability = (1 - delta) * stats.binom.sf(correct - 1, 20, expit(1.0)) + delta
        assert probability <= MembershipGuesses(20, 20, correct).max_probability(1.0, delta) + 1e-12


def test_lower_bounds_from_guesses():
    found = [MembershipGuesses(500, 100, correct).lower(1e-5, 0.95) for correct in range(101)]
    assert found[0] == found[50] == 0.0
    assert all(one <= other for one, other in pairwise(found))
    assert 3.0 < found[-1] < np.log(100 / 0.05)
    usual = MembershipGuesses(500, 100, 80)
    assert usual.lower(1e-5, 0.99) < usual.lower(1e-5, 0.95) < usual.lower(0.0, 0.95)
    assert MembershipGuesses(500, 0, 0).lower(1e-5, 0.95) == 0.0
    assert usual.max_probability(usual.lower(1e-5, 0.95), 1e-5) == pytest.approx(0.05)
    assert 6.4 < MembershipGuesses(3000, 2000, 2000).lower(1e-5, 0.95) < 6.6  # most probabilities underflow


def test_the_lower_bound_has_its_stated_confidence():
    """Randomised response has exactly its ε: of 400 audits with 80 % confidence, 80 may exceed it."""
    rng, epsilon = np.random.default_rng(0), 1.5
    found = []
    for _ in range(400):
        included = rng.random(200) < 0.5
        answers = np.where(rng.random(200) < expit(epsilon), included, ~included)
        found.append(guess_membership(answers[:, None].astype(float), included, 0.8, 1.0).lower(0.0, 0.8))
    exceeded = sum(lower > epsilon for lower in found)
    assert 0.02 * 400 < exceeded <= stats.binom.ppf(0.999, 400, 0.2)
    assert np.mean(found) > 0.5 * epsilon


def test_gaussian_noise_is_bounded_closely_and_never_exceeded():
    rng, mu = np.random.default_rng(1), 1.5
    found = []
    for _ in range(40):
        included = rng.random(1000) < 0.5
        numbers = rng.normal(size=(1000, 6)) + mu * included[:, None] * [0.6, 0, 0, 0.8, 0, 0]
        found.append(guess_membership(numbers, included, 0.95, mu).lower(1e-5, 0.95))
    assert max(found) < mu_to_epsilon(mu, 1e-5)
    assert np.mean(found) > 1.7


def test_no_canary_is_guessed_twice():
    rng = np.random.default_rng(4)
    for count in range(100, 124):
        included = rng.random(count) < 0.5
        made = guess_membership(rng.normal(6.0 * included)[:, None], included, 0.95, 6.0)
        assert 0.5 * made.canaries < made.guesses <= made.canaries == count - -(-count // 4)


def test_guesses_do_not_use_the_memberships_to_be_guessed():
    """With opposite memberships the guesses stay the same, so the correct ones become wrong."""
    rng = np.random.default_rng(2)
    included = rng.random(400) < 0.5
    numbers = rng.normal(included)[:, None] + rng.normal(size=(400, 3))
    opposite = np.where(np.arange(400) % 4 == 0, included, ~included)
    one, other = guess_membership(numbers, included, 0.95, 1.0), guess_membership(numbers, opposite, 0.95, 1.0)
    assert one == MembershipGuesses(300, other.guesses, other.guesses - other.correct)
    assert one.correct > other.correct


def test_cumulative_sums_contain_the_sum_of_all_gradients():
    """Whether an algorithm sends sums of noised gradients, the gradients, or their changes."""
    g = np.random.default_rng(3).normal(size=(30, 400))
    changes = np.diff(g, axis=0, prepend=0)
    for order, sent in enumerate((g.cumsum(0), g, changes, np.diff(changes, axis=0, prepend=0))):
        numbers = cumulative_sums(sent[:, None])
        assert numbers.shape == (400, 4)
        np.testing.assert_allclose(numbers[:, order], g.sum(0), atol=1e-9)
    assert cumulative_sums(g[:2, None]).shape == (400, 2)
