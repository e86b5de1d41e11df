"""What guesses of coins prove: the bound against linear programs, and guesses of worlds whose law is known."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog
from scipy.special import expit

from tacit.audit import Guesses
from tacit.audit.onerun import guessed, totals
from tacit.privacy.gdp import mu_to_epsilon


def most_likely(coins, guesses, correct, epsilon, delta):
    """max P[so many right guesses, or more] over all mechanisms by which each coin is (ε, δ)-private.

    A linear program: the unknowns are p(guess | coins), and by how much they exceed e^ε p(guess | one coin turned).
    """
    worlds = list(product((-1, 1), repeat=coins))
    says = [
        tuple(dict(zip(places, values, strict=True)).get(i, 0) for i in range(coins))
        for places in combinations(range(coins), guesses)
        for values in product((-1, 1), repeat=guesses)
    ]
    pairs = [(a, b) for a, s in enumerate(worlds) for b, u in enumerate(worlds) if sum(map(int.__ne__, s, u)) == 1]
    p = np.arange(len(worlds) * len(says)).reshape(len(worlds), len(says))
    excess = p.size + np.arange(len(pairs) * len(says)).reshape(len(pairs), len(says))
    total = p.size + excess.size
    above, limits, whole = [], [], []
    for k, (a, b) in enumerate(pairs):
        for t in range(len(says)):
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
    for (a, s), (t, said) in product(enumerate(worlds), enumerate(says)):
        gain[p[a, t]] = (sum(x * y > 0 for x, y in zip(s, said, strict=True)) >= correct) / len(worlds)
    return -linprog(-gain, above, limits, whole, np.ones(len(worlds))).fun


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize(("coins", "guesses"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
def test_the_chance_is_the_best_mechanism_s(coins, guesses, epsilon):
    for correct, delta in product(range(guesses + 1), (0.0, 0.01, 0.1)):
        best = most_likely(coins, guesses, correct, epsilon, delta)
        assert best == pytest.approx(Guesses(coins, guesses, correct).chance(epsilon, delta), abs=1e-7)


def symmetric(coins, guesses, correct, epsilon, delta):
    """The same with as many unknowns as guesses: P[k are right] of a mechanism that treats all coins alike."""
    r, k = guesses, np.arange(guesses + 1)
    up = np.diag(k / r) - np.exp(epsilon) * np.diag((r - k[:-1]) / r, -1)
    down = np.diag((r - k) / r) - np.exp(epsilon) * np.diag(k[1:] / r, 1)
    exceed = np.block([[up, -np.eye(r + 1), np.zeros_like(up)], [down, np.zeros_like(up), -np.eye(r + 1)]])
    total = np.concatenate([np.zeros(r + 1), np.full(2 * r + 2, r / coins)])
    whole = np.concatenate([np.ones(r + 1), np.zeros(2 * r + 2)])
    limits = np.append(np.zeros(2 * r + 2), delta)
    gain = np.concatenate([k >= correct, np.zeros(2 * r + 2)])
    return -linprog(-gain, np.vstack([exceed, total]), limits, whole[None], [1.0]).fun


@pytest.mark.parametrize(("coins", "guesses"), [(3, 2), (20, 20), (200, 30)])
def test_the_chance_of_many_coins(coins, guesses):
    for epsilon, correct in product((0.3, 1.0), range(guesses // 2, guesses + 1, 3)):
        best = symmetric(coins, guesses, correct, epsilon, 1e-4)
        assert best == pytest.approx(Guesses(coins, guesses, correct).chance(epsilon, 1e-4), abs=1e-7)


def published(made, epsilon, delta):
    """Theorem 5.2 of Steinke, Nasr and Jagielski: β + 2mδ max_i P[v − i ≤ W < v]/i."""
    right, short = stats.binom(made.guesses, expit(epsilon)), np.arange(1, made.correct + 1)
    lucky = (right.pmf(made.correct - short).cumsum() / short).max()
    return right.sf(made.correct - 1) + 2 * made.coins * delta * lucky


def test_where_guesses_are_surprising_the_published_bound_is_above():
    assert published(Guesses(1000, 100, 75), 0.673, 1e-4) == pytest.approx(0.05, abs=5e-4)  # their Appendix D
    for epsilon, guesses, share in product((0.1, 1.0, 3.0), (10, 100, 900), (0.6, 0.8, 0.95, 1.0)):
        made = Guesses(1000, guesses, round(share * guesses))
        if 1e-12 < made.chance(epsilon, 0.0) < 0.5:
            assert made.chance(epsilon, 1e-5) <= published(made, epsilon, 1e-5)


def test_where_they_are_not_the_published_one_is_no_bound():
    """All answers alike but the one that is wrong throughout, which is never given: at most 1/1023 apart."""
    delta, never_wrong = 1 / 1023, Guesses(10, 10, 1)
    assert never_wrong.chance(0.0, delta) == pytest.approx(1.0, abs=1e-12)
    assert published(never_wrong, 0.0, delta) < 1 - 9e-4


def test_revealing_all_now_and_then_stays_below():
    """Randomised response that gives all away with probability δ is (ε, δ)-private."""
    for correct, delta in product(range(1, 21), (1e-3, 1e-2)):
        happens = (1 - delta) * stats.binom.sf(correct - 1, 20, expit(1.0)) + delta
        assert happens <= Guesses(20, 20, correct).chance(1.0, delta) + 1e-12


def test_what_guesses_prove():
    found = [Guesses(500, 100, correct).lower(1e-5, 0.95) for correct in range(101)]
    assert found[0] == found[50] == 0.0
    assert all(one <= other for one, other in pairwise(found))
    assert 3.0 < found[-1] < np.log(100 / 0.05)
    usual = Guesses(500, 100, 80)
    assert usual.lower(1e-5, 0.99) < usual.lower(1e-5, 0.95) < usual.lower(0.0, 0.95)
    assert Guesses(500, 0, 0).lower(1e-5, 0.95) == 0.0
    assert usual.chance(usual.lower(1e-5, 0.95), 1e-5) == pytest.approx(0.05)
    assert 6.4 < Guesses(3000, 2000, 2000).lower(1e-5, 0.95) < 6.6  # where most probabilities are 0 to a computer


def test_the_bound_is_one_with_the_confidence_it_states():
    """Randomised response, which has exactly its ε: of 400 audits with 80 % confidence 80 may exceed it."""
    rng, epsilon = np.random.default_rng(0), 1.5
    found = []
    for _ in range(400):
        coins = rng.random(200) < 0.5
        answers = np.where(rng.random(200) < expit(epsilon), coins, ~coins)
        found.append(guessed(answers[:, None].astype(float), coins, 0.8, 1.0).lower(0.0, 0.8))
    exceeded = sum(lower > epsilon for lower in found)
    assert 0.02 * 400 < exceeded <= stats.binom.ppf(0.999, 400, 0.2)
    assert np.mean(found) > 0.5 * epsilon


def test_of_gaussian_noise_it_finds_what_is_there_and_no_more():
    rng, mu = np.random.default_rng(1), 1.5
    found = []
    for _ in range(40):
        coins = rng.random(1000) < 0.5
        numbers = rng.normal(size=(1000, 6)) + mu * coins[:, None] * [0.6, 0, 0, 0.8, 0, 0]
        found.append(guessed(numbers, coins, 0.95, mu).lower(1e-5, 0.95))
    assert max(found) < mu_to_epsilon(mu, 1e-5)
    assert np.mean(found) > 1.7


def test_no_coin_is_guessed_twice():
    rng = np.random.default_rng(4)
    for count in range(100, 124):
        coins = rng.random(count) < 0.5
        made = guessed(rng.normal(6.0 * coins)[:, None], coins, 0.95, 6.0)
        assert 0.5 * made.coins < made.guesses <= made.coins == count - -(-count // 4)


def test_the_coins_to_be_guessed_are_not_looked_at():
    """Were they the opposite ones, the very same guesses would be wrong where they are right."""
    rng = np.random.default_rng(2)
    coins = rng.random(400) < 0.5
    numbers = rng.normal(coins)[:, None] + rng.normal(size=(400, 3))
    turned = np.where(np.arange(400) % 4 == 0, coins, ~coins)
    one, other = guessed(numbers, coins, 0.95, 1.0), guessed(numbers, turned, 0.95, 1.0)
    assert one == Guesses(300, other.guesses, other.guesses - other.correct)
    assert one.correct > other.correct


def test_running_totals_undo_what_methods_do():
    """Whether sums of noised gradients are sent, or they themselves, or changes: their sum is among the totals."""
    g = np.random.default_rng(3).normal(size=(30, 400))
    changes = np.diff(g, axis=0, prepend=0)
    for order, sent in enumerate((g.cumsum(0), g, changes, np.diff(changes, axis=0, prepend=0))):
        numbers = totals(sent[:, None])
        assert numbers.shape == (400, 4)
        np.testing.assert_allclose(numbers[:, order], g.sum(0), atol=1e-9)
    assert totals(g[:2, None]).shape == (400, 2)
