"""Release without noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from tacit.privacy.bounded import Bounded
from tacit.privacy.mechanisms.base import LedgerFields, Mechanism, mechanisms
from tacit.privacy.mechanisms.loss import Array

if TYPE_CHECKING:
    from torch import Tensor


@mechanisms.register("exact")
@dataclass(frozen=True)
class Exact(Mechanism):
    """Releases the exact value. Nothing is guaranteed, and every report of the run states this."""

    name: ClassVar[str] = "exact"
    no_guarantee_because: ClassVar[str] = "values leave the nodes without noise"

    def multipliers(self, n: int) -> Array:
        return np.broadcast_to(0.0, (n,))

    def with_multipliers(self, multipliers: Array) -> Self:
        return self

    def to_ledger(self, n: int) -> LedgerFields:
        return {}

    @classmethod
    def from_ledger(cls, fields: LedgerFields) -> Self:
        return cls()

    def noise_scale(self, bounded: Bounded) -> Array:
        return self.multipliers(len(bounded.context.nodes))

    def add_noise(self, value: Tensor, scale: Array, bounded: Bounded, *, strict: bool = True) -> None:
        return
