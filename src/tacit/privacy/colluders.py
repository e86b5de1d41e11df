"""ε of paired noise against every number of colluders, from the releases alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from tacit.privacy.accounting import guarantee
from tacit.privacy.mechanisms import Gaussian, Paired
from tacit.privacy.release import Array, Release

_MAX_EXACT = 32  # numbers of colluders that are accounted by themselves; between them the next larger one counts


def against_colluders(releases: Iterable[Release], delta: float) -> list[float] | None:
    """Return ε of the worst hosted node against 0, 1, … N − 1 colluders; None if no release has paired noise.

    Every entry holds against any coalition of that size, together with an eavesdropper on every link. The list never
    falls: an entry may be that of a larger coalition.
    """
    releases = list(releases)
    nodes = max((each.mechanism.plan.nodes for each in releases if isinstance(each.mechanism, Paired)), default=0)
    if not nodes:
        return None
    sizes = sorted({*np.linspace(0, nodes - 1, min(nodes, _MAX_EXACT)).round().astype(int).tolist()})
    spent = {size: float(epsilons_against(releases, delta, size).max(initial=0.0)) for size in sizes}
    at_least = np.searchsorted(sizes, np.arange(nodes))
    return [float(each) for each in np.maximum.accumulate([spent[sizes[at]] for at in at_least])]


def epsilons_against(releases: Sequence[Release], delta: float, colluders: int) -> Array:
    """Return ε of every hosted node (n,) against any coalition of so many nodes."""
    return guarantee(releases_against(releases, colluders), delta)


def releases_against(releases: Iterable[Release], colluders: int) -> list[Release]:
    """Return the releases with independent noise that protects as paired noise does against so many colluders."""
    seen: dict[int, tuple[Paired, Gaussian]] = {}  # most releases share their mechanism

    def independent(release: Release) -> Release:
        paired = release.mechanism
        if not isinstance(paired, Paired):
            return release
        if id(paired) not in seen:
            seen[id(paired)] = paired, Gaussian(paired.against(colluders))
        return replace(release, mechanism=seen[id(paired)][1])

    return [independent(release) for release in releases]


def planned_colluders(releases: Iterable[Release]) -> int:
    """Return the largest number of colluders for which paired noise was planned; 0 without any."""
    return max((each.mechanism.plan.colluders for each in releases if isinstance(each.mechanism, Paired)), default=0)
