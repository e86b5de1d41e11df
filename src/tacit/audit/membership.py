"""Membership guesses in one run: how many are right, and which ε that rules out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from tacit.audit.attack import whiten
from tacit.audit.bounds import Array, Counts, Flags
from tacit.audit.scores import linear_scores

_MAX_ORDER = 4  # cumulative sums of orders 0 to 3
_CANDIDATE_COUNTS = 16  # numbers of guesses that are tried for the highest and for the lowest scores
_MAX_EPSILON = 50.0  # larger than any ε that guesses can show, and than any logarithm that matters


class MembershipGuesses(NamedTuple):
    """Outcome of guessing which canaries are included: `correct` of `guesses` guesses about `canaries` canaries."""

    canaries: int
    guesses: int
    correct: int

    def max_probability(self, epsilon: float, delta: float) -> float:
        """The largest probability of at least `correct` correct guesses that any (ε, δ)-private mechanism allows.

        Let r of m canaries be guessed, v of them correctly. For δ = 0 no mechanism is better than randomised
        response, for which W ~ Binomial(r, e^ε/(1 + e^ε)) guesses are correct: β = P[W ≥ v] (Steinke, Nasr,
        Jagielski). For δ > 0 the probability is

            β + mδ β (1 − β)/(v P[W = v]).

        Which canaries are guessed may depend on the messages; how many may not. By symmetry some optimal mechanism
        has guess probabilities h(k) that depend only on the number k of correct ones. Changing one membership lowers
        k by one, so h(k) ≤ e^ε h(k − 1) + J_k with Σ_k J_k C(r − 1, k − 1) r/m ≤ δ, in units in which
        Σ_k C(r, k) h(k) = 1. J_k carries over to all larger k, and J_v has the largest effect. (Theorem 5.2 of the
        paper adds 2mδ max_i P[v − i ≤ W < v]/i instead: more than necessary for large v, and too little for small.)
        """
        if not self.correct:
            return 1.0
        r, v, k = self.guesses, self.correct, np.arange(self.guesses + 1)
        log_choose = special.gammaln(r + 1) - special.gammaln(k + 1) - special.gammaln(r - k + 1)
        logs = log_choose + k * epsilon - r * np.logaddexp(0.0, epsilon)  # log P[W = k]: P itself may underflow
        log_beta, log_rest = np.logaddexp.reduce(logs[v:]), np.logaddexp.reduce(logs[:v])
        delta_term = self.canaries * delta / v * np.exp(min(log_beta + log_rest - logs[v], _MAX_EPSILON))
        return min(1.0, float(np.exp(log_beta) + delta_term))

    def lower(self, delta: float, confidence: float) -> float:
        """The lower bound on ε: the largest ε at which so many correct guesses are less likely than 1 − confidence.

        >>> round(MembershipGuesses(1000, 100, 75).lower(1e-4, 0.95), 3)
        0.695
        """
        low, high = 0.0, _MAX_EPSILON
        while high - low > 1e-7:
            middle = (low + high) / 2
            too_unlikely = self.max_probability(middle, delta) < 1 - confidence
            low, high = (middle, high) if too_unlikely else (low, middle)
        return low


def cumulative_sums(recorded: Array) -> Array:
    """Summarise recorded messages (rounds, messages, columns) in few numbers per column: (columns, numbers).

    Some algorithms send the sum of all noised gradients so far, others its change, others a sum of sums. The final
    messages and their cumulative sums of orders 1 to 3 contain all gradients with about equal weight in every case,
    whatever the neighbours added.
    """
    orders = [recorded]
    while len(orders) < min(_MAX_ORDER, len(recorded)):
        orders.append(orders[-1].cumsum(0))
    numbers: Array = np.concatenate([order[-1] for order in orders]).T
    return numbers


def guess_membership(numbers: Array, included: Flags, confidence: float, mu: float) -> MembershipGuesses:
    """Guess from numbers (canaries, numbers) which canaries are included.

    Every fourth canary is used for training, the others are guessed. How many are guessed is fixed before any data
    are used, at the optimum for Gaussian scores `mu` apart: that many of the highest scores are guessed as included,
    and that many of the lowest as excluded.
    """
    training = np.arange(len(included)) % 4 == 0
    scores = linear_scores(whiten(numbers, included, training), included, training)
    remaining = int((~training).sum())
    counts = _best_counts(remaining, mu, confidence)
    among_highest, among_lowest = _correct(scores[~training], included[~training], counts)
    return MembershipGuesses(remaining, int(counts.sum()), int(among_highest[0] + among_lowest[1]))


def _best_counts(canaries: int, mu: float, confidence: float) -> Counts:
    """How many of the highest and of the lowest scores to guess, by simulation with Gaussian scores `mu` apart."""
    rng = np.random.default_rng(0)
    included = rng.random(canaries) < 0.5
    counts = np.unique(np.rint(np.append(np.geomspace(1, canaries / 2, _CANDIDATE_COUNTS), 0)).astype(np.int64))
    among_highest, among_lowest = _correct(rng.normal(mu * included), included, counts)
    correct, guesses = among_highest[:, None] + among_lowest, counts[:, None] + counts
    least_rate = np.where(
        correct > 0, special.betaincinv(np.maximum(correct, 1), guesses - correct + 1, 1 - confidence), 0.0
    )
    return counts[list(np.unravel_index(least_rate.argmax(), least_rate.shape))]


def _correct(scores: Array, included: Flags, counts: Counts) -> tuple[Counts, Counts]:
    """Correct guesses among the `counts` highest scores (included) and among the `counts` lowest (excluded)."""
    order = np.argsort(scores)
    among_highest, among_lowest = (
        np.concatenate([[0], right.cumsum()])[counts] for right in (included[order[::-1]], ~included[order])
    )
    return among_highest, among_lowest
