"""From the leverages of a view to ε, by the accountant of the ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.privacy import Adversary, Eavesdropper, Paired, PairPlan, Release, guarantee
from tacit.threats.leverage import leverage
from tacit.threats.rounds import Array, Ints, MixingRounds

MAX_SEQUENCES = 16  # of noise multipliers accounted per call; beyond that, groups are accounted by a dominating one


def leverages_of(rounds: MixingRounds, adversary: Adversary) -> Array:
    """The leverage (kinds, n) of every node in every kind of round, relative to a view of all messages."""
    covariance = None if rounds.pairs is None else rounds.pairs.covariance(adversary.controls)
    own = [kind.noise if rounds.pairs is None else rounds.pairs.own for kind in rounds.kinds]
    views = [adversary.view(kind.weights, kind.mean_weights) for kind in rounds.kinds]
    return np.array([leverage(view, noise, covariance) for view, noise in zip(views, own, strict=True)])


def collusion_factor(pairs: PairPlan | None, adversary: Adversary) -> Array | None:
    """By which factor (n,) the adversary's noise variance is smaller than that of the stated guarantee.

    Below 1, it knows less of the noise of pairs than the planned colluders do. NaN for nodes under its control; None
    if the noise of nodes is independent, so that colluders change nothing.
    """
    if pairs is None:
        return None
    if isinstance(adversary, Eavesdropper):
        against = pairs.multipliers(adversary.colluders)
    else:
        against = pairs.multipliers_against(adversary.controls)
    return np.asarray(np.square(pairs.multipliers() / against))


def epsilons_with_factor(releases: Sequence[Release], factor: Array, delta: float) -> Array:
    """ε (n,) of the releases with a noise variance that is smaller by `factor` where noise is paired; NaN for NaN."""
    known = np.flatnonzero(np.isfinite(factor))
    seen = [release.for_rows(known) for release in releases]
    noise = 1 / np.sqrt(factor[known])
    for at, release in enumerate(releases):
        if isinstance(release.mechanism, Paired):
            seen[at] = seen[at].with_values(seen[at].multipliers * noise)
    epsilons = np.full(len(factor), np.nan)
    epsilons[known] = guarantee(seen, delta)
    return epsilons


def view_epsilons(rounds: MixingRounds, nodes: Ints, leverages: Array, delta: float) -> Array:
    """ε of a record of nodes[k] with leverages[:, k] in the kinds of rounds, for every k."""
    multipliers = np.array([release.multipliers for release in rounds.releases])
    rates = rounds.releases[0].rates
    _, same_noise = np.unique(np.vstack([rates, multipliers]), axis=1, return_inverse=True)
    cases, first, case = np.unique(
        np.vstack([same_noise.reshape(-1)[nodes], leverages]), axis=1, return_index=True, return_inverse=True
    )
    with np.errstate(divide="ignore"):  # leverage 0 is infinite noise
        noise = multipliers[:, nodes[first]] / np.sqrt(cases[1:][rounds.kind_of_round])
    return sequence_epsilons(rounds.releases, noise, rates[nodes[first]], delta)[case.reshape(-1)]


def sequence_epsilons(releases: Sequence[Release], noise: Array, rates: Array, delta: float) -> Array:
    """ε for each column of noise multipliers (rounds, k), or for a sequence that dominates it (at least as bad).

    The order of rounds does not matter for independent draws, so columns are sorted and compared. It matters
    for permutations, where each record is drawn once per epoch; there, and without sampling, ε has a closed
    form and every column is accounted by itself.
    """
    groups = np.arange(noise.shape[1])
    if releases[0].sampling.kind in ("poisson", "without-replacement"):
        noise = np.sort(noise, axis=0)
        if len(groups) > MAX_SEQUENCES:
            signal = rates * np.sqrt(np.square(1 / noise).sum(axis=0))
            groups = np.searchsorted(np.linspace(signal.min(), signal.max(), MAX_SEQUENCES + 1)[1:-1], signal)
    epsilons = np.empty(noise.shape[1])
    for group in np.unique(groups):
        members = groups == group
        least_noise, largest_rate = noise[:, members].min(axis=1), rates[members].max()
        epsilons[members] = _epsilon(releases, least_noise, largest_rate, delta)
    return epsilons


def _epsilon(releases: Sequence[Release], noise: Array, rate: float, delta: float) -> float:
    seen = [
        release.with_values(np.array([multiplier]), np.array([rate]))
        for release, multiplier in zip(releases, noise.tolist(), strict=True)
        if np.isfinite(multiplier)
    ]
    return float(guarantee(seen, delta)[0]) if seen else 0.0
