"""Releases of one kind in one line, for the privacy statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from tacit.privacy import Array, Release


@dataclass(frozen=True)
class ReleaseSummary:
    """All releases with the same purpose and mechanism, over all rounds and nodes.

    Attributes:
        count: Number of releases per node.
        multipliers: Smallest and largest noise multiplier.
        rates: Smallest and largest sampling rate.
        sampling: Name of the sampling kind.
    """

    purpose: str
    mechanism: str
    count: int
    multipliers: tuple[float, float]
    rates: tuple[float, float]
    sampling: str


def summarise_releases(releases: Iterable[Release]) -> list[ReleaseSummary]:
    """One summary per purpose and mechanism."""
    summaries = []
    for (purpose, mechanism), group in groupby(sorted(releases, key=_kind), key=_kind):
        same = list(group)
        multipliers, rates = _range(each.multipliers for each in same), _range(each.rates for each in same)
        count = len({each.step for each in same})
        summaries.append(ReleaseSummary(purpose, mechanism, count, multipliers, rates, same[0].sampling.kind))
    return summaries


def _kind(release: Release) -> tuple[str, str]:
    return release.purpose, release.mechanism.name


def _range(vectors: Iterable[Array]) -> tuple[float, float]:
    ends = np.array([(vector.min(), vector.max()) for vector in vectors])
    return float(ends[:, 0].min()), float(ends[:, 1].max())
