"""From what a view shows of each round to ε, by the accountant of the ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.privacy.ledger import Array, Release
from tacit.privacy.planning import guarantee
from tacit.threats.leverage import leverage
from tacit.threats.mixing import Ints, Mixing
from tacit.threats.models import Threat

SEQUENCES = 16  # of noise multipliers that are accounted; where there are more, each is for all that it dominates


def shown(rounds: Mixing, threat: Threat) -> Array:
    """The leverages (kinds, n) of all nodes in every kind of round."""
    return np.array([leverage(threat.view(kind.weights, kind.ends), kind.noise) for kind in rounds.kinds])


def costs(rounds: Mixing, nodes: Ints, leverages: Array, delta: float) -> Array:
    """ε of a record of nodes[k] whose leverages in the kinds of rounds are leverages[:, k], for all k."""
    multipliers = np.array([line.multipliers for line in rounds.lines])
    rates = rounds.lines[0].rates
    _, alike = np.unique(np.vstack([rates, multipliers]), axis=1, return_inverse=True)
    cases, first, case = np.unique(
        np.vstack([alike.reshape(-1)[nodes], leverages]), axis=1, return_index=True, return_inverse=True
    )
    with np.errstate(divide="ignore"):  # what shows nothing has infinite noise
        noise = multipliers[:, nodes[first]] / np.sqrt(cases[1:][rounds.which])
    return _dominated(rounds.lines, noise, rates[nodes[first]], delta)[case.reshape(-1)]


def _dominated(lines: Sequence[Release], noise: Array, rates: Array, delta: float) -> Array:
    """ε for each column of noise multipliers (rounds, k), or for one that is at least as bad.

    The order of rounds does not count, so columns are compared sorted. It does count where an epoch draws
    every record once; but without sampling ε is a closed form, and every column can have its own.
    """
    columns = np.arange(noise.shape[1])
    if lines[0].sampling in ("poisson", "without-replacement"):
        noise = np.sort(noise, axis=0)
        if len(columns) > SEQUENCES:
            told = rates * np.sqrt(np.square(1 / noise).sum(axis=0))
            columns = np.searchsorted(np.linspace(told.min(), told.max(), SEQUENCES + 1)[1:-1], told)
    spent = np.empty(noise.shape[1])
    for column in np.unique(columns):
        members = columns == column
        least, rate = noise[:, members].min(axis=1), rates[members].max()
        spent[members] = _epsilon(lines, least, rate, delta)
    return spent


def _epsilon(lines: Sequence[Release], noise: Array, rate: float, delta: float) -> float:
    told = [
        line._replace(multipliers=np.array([multiplier]), rates=np.array([rate]))
        for line, multiplier in zip(lines, noise.tolist(), strict=True)
        if np.isfinite(multiplier)
    ]
    return float(guarantee(told, delta)[0]) if told else 0.0
