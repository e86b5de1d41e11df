"""The guaranteed ε of releases: an upper bound on the exact value, within one percent of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.accounting.coarsening import raise_to_grid
from tacit.privacy.accounting.composition import epsilon_of_losses
from tacit.privacy.accounting.losses import count_losses
from tacit.privacy.release import Array, Release
from tacit.privacy.sampling import Relation, Sampling

_MAX_VALUES = 16  # different sampling rates, or noise multipliers, that are accounted by themselves


def epsilon(releases: Iterable[Release], delta: float, *, times: int = 1) -> float:
    """Return an ε for which all `releases` together are (ε, δ)-differentially private at every node.

    Noise multipliers are relative to the sensitivity under the relation of the releases' sampling. Poisson sampling
    under replace-one assumes that adding or removing a record moves the value no further than replacing one.

    Args:
        releases: Releases in order of step, from a plan or from a ledger.
        delta: δ in [0, 1).
        times: How often all releases are made, each time with new draws of records and new noise.

    Raises:
        TacitError: If the releases cannot be accounted; an ε is never guessed.

    Example:
        >>> from tacit.privacy import Gaussian, Sampling
        >>> sampling = Sampling("poisson", np.array([0.01]), "add-remove")
        >>> round(epsilon([Release(t, "gradient", Gaussian(1.0), sampling) for t in range(1000)], 1e-5), 2)
        1.83
    """
    return float(guarantee(releases, delta, times=times).max(initial=0.0))


def guarantee(releases: Iterable[Release], delta: float, *, times: int = 1) -> Array:
    """Return each node's guaranteed ε (n,); infinite if something was released without protection.

    The array is empty if there are no releases. See `epsilon`.
    """
    if not 0 <= delta < 1:
        raise TacitError(f"delta must be in [0, 1), got {delta}")
    releases = list(releases)
    if not releases:
        return np.zeros(0)
    relation = _common_relation(releases)
    spent = np.empty(len(releases[0].rates))
    for rows in group_nodes(releases):
        spent[rows] = epsilon_of_losses(count_losses(releases, rows, times), delta, relation)
    return spent


def _common_relation(releases: Sequence[Release]) -> Relation:
    relation = releases[0].sampling.relation
    for release in releases:
        if release.sampling.relation != relation:
            raise TacitError(
                f'All releases must have the same relation, got "{relation}" in step {releases[0].step} and '
                f'"{release.sampling.relation}" in step {release.step}'
            )
    return relation


def group_nodes(releases: Sequence[Release]) -> list[npt.NDArray[np.intp]]:
    """Group nodes whose ε is so close that it is computed once, for the worst of them."""
    noise = np.array([release.multipliers for release in (releases[0], releases[-1])])
    samplings = {id(release.sampling): release.sampling for release in releases}
    rates = np.unique([dominating_rates(sampling) for sampling in samplings.values()], axis=0)
    with np.errstate(divide="ignore", over="ignore"):
        keys = [*rates, *(dominating_values(row) for row in 1 / noise)]
    _, group = np.unique(np.array(keys), axis=1, return_inverse=True)
    return [np.flatnonzero(group == g) for g in range(group.max() + 1)]


def dominating_rates(sampling: Sampling) -> Array:
    """Return the rates with similar ones raised to one value, if higher rates dominate; otherwise as they are."""
    return dominating_values(sampling.rate) if sampling.scheme.higher_rate_dominates else sampling.rate


def dominating_values(values: npt.ArrayLike, max_values: int = _MAX_VALUES) -> Array:
    """Raise each value to one of at most `max_values` values. It is for quantities with which ε grows.

    >>> dominating_values([0.010, 0.0101, 0.02, 0.021], max_values=2).tolist()
    [0.014491..., 0.014491..., 0.021, 0.021]
    """
    given = np.asarray(values, np.float64)
    if len(np.unique(given)) <= max_values:
        return given.copy()
    if max_values < 2 or not (given >= 0).all() or np.isinf(given).any():
        raise TacitError(f"Cannot group values that are negative or not finite into {max_values} values")
    raised = given.copy()
    positive = given > 0
    largest, smallest = given.max(), given[positive].min()
    grid_points = max_values - (0 if positive.all() else 1)
    raised[positive] = raise_to_grid(given[positive], math.log(largest / smallest) / grid_points * (1 + 1e-9))
    return raised
