"""The likelihood ratio of two worlds, learned from one half of the trials and used on the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.audit.bounds import Array, Flags, best_rule, judge

_BARE = 1e-7  # a direction whose spread is below this share of the largest has no noise on it


class Verdict(NamedTuple):
    """ε is at least `lower`, with the confidence asked for; `separation` estimates μ of the two worlds."""

    lower: float
    separation: float


def attack(transcript: Array, there: Flags, delta: float, confidence: float) -> Verdict:
    """What an adversary who knows both worlds makes of the transcripts (trials, numbers).

    Gaussian noise in both worlds alike makes the log-likelihood ratio linear in the transcript: Σ⁻¹ (m₁ − m₀), means
    and covariance as the first half of the trials shows them. Where the noise is otherwise, or records are sampled,
    that direction is not the best one, but what it finds is found: the bound comes from the second half alone.
    """
    learn = np.arange(len(transcript)) % 4 < 2  # both worlds in both halves
    scores = (transcript - transcript[learn].mean(0)) @ _direction(transcript[learn], there[learn])
    rule = best_rule(scores[learn], there[learn], delta, confidence)
    lower = judge(rule, scores[~learn], there[~learn], delta, confidence)
    one, other = scores[~learn & there], scores[~learn & ~there]
    spread = float(np.sqrt((one.var() + other.var()) / 2))
    return Verdict(lower, float(abs(one.mean() - other.mean()) / max(spread, 1e-300)))


def _direction(transcript: Array, there: Flags) -> Array:
    """Σ⁻¹ (m₁ − m₀), in units in which every number of the transcript has the same spread.

    Numbers that never vary tell nothing. Combinations that vary only with the world, and not with noise, tell
    everything: their variance within a world is next to nothing, and they outweigh the rest.
    """
    moved: Array = transcript[there].mean(0) - transcript[~there].mean(0)
    within = np.concatenate([transcript[world] - transcript[world].mean(0) for world in (there, ~there)])
    scale = np.sqrt(within.var(0) + moved**2)
    used = scale > 0
    if not used.any():
        return np.zeros_like(moved)
    covariance = np.atleast_2d(np.cov(within[:, used] / scale[used], rowvar=False))
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, _BARE**2 * max(values[-1], 1.0))
    along = vectors.T @ (moved[used] / scale[used])
    direction: Array = np.zeros_like(moved)
    direction[used] = vectors @ (along / values) / scale[used]
    return direction
