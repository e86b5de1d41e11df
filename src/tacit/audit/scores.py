"""Log-likelihood ratios of two worlds, for what is known of the noise and of how often a record is drawn.

`news` (trials, numbers) have independent noise of deviation 1 (`tacit.audit.attack.innovations`); what they are in the
two worlds is learned from the trials to `learn` from.
"""

from __future__ import annotations

import numpy as np

from tacit.audit.bounds import Array, Flags

_SHIFTS = np.linspace(-8, 8, 65)  # in deviations of the noise: beyond these every draw is seen anyway
_SOME = 10_000  # trials that are enough to tell a shift


def linear(news: Array, there: Flags, learn: Flags) -> Array:
    """That of Gaussian noise: ⟨r, m₁ − m₀⟩ but for a constant."""
    scores: Array = news @ (news[learn & there].mean(0) - news[learn & ~there].mean(0))
    return scores


def laplace(news: Array, there: Flags, learn: Flags) -> Array:
    """The log-likelihood ratio of the two worlds where the noise is Laplace: Σ (|r − m₀| − |r − m₁|)/b.

    b = √½, and m₀ and m₁ are medians. One number says b⁻¹ |m₁ − m₀| at most, and says that often: a linear score, which
    takes the outliers of Laplace noise for evidence, sees far less.

    >>> rng = np.random.default_rng(0)
    >>> there, learn = np.arange(1000) % 2 == 1, np.arange(1000) % 4 < 2
    >>> scores = laplace(rng.laplace(2.0 * there, 0.5**0.5)[:, None], there, learn)
    >>> (abs(scores) < 3.2).all(), scores[there].mean() > 1.5
    (np.True_, np.True_)
    """
    absent, present = (np.median(news[learn & world], axis=0) for world in (~there, there))
    # What both worlds have alike says nothing; its two medians differ by chance, and there by little.
    ratios: Array = np.sqrt(2) * (np.abs(news - absent) - np.abs(news - present)).sum(1)
    return ratios


def mixtures(news: Array, there: Flags, learn: Flags, rate: float, rounds: int) -> list[Array]:
    """Those of Gaussian noise where a record is drawn at a `rate`, and shifts the numbers of its round then: where it
    may be absent, and where its opposite may be in its place."""
    absent, present = (news[learn & world].mean(0) for world in (~there, there))
    by_round = (len(news), rounds if news.shape[1] % rounds == 0 else 1, -1)
    some = np.flatnonzero(learn)[:_SOME]
    one = (news - absent).reshape(by_round)
    either = (news - (absent + present) / 2).reshape(by_round)
    up = _shift(one[some][there[some]], rate)
    away = _shift(either[some] * np.where(there[some], 1, -1)[:, None, None], rate)
    opposed = _mixed(_moved(either, away), rate) - _mixed(_moved(either, -away), rate)
    return [_mixed(_moved(one, up), rate).sum(1), opposed.sum(1)]


def _moved(news: Array, shift: Array) -> Array:
    """The log ratio of rounds (trials, rounds, numbers) all numbers of which are shifted, to such as are not."""
    ratios: Array = (news * shift - shift**2 / 2).sum(2)
    return ratios


def _mixed(ratios: Array, rate: float) -> Array:
    """ln (1 − rate + rate · e^ratio): that of what is shifted so often, or not."""
    mixed: Array = np.logaddexp(np.log1p(-rate), np.log(rate) + ratios)
    return mixed


def _shift(news: Array, rate: float) -> Array:
    """By how much each number of a round is most likely shifted, alike in all rounds, where it is so often."""
    likelihoods = [_mixed(news * shift - shift**2 / 2, rate).sum((0, 1)) for shift in _SHIFTS]
    best: Array = _SHIFTS[np.argmax(likelihoods, 0)]
    return best
