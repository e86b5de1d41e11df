"""The scales of paired noise: own noise per node and noise per pair, solved for the protection that each node needs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.pair_covariance import (
    Array,
    Edges,
    joint_covariance,
    least_variances,
    star_variances,
    variances_against,
)

_STEPS = 200  # of the search for unequal nodes; equal ones need one
_LEAST_OWN = 0.05  # own variance relative to what the node needs: nobody depends on the others' noise alone
_BITS = 20  # to which scales are rounded up, so that every machine finds the same ones
_MARGIN = 1 - 1e-8  # more than the rounding of factors takes away
MAX_SPREAD = 4096.0
"""The largest noise of a node or a pair, relative to the least noise of a node.

All noise is rounded to the grid of the least noise. Beyond 131,072 times the least noise, floats of 32 bits are coarser
than this grid, and noise would be cut off. Normal numbers reach 9.3 standard deviations.
"""


@dataclass(frozen=True, eq=False)
class PairPlan:
    """Which nodes share keys, and how much noise nodes and pairs add to a release of factor 1.

    Everything here is public and the same at every node. A release with factor f has f times this noise.

    Attributes:
        own: (N,) standard deviation s of each node's own noise, in units of the released value.
        pair: Standard deviation κ of the noise of each pair, the same at both ends.
        sensitivity: (N,) sensitivity of each node's value.
        edges: (E, 2) pairs of nodes that share a key, the smaller id first.
        colluders: The number of colluding nodes for which the noise was solved. Stated guarantees are against any
            coalition of this size.
    """

    own: Array
    pair: float
    sensitivity: Array
    edges: Edges
    colluders: int
    _cache: dict[int, Array] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raise TacitError if the plan cannot be, as in a ledger that was changed."""
        scales = np.concatenate([self.own, self.sensitivity, [self.pair]])
        low, high = self.edges.T
        if len(self.sensitivity) != self.nodes:
            raise TacitError(f"A plan of {self.nodes} nodes has {len(self.sensitivity)} sensitivities")
        if not ((scales > 0) & np.isfinite(scales)).all():
            raise TacitError("Scales and sensitivities of paired noise must be positive and finite")
        if not 0 <= self.colluders < self.nodes:
            raise TacitError(f"The number of colluders must be from 0 to {self.nodes - 1}, got {self.colluders}")
        if not ((low >= 0) & (high < self.nodes)).all():
            raise TacitError(f"Keys of paired noise must belong to nodes from 0 to {self.nodes - 1}")
        if not (low < high).all() or len(np.unique(low * self.nodes + high)) < len(low):
            raise TacitError("Keys of paired noise must have each pair of two different nodes once, smaller id first")

    @property
    def nodes(self) -> int:
        """The number of nodes N of the network."""
        return len(self.own)

    @property
    def ratio(self) -> float:
        """κ² divided by the mean of s²."""
        return float(self.pair**2 / np.mean(self.own**2))

    def partners(self, node: int) -> set[int]:
        """The nodes with which a node shares keys."""
        return {*self.edges[(self.edges == node).any(axis=1)].flatten().tolist()} - {node}

    def multipliers(self, colluders: int | None = None) -> Array:
        """Return the noise multipliers (N,) against any coalition of so many nodes; None: of the planned size.

        One release is as private as a Gaussian release with this multiplier; see `tacit.privacy.Paired`.
        """
        size = min(self.colluders if colluders is None else colluders, self.nodes - 1)
        if size not in self._cache:
            variances = least_variances(self.own, self.pair, self.edges, size)
            self._cache[size] = np.sqrt(variances) / self.sensitivity * _MARGIN
        return self._cache[size]

    def multipliers_against(self, coalition: Collection[int]) -> Array:
        """Return the noise multipliers (N,) against these colluders, NaN for the colluders themselves."""
        return np.sqrt(variances_against(self.own, self.pair, self.edges, coalition)) / self.sensitivity * _MARGIN

    def covariance(self, coalition: Collection[int] = ()) -> Array:
        """Return the covariance (N, N) of the noise that these colluders do not know."""
        return joint_covariance(self.own, self.pair, self.edges, coalition)

    def replicated(self, copies: int) -> PairPlan:
        """Return the plan of so many separate copies of the network, in which no two copies share a key."""
        first = self.nodes * np.arange(copies)[:, None, None]
        edges = (self.edges + first).reshape(-1, 2)
        own, sensitivity = np.tile(self.own, copies), np.tile(self.sensitivity, copies)
        return PairPlan(own, self.pair, sensitivity, edges, self.colluders)

    def to_ledger(self) -> dict[str, Array]:
        """Return the plan as vectors."""
        numbers = {"pair": self.pair, "colluders": self.colluders}
        vectors = {"own": self.own, "sensitivity": self.sensitivity, "edges": self.edges.astype(np.float64).reshape(-1)}
        return {**vectors, **{key: np.array([value], np.float64) for key, value in numbers.items()}}

    @property
    def digest(self) -> str:
        """SHA-256 of the plan in hexadecimal. Nodes with different plans must not exchange values."""
        digest = hashlib.sha256()
        for key, values in sorted(self.to_ledger().items()):
            digest.update(f"{key} {values.size} ".encode() + np.ascontiguousarray(values, np.float64).tobytes())
        return digest.hexdigest()

    @classmethod
    def from_ledger(cls, fields: Mapping[str, Array]) -> PairPlan:
        """Return the plan that `to_ledger` described."""
        edges = np.asarray(fields["edges"], np.int64).reshape(-1, 2)
        pair, colluders = float(fields["pair"][0]), int(fields["colluders"][0])
        return cls(np.asarray(fields["own"]), pair, np.asarray(fields["sensitivity"]), edges, colluders)


