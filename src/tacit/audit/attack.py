"""The likelihood ratio of two worlds, learned from a quarter of the trials and used on the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from tacit.audit.bounds import Array, Flags, best_rule, judge
from tacit.audit.scores import laplace, linear, mixtures

_BARE = 1e-7  # of a number's spread: less than this is left by no noise that was drawn, but by rounding
_LUCK = 50  # what is chosen as the best of many must be so much surer, or it is the luckiest: a few trials in a tail


class Verdict(NamedTuple):
    """ε is at least `lower`, with the confidence asked for; `separation` estimates μ of the two worlds."""

    lower: float
    separation: float


@dataclass(frozen=True)
class Evidence:
    """Scores of every trial, by several rules of which the first is linear; `learn` says which ones chose the rules."""

    scores: tuple[Array, ...]
    there: Flags
    learn: Flags

    def lower(self, delta: float, confidence: float) -> float:
        """The bound on ε by the score and threshold that are best for the trials to learn from, on the others."""
        learn, there, surer = self.learn, self.there, 1 - (1 - confidence) / _LUCK
        ways = [(*best_rule(scores[learn], there[learn], delta, surer), scores) for scores in self.scores]
        _, rule, scores = max(ways, key=lambda way: way[0])
        return judge(rule, scores[~learn], there[~learn], delta, confidence)

    @property
    def separation(self) -> float:
        """Means of the linear score in the two worlds apart, in deviations: μ, where both are Gaussian."""
        one, other = (self.scores[0][~self.learn & world] for world in (self.there, ~self.there))
        spread = float(np.sqrt((one.var() + other.var()) / 2))
        return float(abs(one.mean() - other.mean()) / max(spread, 1e-300))


def attack(transcript: Array, there: Flags, delta: float, confidence: float) -> Verdict:
    """What an adversary who knows both worlds makes of the transcripts (trials, numbers)."""
    evidence = gathered(transcript, there)
    return Verdict(evidence.lower(delta, confidence), evidence.separation)


def gathered(transcript: Array, there: Flags, rate: float = 1.0, rounds: int = 1) -> Evidence:
    """Transcripts (trials, numbers) of `rounds` rounds, in which the record was drawn at `rate`, as scores.

    Gaussian noise in both worlds alike makes the log-likelihood ratio linear in the transcript: Σ⁻¹ (m₁ − m₀), means
    and covariance as a quarter of the trials shows them. A record that is drawn now and then moves few numbers,
    by more: then the ratio is that of mixtures. Of Laplace noise it has its own. Where none of these is the truth it is
    not the best that could be done, but what it finds is found: the bound comes from the other trials alone.
    """
    learn = np.arange(len(transcript)) % 8 < 2  # a quarter, both worlds in it; bounds need the trials more
    news = innovations(transcript, there, learn)
    scores = [linear(news, there, learn), laplace(news, there, learn)]
    for often in {rate, min(10 * rate, 0.5)} if rate < 1 else ():  # one message may have several draws behind it
        scores += mixtures(news, there, learn, often, rounds)
    return Evidence(tuple(scores), there, learn)


def innovations(transcript: Array, there: Flags, learn: Flags) -> Array:
    """Each number of a transcript less what the earlier ones foretell of it, in deviations of what is left.

    Numbers that never vary tell nothing and are left out. What varies with the world and not with noise tells
    everything: next to nothing is left of it within a world, and it outweighs the rest.
    """
    within = np.concatenate([transcript[w & learn] - transcript[w & learn].mean(0) for w in (there, ~there)])
    moved = transcript[there & learn].mean(0) - transcript[~there & learn].mean(0)
    scale = np.sqrt(within.var(0) + moved**2)
    used = scale > 0
    least = _BARE * np.eye(used.sum())
    triangle = np.linalg.qr(np.concatenate([within[:, used] / scale[used] / np.sqrt(len(within)), least]), mode="r")
    triangle *= np.sign(np.diag(triangle))[:, None]  # no sign is turned: what is shifted up stays so
    centred = (transcript[:, used] - transcript[learn][:, used].mean(0)) / scale[used]
    found: Array = solve_triangular(triangle, centred.T, trans="T").T
    return found
