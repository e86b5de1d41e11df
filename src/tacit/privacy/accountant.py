"""The guaranteed ε of releases: an upper bound on the exact value, within one percent of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.bounded import SamplingKind
from tacit.privacy.composition import steps_epsilon
from tacit.privacy.release import Array, Release
from tacit.privacy.steps import read_steps
from tacit.privacy.thinning import ladder_up


def epsilon(releases: Iterable[Release], delta: float) -> float:
    """Return an ε for which all `releases` together are (ε, δ)-differentially private at every node.

    Noise multipliers are relative to the sensitivity under the relation of the releases' sampling. Poisson sampling
    under replace-one assumes that adding or removing a record moves the value no further than replacing one.

    Example:
        >>> from tacit.privacy import Gaussian, Sampling
        >>> sampling = Sampling("poisson", np.array([0.01]), "add-remove")
        >>> round(epsilon([Release(t, "gradient", Gaussian(1.0), sampling) for t in range(1000)], 1e-5), 2)
        1.83
    """
    return float(guarantee(releases, delta).max(initial=0.0))


def guarantee(releases: Iterable[Release], delta: float) -> Array:
    """Return each node's guaranteed ε (n,); infinite where something was released without noise."""
    if not 0 <= delta < 1:
        raise TacitError(f"δ lies between 0 and 1, and {delta} does not")
    releases = list(releases)
    if not releases:
        return np.zeros(0)
    spent = np.empty(len(releases[0].rates))
    for members in group_nodes(releases):
        spent[members] = steps_epsilon(read_steps(releases, members), delta, releases[0].sampling.relation)
    return spent


def group_nodes(releases: Sequence[Release]) -> list[npt.NDArray[np.intp]]:
    """Group nodes whose ε is so close that it is computed once, for the worst of them."""
    first = releases[0].sampling
    noise = np.array([release.multipliers for release in (releases[0], releases[-1])])
    with np.errstate(divide="ignore"):
        keys = [grouped_rates(first.kind, first.rate), *(dominating_rates(row) for row in 1 / noise)]
    _, group = np.unique(np.array(keys), axis=1, return_inverse=True)
    return [np.flatnonzero(group == g) for g in range(group.max() + 1)]


def grouped_rates(kind: SamplingKind, rates: Array) -> Array:
    """Raise similar rates to one value. A permutation keeps its rates: short epochs do not dominate long ones."""
    return rates if kind == "permutation" else dominating_rates(rates)


def dominating_rates(rates: npt.ArrayLike, most: int = 16) -> npt.NDArray[np.float64]:
    """Each rate raised to one of at most `most` values; ε grows with the rate, so that of a higher one holds.

    >>> dominating_rates([0.010, 0.0101, 0.02, 0.021], most=2).tolist()
    [0.014491..., 0.014491..., 0.021, 0.021]
    """
    given = np.asarray(rates, np.float64)
    if len(np.unique(given)) <= most:
        return given.copy()
    if most < 2 or not (given >= 0).all() or np.isinf(given).any():
        raise TacitError(f"{most} values cannot stand for all of these rates")
    raised = given.copy()
    positive = given > 0
    top, least = given.max(), given[positive].min()
    rungs = most - (0 if positive.all() else 1)
    raised[positive] = ladder_up(given[positive], math.log(top / least) / rungs * (1 + 1e-9))
    return raised
