"""The attack: likelihood ratios learned from a quarter of the trials and evaluated on the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from tacit.audit.bounds import Array, Flags, best_threshold, bound_by_test
from tacit.audit.scores import laplace_scores, linear_scores, mixture_scores

_ROUNDING = 1e-7  # relative to a number's spread: a smaller remainder comes from rounding, not from noise
_SELECTION_FACTOR = 50  # a test is selected at this much smaller error, or luck in a tail would select it


class AttackResult(NamedTuple):
    """`lower` bounds ε from below; `separation` estimates the μ between "included" and "not included"."""

    lower: float
    separation: float


@dataclass(frozen=True)
class AttackScores:
    """Scores of all trials under several noise models, the linear one first.

    `included` marks the trials with the canary, `training` those from which the scores were learned.
    """

    scores: tuple[Array, ...]
    included: Flags
    training: Flags

    def lower(self, delta: float, confidence: float) -> float:
        """Select score and threshold on the training trials; bound ε from below on the others."""
        training, included = self.training, self.included
        selection = 1 - (1 - confidence) / _SELECTION_FACTOR
        tests = [(*best_threshold(each[training], included[training], delta, selection), each) for each in self.scores]
        _, test, scores = max(tests, key=lambda found: found[0])
        return bound_by_test(test, scores[~training], included[~training], delta, confidence)

    @property
    def separation(self) -> float:
        """The distance of the linear score's two means in standard deviations: μ if both laws are Gaussian."""
        present, absent = (self.scores[0][~self.training & world] for world in (self.included, ~self.included))
        deviation = float(np.sqrt((present.var() + absent.var()) / 2))
        return float(abs(present.mean() - absent.mean()) / max(deviation, 1e-300))


def attack(transcripts: Array, included: Flags, delta: float, confidence: float) -> AttackResult:
    """Attack transcripts (trials, numbers) as an adversary who knows everything but whether the canary is included."""
    scores = score_transcripts(transcripts, included)
    return AttackResult(scores.lower(delta, confidence), scores.separation)


def score_transcripts(
    transcripts: Array, included: Flags, rate: float = 1.0, rounds: int = 1, before: Array | None = None
) -> AttackScores:
    """Score transcripts (trials, numbers) of `rounds` rounds in which the canary was sampled with probability `rate`.

    `before` (trials, numbers) was released before the rounds, from all records.

    With the same Gaussian noise in both cases the log-likelihood ratio is linear in the transcript:
    Σ⁻¹ (m₁ − m₀), with means and covariance estimated on a quarter of the trials. A canary that is sampled in few
    rounds shifts few numbers by more, which a mixture describes better. Laplace noise has its own ratio. If no
    model is exact, the attack is not optimal, but its bound is still valid: it comes from the other trials alone.
    """
    training = np.arange(len(transcripts)) % 8 < 2  # a quarter, with and without canary; bounds need more trials
    everything = transcripts if before is None else np.concatenate([before, transcripts], axis=1)
    whitened = whiten(everything, included, training)
    certain: Array | float = 0.0  # the score of what the canary moves whether it is sampled or not
    if before is not None and before.shape[1] and rate < 1:
        certain = linear_scores(whiten(before, included, training), included, training)
        of_rounds = whiten(transcripts, included, training)
    else:
        of_rounds = whitened
    scores = [linear_scores(whitened, included, training), laplace_scores(whitened, included, training)]
    # One message may depend on several draws, so a higher rate is tried too.
    for assumed in {rate, min(10 * rate, 0.5)} if rate < 1 else ():
        scores += [certain + each for each in mixture_scores(of_rounds, included, training, assumed, rounds)]
    return AttackScores(tuple(scores), included, training)


def whiten(transcripts: Array, included: Flags, training: Flags) -> Array:
    """Subtract from each number its prediction by the earlier ones, and divide by the standard deviation of the rest.

    Constant numbers are dropped. A number that depends on the canary but has no noise gets a huge value: almost
    nothing of it remains within each case, so it outweighs all others.
    """
    within = np.concatenate(
        [transcripts[world & training] - transcripts[world & training].mean(0) for world in (included, ~included)]
    )
    shift = transcripts[included & training].mean(0) - transcripts[~included & training].mean(0)
    scale = np.sqrt(within.var(0) + shift**2)
    used = scale > 0
    ridge = _ROUNDING * np.eye(used.sum())
    triangle = np.linalg.qr(np.concatenate([within[:, used] / scale[used] / np.sqrt(len(within)), ridge]), mode="r")
    triangle *= np.sign(np.diag(triangle))[:, None]  # keep the sign of every shift
    centred = (transcripts[:, used] - transcripts[training][:, used].mean(0)) / scale[used]
    whitened: Array = solve_triangular(triangle, centred.T, trans="T").T
    return whitened
