"""Attack scores: log-likelihood ratios of "canary included" to "not included" for several noise models.

`whitened` (trials, numbers) has independent noise of standard deviation 1 (`tacit.audit.attack.whiten`). Means,
medians and shifts are estimated on the `training` trials only.
"""

from __future__ import annotations

import numpy as np

from tacit.audit.bounds import Array, Flags

_SHIFTS = np.linspace(-8, 8, 65)  # candidate shifts in standard deviations; a larger one is detected in any case
_MAX_TRIALS = 10_000  # enough trials to estimate a shift


def linear_scores(whitened: Array, included: Flags, training: Flags) -> Array:
    """The log-likelihood ratio of Gaussian noise, up to a constant: ⟨r, m₁ − m₀⟩."""
    shift = whitened[training & included].mean(0) - whitened[training & ~included].mean(0)
    scores: Array = whitened @ shift
    return scores


def laplace_scores(whitened: Array, included: Flags, training: Flags) -> Array:
    """The log-likelihood ratio of Laplace noise: Σ (|r − m₀| − |r − m₁|)/b with b = √½ and medians m₀, m₁.

    One number contributes at most |m₁ − m₀|/b, and often exactly that. A linear score mistakes outliers of
    Laplace noise for evidence and detects far less.

    >>> rng = np.random.default_rng(0)
    >>> included, training = np.arange(1000) % 2 == 1, np.arange(1000) % 4 < 2
    >>> scores = laplace_scores(rng.laplace(2.0 * included, 0.5**0.5)[:, None], included, training)
    >>> (abs(scores) < 3.2).all(), scores[included].mean() > 1.5
    (np.True_, np.True_)
    """
    absent, present = (np.median(whitened[training & world], axis=0) for world in (~included, included))
    # Numbers that do not depend on the canary have almost equal medians, so they contribute almost nothing.
    ratios: Array = np.sqrt(2) * (np.abs(whitened - absent) - np.abs(whitened - present)).sum(1)
    return ratios


def mixture_scores(whitened: Array, included: Flags, training: Flags, rate: float, rounds: int) -> list[Array]:
    """Log-likelihood ratios of Gaussian noise if a canary is sampled with probability `rate` per round.

    A sampled canary shifts the numbers of its round. The first score assumes that the canary is absent otherwise,
    the second that its opposite replaces it.
    """
    absent, present = (whitened[training & world].mean(0) for world in (~included, included))
    by_round = (len(whitened), rounds if whitened.shape[1] % rounds == 0 else 1, -1)
    some = np.flatnonzero(training)[:_MAX_TRIALS]
    from_absent = (whitened - absent).reshape(by_round)
    from_middle = (whitened - (absent + present) / 2).reshape(by_round)
    shift = _likeliest_shift(from_absent[some][included[some]], rate)
    half = _likeliest_shift(from_middle[some] * np.where(included[some], 1, -1)[:, None, None], rate)
    opposed = _mixture(_shift_ratio(from_middle, half), rate) - _mixture(_shift_ratio(from_middle, -half), rate)
    return [_mixture(_shift_ratio(from_absent, shift), rate).sum(1), opposed.sum(1)]


def _shift_ratio(values: Array, shift: Array) -> Array:
    """The log-likelihood ratio per round of values (trials, rounds, numbers) that are shifted, to unshifted ones."""
    ratios: Array = (values * shift - shift**2 / 2).sum(2)
    return ratios


def _mixture(ratios: Array, rate: float) -> Array:
    """ln (1 − rate + rate · e^ratio): the log-likelihood ratio if the shift occurs with probability `rate`."""
    mixed: Array = np.logaddexp(np.log1p(-rate), np.log(rate) + ratios)
    return mixed


def _likeliest_shift(values: Array, rate: float) -> Array:
    """The maximum-likelihood shift of each number, the same in all rounds, if it occurs with probability `rate`."""
    likelihoods = [_mixture(values * shift - shift**2 / 2, rate).sum((0, 1)) for shift in _SHIFTS]
    best: Array = _SHIFTS[np.argmax(likelihoods, 0)]
    return best
