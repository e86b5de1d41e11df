"""A lower bound on the exact ε: no claim of a smaller ε is true for every value of the stated sensitivity.

The worst case is a record that moves the value by the whole sensitivity while no other record moves it. The outcomes
then have exactly the laws P and Q of the mechanism's pair, sampled: under add-remove, and under replace-one if the
record that takes its place does not move the value either. Three approximations can only reduce the ε of this case:

1. All outcomes in a cell of losses are merged into one, with the loss m = log P(cell)/Q(cell) (data processing).
2. m is rounded to a multiple of h at random, such that its mean is kept. Of n steps, the rounding errors then add up to
   more than s = h √(n log(1/η) / 2) with probability at most η (Hoeffding), so that δ(ε) ≥ δ'(ε + s) − η, where δ' is
   the profile of the rounded losses.
3. Their sum is computed by one Fourier transform (`convolution`), and bounds on its rounding errors, and on what wraps
   around the circle, are subtracted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import scipy

from tacit.privacy.accounting.accountant import guarantee
from tacit.privacy.accounting.coarsening import Factor
from tacit.privacy.accounting.composition import epsilon_of_losses, merge_unsampled
from tacit.privacy.accounting.convolution import (
    FINE_TILTS,
    candidate_tilts,
    circle_widths,
    least_epsilon,
    tilted_transform,
    transform_error,
)
from tacit.privacy.accounting.losses import LossCounts, SampledLoss, draw_losses
from tacit.privacy.accounting.pld import Direction, LossDistribution, loss_cells
from tacit.privacy.release import Release

Array = npt.NDArray[np.float64]

_ROUND_DOWN = 1 - 1e-6
_ACCURACY = 0.002  # what rounding to the grid may cost, as a share of ε
_COARSE = 0.1  # the accuracy of the guaranteed ε that sets the grid
_MAX_LENGTH = 2**23  # of the Fourier transform; beyond, the grid is coarser
_RARE = 1e-4  # η as a share of δ
_MAX_MU = 300.0  # a larger μ, or an infinite one, counts as this one
_MAX_DISTINCT = 64  # of more different losses, many count as slightly smaller ones
_LEAST_DELTA = 1e-100  # no bound is computed for a smaller δ, except 0


def epsilon_lower_bound(releases: Iterable[Release], delta: float, *, times: int = 1) -> float:
    """Return a lower bound on the exact ε of all `releases` at the node with the largest guaranteed ε.

    The exact ε is the least one that holds for every value, and every change, within the stated sensitivity. Under
    add-remove, the bound is usually less than one percent below the guaranteed ε. It may be far below where the
    guaranteed ε may be too large: under replace-one with sampling, and for a permutation. Noise whose privacy loss is
    not proven, or not attained, counts as no loss. The arguments are those of `epsilon`.

    >>> from tacit.privacy import Gaussian, Sampling
    >>> sampling = Sampling("poisson", np.array([0.01]), "add-remove")
    >>> round(epsilon_lower_bound([Release(0, "gradient", Gaussian(1.0), sampling)], 1e-5, times=1000), 3)
    1.824
    """
    releases = _complete(list(releases))
    if not releases:
        return 0.0
    node = int(guarantee(releases, delta, times=times).argmax()) if len(releases[0].rates) > 1 else 0
    if any(release.multipliers[node] == 0 and _attained_rate(release, node) > delta for release in releases):
        return math.inf  # without noise, the record is recognised whenever it is drawn
    counts = merge_unsampled(_attained_losses(releases, node, times))
    upper = epsilon_of_losses(counts, delta, "add-remove", _COARSE)
    if upper == 0 or 0 < delta < _LEAST_DELTA:
        return 0.0
    only, count = next(iter(counts.items()))
    exact = only.law.epsilon(only.mu, delta) if len(counts) == count == only.rate == 1 else None
    if delta == 0 or exact is not None:
        return upper * (1 - 1e-8)
    directions: tuple[Direction, ...] = ("remove", "add") if any(loss.rate < 1 for loss in counts) else ("remove",)
    return max(_composed(_lowered(counts), direction, delta, upper) for direction in directions) * _ROUND_DOWN


def _complete(releases: list[Release]) -> list[Release]:
    """Leave out releases whose cost is not attained, because later ones that belong to them are missing."""
    steps: dict[str, set[int]] = {}
    for release in releases:
        steps.setdefault(release.purpose, set()).add(release.step)
    return [release for release in releases if release.mechanism.is_complete(steps[release.purpose])]


def _attained_rate(release: Release, node: int) -> float:
    return release.sampling.scheme.attained_rate(float(release.rates[node]))


def _attained_losses(releases: list[Release], node: int, times: int) -> LossCounts:
    """Count losses that a record of the node can cause, independently of each other."""
    counts: LossCounts = Counter()
    dependent: LossCounts = Counter()
    for draw in draw_losses(releases, np.array([node])):
        rate = draw.scheme.attained_rate(draw.rate)
        if not draw.law.is_attained or rate == 0:
            continue
        mu = min(1 / draw.multiplier, _MAX_MU) if draw.multiplier > 0 else _MAX_MU
        loss = SampledLoss(draw.law, rate, mu)
        # Draws of several epochs may depend on each other, so that only one of them counts.
        if draw.epoch is None or rate == 1:
            counts[loss] += times
        else:
            dependent[loss] = 1
    if dependent:
        counts[max(dependent, key=lambda loss: loss.mu)] += 1
    return counts


def _lowered(counts: LossCounts) -> LossCounts:
    """Replace many different losses by few that they dominate."""
    if len(counts) <= _MAX_DISTINCT:
        return counts
    mus, rates = (np.array(values) for values in zip(*((loss.mu, loss.rate) for loss in counts), strict=True))
    few = int(math.sqrt(_MAX_DISTINCT)) if len(np.unique(rates)) > 1 else 1
    lowered: LossCounts = Counter()
    for loss, mu, rate, n in zip(
        counts, _lower_to(mus, _MAX_DISTINCT // few), _lower_to(rates, few), counts.values(), strict=True
    ):
        lowered[SampledLoss(loss.law, float(rate), float(mu))] += n
    return lowered


def _lower_to(values: Array, levels: int) -> Array:
    """Lower each value to one of at most `levels` of them, evenly many at each."""
    kept = np.unique(values)
    kept = kept[:: math.ceil(len(kept) / levels)]
    return np.asarray(kept[np.searchsorted(kept, values, side="right") - 1])


def _composed(counts: LossCounts, direction: Direction, delta: float, upper: float) -> float:
    """Return a lower bound on ε in one direction, with a grid for an ε close to `upper`."""
    total = sum(counts.values())
    rare = _RARE * delta
    spread = math.sqrt(total * math.log(1 / rare) / 2)
    h = max(_ACCURACY * upper / spread, 5 * upper / _MAX_LENGTH)
    tail = max(1e-5 * delta / total, 1e-300)
    losses = [_merged_cells(loss, direction, h, tail) for loss in counts]
    factors = [Factor(i, i, 0.0, n) for i, n in enumerate(counts.values())]
    tilts = candidate_tilts(losses, h, delta, upper, FINE_TILTS)
    cumulants = _cumulants(losses, factors, h, tilts)
    widths = circle_widths(tilts, cumulants, delta)
    # The shortest circle, and Chernoff's tilt, which has less rounding noise.
    chernoff = np.where(widths / h < _MAX_LENGTH * 0.99, (cumulants - math.log(delta)) / tilts, np.inf)[:-1]
    found = 0.0
    for choice in {int(widths.argmin()), int(chernoff.argmin())}:
        length = scipy.fft.next_fast_len(max(math.ceil(widths[choice] / h), 16), real=True)
        if length > _MAX_LENGTH:
            continue
        theta = float(tilts[choice])
        transform, cumulant = tilted_transform(losses, factors, h, theta, length)
        tilted = np.maximum(scipy.fft.irfft(transform, length) - transform_error(length, total), 0.0)
        mass = tilted * np.exp(np.minimum(cumulant - theta * h * np.arange(length), 300.0))
        spare = rare + _wrapped(tilts, cumulants, choice, length * h)
        found = max(found, least_epsilon(mass, h, (delta + spare) * (1 + 1e-6)) - h * spread)
    return found


def _merged_cells(loss: SampledLoss, direction: Direction, h: float, tail: float) -> LossDistribution:
    """Return the distribution of the losses of merged cells, rounded to multiples of h with the same mean.

    P is rounded down and Q up, which reduces δ at every ε.
    """
    cells = loss_cells(loss, h, tail)
    p, q = ((cells.p, cells.p_error, cells.p_outside), (cells.q, cells.q_error, cells.q_outside))
    upper, lower = (p, q) if direction == "remove" else (q, p)
    mass = np.maximum(np.concatenate([[upper[2][0]], upper[0] - upper[1], [upper[2][1]]]), 0.0) * (1 - 1e-14)
    other = np.concatenate([[lower[2][0]], lower[0] + lower[1], [lower[2][1]]]) * (1 + 1e-14)
    mass, other = mass[mass > 0], np.maximum(other[mass > 0], 1e-300)  # anything lost by underflow is smaller
    at = np.minimum(np.log(mass / other) / h, _MAX_LENGTH / 8)  # a larger loss counts as one that fits on the circle
    below = np.floor(at)
    up = mass * (at - below)
    multiples, place = np.unique(np.concatenate([below, below + 1]).astype(np.int64), return_inverse=True)
    rounded: Array = np.bincount(place, np.concatenate([mass - up, up])).astype(np.float64)
    return LossDistribution(multiples, rounded, 0.0)


def _cumulants(losses: list[LossDistribution], factors: list[Factor], h: float, tilts: Array) -> Array:
    """Return K(t) of the sum for each t."""
    total = np.zeros(len(tilts))
    for loss, factor in zip(losses, factors, strict=True):
        exponents = np.outer(tilts * h, loss.multiples)
        top = exponents.max(axis=1)
        total += factor.times * (np.log(np.exp(exponents - top[:, None]) @ loss.mass + 1e-290) + top)
    return total


def _wrapped(tilts: Array, cumulants: Array, choice: int, width: float) -> float:
    """Return a bound on the mass that wraps around the circle: from below 0 by e^{−θW}, from above W by Chernoff."""
    theta = tilts[choice]
    above = (cumulants - (tilts - theta) * width)[tilts > theta].min()
    return (1 / math.expm1(min(theta * width, 700.0)) + math.exp(min(float(above), 0.0))) * (1 + 1e-6)