def solve_pairs(multipliers: Array, sensitivity: Array, edges: Edges, colluders: int, ratio: float) -> PairPlan:
    """Return the least noise with which every node has its noise multiplier against any `colluders` other nodes.

    Nodes that need the same protection get the same own noise, as in c = (1 + r) / (1 + r (n − t)) for a complete key
    graph. Nodes that need less add less, but at least 1/4096 of the largest noise (`MAX_SPREAD`). The scales are
    rounded up, so that all machines find the same numbers.

    Args:
        multipliers: (N,) noise multiplier that each node needs, as from independent noise.
        sensitivity: (N,) sensitivity of each node's value.
        edges: (E, 2) pairs of nodes that share a key.
        colluders: The size of the coalitions.
        ratio: κ² divided by the mean of the nodes' own variances.

    Raises:
        TacitError: An argument is out of range.
    """
    if not 0 < ratio <= 1e6:
        raise TacitError(f"privacy.ratio must be above 0 and at most 1e6, got {ratio:g}")
    if not 0 <= colluders < len(multipliers):
        raise TacitError(f"privacy.colluders must be from 0 to {len(multipliers) - 1}, got {colluders}")
    needed = (multipliers * sensitivity) ** 2
    own = needed.copy()
    for _ in range(_STEPS):
        kappa = np.sqrt(ratio * own.mean())
        found = _quick_variances(np.sqrt(own), kappa, edges, colluders)
        change = np.maximum(needed / found, _LEAST_OWN * needed / own)
        own *= change
        if np.abs(change - 1).max() < 1e-6:
            break
    kappa = float(np.sqrt(ratio * own.mean()))
    own = np.maximum(own, max(own.max(), kappa**2) * (1.01 / MAX_SPREAD) ** 2)
    least = least_variances(np.sqrt(own), kappa, edges, colluders)
    enough = np.sqrt((needed / least).max()) / _MARGIN**2  # the search is not exact: all scales times this are
    return PairPlan(
        _rounded_up(np.sqrt(own) * enough), float(_rounded_up(kappa * enough)), sensitivity, edges, colluders
    )


def _quick_variances(own: Array, pair: float, edges: Edges, colluders: int) -> Array:
    """A lower bound on the variances that is computed fast: exact for a complete key graph."""
    n = len(own)
    complete = len(edges) == n * (n - 1) // 2
    return (least_variances if complete else star_variances)(own, pair, edges, colluders)


def _rounded_up(values: Array | float) -> Array:
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    return np.asarray(np.ldexp(np.ceil(mantissa * 2.0**_BITS), exponent - _BITS))
