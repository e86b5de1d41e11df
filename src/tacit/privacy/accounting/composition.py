"""ε of counted privacy losses: an upper bound on the exact value, within one percent of it."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.accounting.coarsening import coarsen_losses
from tacit.privacy.accounting.convolution import epsilon_of_sum
from tacit.privacy.accounting.losses import LossCounts, SampledLoss
from tacit.privacy.accounting.pld import Direction, loss_cells, loss_distribution
from tacit.privacy.gdp import mu_to_epsilon
from tacit.privacy.mechanisms import PrivacyLoss
from tacit.privacy.sampling import Relation

TOLERANCE = 0.006  # the grid is refined until ε changes by a smaller share; the remaining error is smaller still
_ROUND_UP = 1 + 1e-9
_MAX_REFINEMENTS = 8
_NEGLIGIBLE_DELTA = 1e-250  # a smaller δ counts as 0
_LARGEST_ERROR = 1e-3  # of ε from rounding on the first grid; a finer one would only have more cells
_MEANINGLESS_EPSILON = 1e5  # above, the sum of the largest losses is not refined by composition
_MAX_REMEMBERED = 256  # different losses of one composition, so that the cache stays small


def epsilon_of_losses(counts: LossCounts, delta: float, relation: Relation, tolerance: float = TOLERANCE) -> float:
    """Return ε: by a closed form where there is one, otherwise by composing the distributions of the losses.

    Args:
        counts: How often each sampled loss occurs.
        delta: δ in [0, 1).
        relation: The neighbouring relation.
        tolerance: The grid of the losses is refined until ε changes by a smaller share.
    """
    if not 0 <= delta < 1:
        raise TacitError(f"delta must be in [0, 1), got {delta}")
    if any(math.isinf(loss.mu) for loss in counts):
        return math.inf
    pure = _sum_of_largest(counts)
    if delta < _NEGLIGIBLE_DELTA or not counts or _MEANINGLESS_EPSILON < pure < math.inf:
        return pure
    counts = merge_unsampled(counts)
    if len(counts) == 1:
        only, count = next(iter(counts.items()))
        exact = only.law.epsilon(only.mu, delta) if count == only.rate == 1 else None
        if exact is not None:
            return exact * _ROUND_UP
    compose = _compose_once if len(counts) <= _MAX_REMEMBERED else _compose
    return min(pure, compose(tuple(counts.items()), delta, relation, tolerance))


def _compose(counts: tuple[tuple[SampledLoss, int], ...], delta: float, relation: Relation, tolerance: float) -> float:
    return compose_losses(Counter(dict(counts)), delta, relation, tolerance)


# Runs with other seeds, and the plan and the ledger of one run, have the same losses. Composing them takes longer than
# training a small model. The key has all arguments and the order of the losses, so that results are equal to the bit.
_compose_once = lru_cache(maxsize=1024)(_compose)


def forget_compositions() -> None:
    """Forget all compositions, for a test that changes how they are computed."""
    _compose_once.cache_clear()
    loss_cells.cache_clear()


def _sum_of_largest(counts: LossCounts) -> float:
    """Return ε at δ = 0: the sum of the largest losses log(1 + q (e^L − 1)), infinite if a loss is unbounded."""
    largest = {loss: loss.law.max_loss(loss.mu) for loss in counts}
    if math.inf in largest.values():
        return math.inf
    return math.fsum(
        n * (largest[loss] + math.log1p((1 - loss.rate) * math.expm1(-largest[loss]))) for loss, n in counts.items()
    )


def merge_unsampled(counts: LossCounts) -> LossCounts:
    """Replace the losses without sampling by one per law, where their composition has a closed form."""
    unsampled: dict[PrivacyLoss, dict[float, int]] = {}
    for loss, count in counts.items():
        if loss.rate == 1:
            unsampled.setdefault(loss.law, {})[loss.mu] = count
    merged = {law: mu for law, mus in unsampled.items() if (mu := law.compose(mus)) is not None}
    rest: LossCounts = Counter(
        {loss: count for loss, count in counts.items() if loss.rate < 1 or loss.law not in merged}
    )
    rest.update({SampledLoss(law, 1.0, mu): 1 for law, mu in merged.items()})
    return rest


def compose_losses(counts: LossCounts, delta: float, relation: Relation, tolerance: float) -> float:
    """Return ε by composition on a grid of width h, which is refined until ε hardly changes.

    Every refinement is an upper bound.
    """
    if math.fsum(n * loss.rate * _total_variation(loss) for loss, n in counts.items()) <= delta:
        return 0.0
    total = sum(counts.values())
    scale = _approximate_mu(counts)
    guess = max(mu_to_epsilon(scale, delta), 0.1 * scale)
    # Each of the `total` losses is rounded up by at most one cell. The second width is the larger one only if ε is
    # enormous, such as that of a schedule which runs on after its end; the first would then need minutes.
    width = max(0.4 * min(guess, math.sqrt(guess)) / math.sqrt(total), _LARGEST_ERROR * guess / total)
    tail = max(1e-5 * delta / total, 1e-300)

    def at_refinement(direction: Direction, refinement: int) -> float:
        h = width / 2**refinement
        losses, factors = coarsen_losses(counts, max(0.04 / 2**refinement, 0.01))
        distributions = [loss_distribution(loss, direction, h, tail) for loss in losses]
        return epsilon_of_sum(distributions, factors, h, delta, guess)

    def refined(direction: Direction, sufficient: float) -> float:
        """Return ε in one direction, or any upper bound on it that is at most `sufficient`."""
        found = at_refinement(direction, 0)
        for refinement in range(1, _MAX_REFINEMENTS):
            if found <= sufficient:
                break
            before, found = found, min(found, at_refinement(direction, refinement))
            if before - found <= tolerance * max(found, 0.1 * scale):
                break
        return found

    if relation == "replace-one":
        return refined("replace", 0.0) * _ROUND_UP
    found = refined("remove", 0.0)
    # Without sampling both directions are the same. With it, `remove` is the worse one of a single release at every
    # ε ≥ 0 (Zhu, Dong and Wang 2022), but of several releases with Laplace noise `add` can be.
    if any(loss.rate < 1 for loss in counts):
        found = max(found, refined("add", found))
    return found * _ROUND_UP


def _total_variation(loss: SampledLoss) -> float:
    return float(loss.law.total_variation(np.array(loss.mu)))


def _approximate_mu(counts: LossCounts) -> float:
    """Return μ of the whole by the central limit: q² (e^{μ²} − 1) per loss, at most its value without sampling.

    It only sets the scale of the grid; no bound rests on it.
    """
    return math.hypot(
        *(
            math.sqrt(n) * min(mu, rate * max(mu, math.sqrt(math.expm1(min(mu, 10.0) ** 2))))
            for (_, rate, mu), n in counts.items()
        )
    )
