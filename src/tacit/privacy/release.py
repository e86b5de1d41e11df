"""One release of a value by every hosted node: planned, recorded in the ledger, accounted and reported as this type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tacit.privacy.sampling import Sampling

if TYPE_CHECKING:
    from tacit.privacy.mechanisms import Mechanism

Array = npt.NDArray[np.float64]

Unit = Literal["record", "node"]
"""What a guarantee protects: one record, or all data of one node."""


@dataclass(frozen=True, eq=False)
class Release:
    """One value per hosted node, released by `mechanism` from records drawn by `sampling`.

    Releases of the same `step` and sampling come from the same draw of records; `purpose` distinguishes them. `unit`
    is what the sensitivity behind the noise is about. Vectors have one entry per hosted node.
    """

    step: int
    purpose: str
    mechanism: Mechanism
    sampling: Sampling
    unit: Unit = "record"

    @cached_property
    def multipliers(self) -> Array:
        """(n,) noise divided by sensitivity; 0 means no noise."""
        return self.mechanism.multipliers(len(self.sampling.rate))

    @property
    def rates(self) -> Array:
        """(n,) share of the node's records in one draw."""
        return self.sampling.rate

    def is_at_least_as_private_as(self, other: Release) -> bool:
        """Whether kind of noise and sampling are the same, with at least as much noise and no higher sampling rates."""
        return (
            self.mechanism.is_same_kind(other.mechanism)
            and (self.unit, self.sampling.kind, self.sampling.relation)
            == (other.unit, other.sampling.kind, other.sampling.relation)
            and bool((self.multipliers >= other.multipliers).all() and (self.rates <= other.rates).all())
        )

    def with_values(self, multipliers: Array | None = None, rates: Array | None = None) -> Release:
        """Return the same release with other noise multipliers or other sampling rates."""
        multipliers = self.multipliers if multipliers is None else multipliers
        sampling = self.sampling if rates is None else replace(self.sampling, rate=rates)
        return replace(self, mechanism=self.mechanism.with_multipliers(multipliers), sampling=sampling)

    def for_rows(self, rows: npt.NDArray[np.int64]) -> Release:
        """Return the release of the nodes in the given rows only."""
        return self.with_values(self.multipliers[rows], self.rates[rows])
