"""Noise that is scaled to a sensitivity without a proof."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from tacit.privacy.bounded import Bounded
from tacit.privacy.mechanisms.base import LedgerFields, Mechanism, check_registered, mechanism_from_ledger, mechanisms
from tacit.privacy.mechanisms.loss import Array

if TYPE_CHECKING:
    from torch import Tensor

_NOISE = "mechanism"  # the ledger field that stores the name of the mechanism whose noise is added


@mechanisms.register("unproven")
@dataclass(frozen=True, eq=False)
class Unproven(Mechanism):
    """Adds the noise of another mechanism where the sensitivity is not proven. Nothing is guaranteed.

    Args:
        noise: The mechanism whose noise is added.
    """

    name: ClassVar[str] = "unproven"
    no_guarantee_because: ClassVar[str] = "the noise is scaled to a sensitivity that is not proven"
    noise: Mechanism

    def multipliers(self, n: int) -> Array:
        return self.noise.multipliers(n)

    def with_multipliers(self, multipliers: Array) -> Self:
        return replace(self, noise=self.noise.with_multipliers(multipliers))

    def to_ledger(self, n: int) -> LedgerFields:
        check_registered(self.noise)
        return {_NOISE: self.noise.name, **self.noise.to_ledger(n)}

    @classmethod
    def from_ledger(cls, fields: LedgerFields) -> Self:
        name = fields[_NOISE]
        assert isinstance(name, str)
        return cls(mechanism_from_ledger(name, {key: value for key, value in fields.items() if key != _NOISE}))

    def noise_scale(self, bounded: Bounded) -> Array:
        return self.noise.noise_scale(bounded)

    def add_noise(self, value: Tensor, scale: Array, bounded: Bounded, *, strict: bool = True) -> None:
        # Values that are too large for the grid would void a proof. There is none, so they are allowed.
        self.noise.add_noise(value, scale, bounded, strict=False)
