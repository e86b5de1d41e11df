"""From releases to counted privacy losses, the form that the accountant composes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.mechanisms import NO_PRIVACY, Mechanism, PrivacyLoss, check_registered
from tacit.privacy.release import Release
from tacit.privacy.sampling import Sampling, SamplingKind

Rows = npt.NDArray[np.intp]


class SampledLoss(NamedTuple):
    """The privacy loss `law` at μ, on a random share `rate` of the records. An infinite μ protects nothing."""

    law: PrivacyLoss
    rate: float
    mu: float


LossCounts = Counter[SampledLoss]
"""How often each sampled loss occurs in a stream of releases."""


class DrawLoss(NamedTuple):
    """Everything released from one draw of records, as one release that dominates it."""

    law: PrivacyLoss
    multiplier: float
    scheme: type[SamplingKind]
    rate: float
    epoch: int | None


def count_losses(releases: Iterable[Release], rows: Rows, times: int = 1) -> LossCounts:
    """Count the sampled losses that dominate what each of the nodes in `rows` released, `times` times."""
    counts: LossCounts = Counter()
    for draw in reversed(draw_losses(releases, rows)):
        if draw.law is NO_PRIVACY:
            counts[SampledLoss(NO_PRIVACY, 1.0, math.inf)] += times
            continue
        rate = draw.scheme.accounted_rate(draw.rate)
        mu = 1 / draw.multiplier if draw.multiplier > 1e-100 else math.inf
        if rate > 0 and mu > 0:
            counts[SampledLoss(draw.law, rate, mu)] += times
    return counts


def draw_losses(releases: Iterable[Release], rows: Rows) -> list[DrawLoss]:
    """Return one loss per independent draw that dominates what each of the nodes in `rows` released.

    The nodes are given the least noise and the highest rate among them, which
    dominates each of them. Draws of one epoch count as the worst of them.
    """
    reader = _Reader(rows)
    epochs: dict[object, list[DrawLoss]] = {}
    in_order = sorted(releases, key=lambda release: release.step)
    for _, same_step in groupby(in_order, key=lambda release: release.step):
        for same_draw in _draws(list(same_step)):
            draw = reader.read(same_draw)
            key = len(epochs) if draw.epoch is None else (draw.scheme, draw.rate, draw.epoch)
            epochs.setdefault(key, []).append(draw)
    return [_worst(draws) for draws in epochs.values()]


def _draws(releases: Sequence[Release]) -> list[list[Release]]:
    """Split the releases of one step by their draw of records.

    Releases with the same sampling share their draw. A release from all records involves no draw, so it is composed
    with the others like a release of another step. Two different random draws of one step may depend on each other,
    and no bound is known for that.
    """
    draws: list[list[Release]] = []
    for release in releases:
        for draw in draws:
            if _same_sampling(draw[0].sampling, release.sampling):
                draw.append(release)
                break
        else:
            draws.append([release])
    random = sorted({draw[0].sampling.kind for draw in draws if draw[0].sampling.scheme.is_random})
    if len(random) > 1 or sum(draw[0].sampling.scheme.is_random for draw in draws) > 1:
        raise TacitError(
            f"Step {releases[0].step} has releases from several different draws of records ({', '.join(random)}), "
            "whose joint privacy is unknown: use a step of its own for each draw"
        )
    return draws


class _Reader:
    """Reads the releases of one draw. Values are cached: most releases share their mechanism and their sampling."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        # By id. The objects are stored too, so that no id is used twice.
        self._multipliers: dict[int, tuple[Mechanism, float]] = {}
        self._rates: dict[int, tuple[Sampling, float]] = {}

    def read(self, releases: Sequence[Release]) -> DrawLoss:
        """Combine the releases of one draw: they see the same records, so they are composed before amplification."""
        sampling = releases[0].sampling
        law, multiplier = self._combined(releases)
        rate = self._rate(sampling)
        return DrawLoss(law, multiplier, sampling.scheme, rate, sampling.scheme.epoch(releases[0].step, rate))

    def _combined(self, releases: Sequence[Release]) -> tuple[PrivacyLoss, float]:
        laws = {release.mechanism.loss for release in releases}
        multipliers = [self._multiplier(release) for release in releases]
        if NO_PRIVACY in laws or min(multipliers) == 0:
            return NO_PRIVACY, 0.0
        law = releases[0].mechanism.loss
        if len(releases) == 1:
            return law, multipliers[0]
        combined = law.combine(multipliers) if len(laws) == 1 else None
        if combined is None:
            names = " and ".join(sorted({each.name for each in laws}))
            raise TacitError(
                f"Step {releases[0].step} releases {len(releases)} values of one draw with {names} noise, which cannot "
                "be accounted together: release one value per draw, or use Gaussian noise for all of them"
            )
        return law, combined

    def _multiplier(self, release: Release) -> float:
        key = id(release.mechanism)
        if key not in self._multipliers:
            check_registered(release.mechanism)
            self._multipliers[key] = release.mechanism, float(release.multipliers[self._rows].min())
        return self._multipliers[key][1]

    def _rate(self, sampling: Sampling) -> float:
        key = id(sampling)
        if key not in self._rates:
            rates = sampling.rate[self._rows]
            assert sampling.scheme.higher_rate_dominates or (rates == rates[0]).all(), "nodes were grouped wrongly"
            self._rates[key] = sampling, float(rates.max())
        return self._rates[key][1]


def _same_sampling(one: Sampling, other: Sampling) -> bool:
    if one is other:
        return True
    return (one.kind, one.relation) == (other.kind, other.relation) and np.array_equal(one.rate, other.rate)


def _worst(draws: Sequence[DrawLoss]) -> DrawLoss:
    """Return the worst draw of one epoch. A record is in at most one of them."""
    if len(draws) == 1:
        return draws[0]
    for draw in draws:
        if draw.law is NO_PRIVACY:
            return draw
    if len({draw.law for draw in draws}) > 1:
        names = " and ".join(sorted({draw.law.name for draw in draws}))
        raise TacitError(f"One epoch of a permutation has {names} noise, which cannot be accounted together")
    return min(draws, key=lambda draw: draw.multiplier)
