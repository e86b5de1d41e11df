"""Many different privacy losses, dominated by mixtures of few.

Without sampling, δ(ε) of many laws is, at every ε, a convex function of the total variation s of their pair
(`PrivacyLoss.delta_is_convex`). It stays convex with sampling: sampling, and the mirror image, map δ(ε) to an affine
function of δ at another ε. So a loss between two levels a < b is dominated by a mixture: level b with probability
p = (s − s_a)/(s_b − s_a), and level a otherwise. The error is of second order in b − a.

Of n losses between a and b a random number J is then at level b, and the composition is the worse the greater J is.
Replacing two probabilities p₁, p₂ by the p with (1 − p)² = (1 − p₁)(1 − p₂) keeps Pr(J = 0) and raises Pr(J = 2),
because the geometric mean of the 1 − p is below the arithmetic mean. So J only grows, and in the limit all n losses may
be given the p with (1 − p)ⁿ = Π(1 − p_k) (Pledger and Proschan 1971).
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.privacy.accounting.losses import LossCounts, SampledLoss
from tacit.privacy.mechanisms import PrivacyLoss

Array = npt.NDArray[np.float64]

MAX_DISTINCT = 32  # this many different losses, or different rates, are kept as they are
_GROUPS_PER_CELL = 4  # so that losses at opposite ends of a cell do not share their p


class Factor(NamedTuple):
    """`times` losses, each `strong` with probability `p` and `weak` otherwise; both are indices of losses."""

    weak: int
    strong: int
    p: float
    times: int


def coarsen_losses(counts: LossCounts, width: float) -> tuple[list[SampledLoss], list[Factor]]:
    """Return few losses, and factors over them, that dominate `counts`.

    The strongest of the returned losses are a factor 1 + `width` apart.

    >>> from tacit.privacy import Gaussian
    >>> counts = LossCounts({SampledLoss(Gaussian.loss, 0.1, 1 + k / 1000): 1 for k in range(1000)})
    >>> losses, factors = coarsen_losses(counts, 0.1)
    >>> len(losses), sum(factor.times for factor in factors)
    (7, 1000)
    """
    losses: list[SampledLoss] = []
    factors: list[Factor] = []
    for (law, rate), members in _by_law_and_rate(counts, width / 4).items():
        mus = np.array(sorted(members))
        times = np.array([members[mu] for mu in mus])
        cells = math.ceil(2 * (1 - math.sqrt(mus[0] / mus[-1])) / width)
        start = len(losses)
        if not law.delta_is_convex or len(counts) <= MAX_DISTINCT or len(mus) <= cells + 1:
            losses += [SampledLoss(law, rate, float(mu)) for mu in mus]
            factors += [Factor(start + i, start + i, 0.0, int(n)) for i, n in enumerate(times)]
            continue
        # Even in √μ: fine where losses are strong, and never too coarse for many weak ones.
        levels = np.linspace(math.sqrt(mus[0]), math.sqrt(mus[-1]), cells + 1) ** 2
        levels[[0, -1]] = mus[[0, -1]]
        cell = np.clip(np.searchsorted(levels, mus, side="right") - 1, 0, cells - 1)
        used, place = np.unique(np.concatenate([cell, cell + 1]), return_inverse=True)
        losses += [SampledLoss(law, rate, float(mu)) for mu in levels[used]]
        p = strong_probability(law, levels[cell], levels[cell + 1], mus)
        group = cell * (_GROUPS_PER_CELL + 1) + np.floor(p * _GROUPS_PER_CELL).astype(np.int64)
        for g in np.unique(group):
            own = group == g
            n = int(times[own].sum())
            with np.errstate(divide="ignore"):
                none_strong = float(np.exp(times[own] @ np.log1p(-p[own]) / n))
            weak = start + int(place[: len(cell)][own][0])
            factors.append(Factor(weak, weak + 1, 1 - none_strong, n))
    return losses, factors


def _by_law_and_rate(counts: LossCounts, width: float) -> dict[tuple[PrivacyLoss, float], dict[float, int]]:
    """Group losses by law and rate. Many rates are replaced by few that are higher by at most a factor e^width."""
    groups: dict[tuple[PrivacyLoss, float], dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for law in sorted({loss.law for loss in counts}, key=lambda law: law.name):
        own = [(loss, count) for loss, count in counts.items() if loss.law is law]
        rates = np.array([loss.rate for loss, _ in own])
        if len(np.unique(rates)) > MAX_DISTINCT:
            rates = raise_to_grid(rates, width)
        for rate, (loss, count) in zip(rates, own, strict=True):
            groups[law, float(rate)][loss.mu] += count
    return groups


def raise_to_grid(values: Array, width: float) -> Array:
    """Raise positive values to the next point of the grid max · e^(−width k). The largest value stays."""
    largest = values.max()
    k = np.floor(np.log(largest / values) / width * (1 - 1e-12))
    return np.asarray(np.maximum(values, largest * np.exp(-width * k)))


def strong_probability(law: PrivacyLoss, low: Array, high: Array, mu: Array) -> Array:
    """Return (s(μ) − s(low)) / (s(high) − s(low)), from s or from 1 − s, whichever is smaller; rounded up."""

    def minus_complement(m: Array) -> Array:
        return -law.total_variation_complement(m)

    with np.errstate(invalid="ignore"):
        shares = [(f(mu) - f(low)) / (f(high) - f(low)) for f in (law.total_variation, minus_complement)]
    share = np.where(mu < 1, *shares)
    return np.asarray(np.clip(np.nan_to_num(share, nan=1.0) + 1e-11, 0.0, 1.0))
