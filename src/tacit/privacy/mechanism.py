"""The one door out of a node. What is noised here is what the ledger says, because both happen in `release`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError, unknown
from tacit.privacy.bounded import Bounded
from tacit.privacy.release import Release

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float64]
Name = Literal["gaussian", "laplace", "unproven", "exact"]
Entries = Mapping[str, Array | str]
"""What the ledger stores of a mechanism: vectors with one entry per hosted node, and strings."""


class Mechanism(ABC):
    """Turns a `Bounded` value into one that may leave: the event is written first, then the noise is drawn."""

    name: ClassVar[Name]

    @abstractmethod
    def multipliers(self, n: int) -> Array:
        """Return noise ÷ sensitivity, (n,)."""

    @abstractmethod
    def with_multipliers(self, multipliers: Array) -> Self:
        """Return the same mechanism with other noise multipliers."""

    @abstractmethod
    def to_ledger(self, n: int) -> Entries:
        """Return what the ledger stores of the mechanism for n hosted nodes."""

    @classmethod
    @abstractmethod
    def from_ledger(cls, entries: Entries) -> Self:
        """Return the mechanism that `to_ledger` described."""

    def release(self, bounded: Bounded) -> Tensor:
        """The noised value (n, d); it takes over the memory of `bounded.value`."""
        scale = self._scale(bounded, self.multipliers(len(bounded.context.nodes)))
        try:
            bounded.context.ledger.record(Release(bounded.step, bounded.purpose, self, bounded.sampling))
            self._add_noise(bounded, scale)
        except BaseException:
            bounded.value.fill_(math.nan)  # what was refused cannot be sent by mistake: a network takes no NaN
            raise
        return bounded.value

    @abstractmethod
    def _scale(self, bounded: Bounded, multipliers: Array) -> Array: ...

    @abstractmethod
    def _add_noise(self, bounded: Bounded, scale: Array, *, strict: bool = True) -> None: ...


@dataclass(frozen=True)
class _Noisy(Mechanism):
    noise_multiplier: float | Array

    def __post_init__(self) -> None:
        multipliers = np.atleast_1d(np.asarray(self.noise_multiplier, np.float64))
        wrong = multipliers[~((multipliers > 0) & np.isfinite(multipliers))]
        if len(wrong):
            raise TacitError(f"a noise multiplier must be positive and finite, got {wrong[0]}")

    def multipliers(self, n: int) -> Array:
        return np.broadcast_to(np.asarray(self.noise_multiplier, np.float64), (n,))

    def with_multipliers(self, multipliers: Array) -> Self:
        return replace(self, noise_multiplier=multipliers)

    def to_ledger(self, n: int) -> Entries:
        return {"noise_multiplier": self.multipliers(n)}

    @classmethod
    def from_ledger(cls, entries: Entries) -> Self:
        multiplier = entries["noise_multiplier"]
        assert not isinstance(multiplier, str)
        return cls(multiplier)

    def _scale(self, bounded: Bounded, multipliers: Array) -> Array:
        if bounded.sensitivity is None:
            raise TacitError(f"a value without a sensitivity cannot get {self.name} noise: set a clip bound")
        return multipliers * bounded.sensitivity


@dataclass(frozen=True)
class Gaussian(_Noisy):
    """Adds N(0, (noise_multiplier · sensitivity)²) to every coordinate.

    Formal guarantee: one release of a value with L2 sensitivity Δ is (1 / noise_multiplier)-GDP. A bound in L1
    serves as well: ‖v‖₂ ≤ ‖v‖₁.
    """

    name: ClassVar[Name] = "gaussian"

    def _add_noise(self, bounded: Bounded, scale: Array, *, strict: bool = True) -> None:
        noise, nodes = bounded.context.noise, bounded.context.nodes
        noise.gaussian_(bounded.value, scale, f"noise/{bounded.purpose}", nodes, bounded.step, strict=strict)


@dataclass(frozen=True)
class Laplace(_Noisy):
    """Adds Laplace(0, noise_multiplier · sensitivity) to every coordinate.

    Formal guarantee: one release of a value with L1 sensitivity Δ is (1 / noise_multiplier, 0)-DP.
    """

    name: ClassVar[Name] = "laplace"

    def _scale(self, bounded: Bounded, multipliers: Array) -> Array:
        if bounded.norm != "l1":
            raise TacitError('Laplace noise needs a value bounded in L1, not in L2: clip with norm = "l1"')
        return super()._scale(bounded, multipliers)

    def _add_noise(self, bounded: Bounded, scale: Array, *, strict: bool = True) -> None:
        noise, nodes = bounded.context.noise, bounded.context.nodes
        noise.laplace_(bounded.value, scale, f"noise/{bounded.purpose}", nodes, bounded.step, strict=strict)


@dataclass(frozen=True)
class Unproven(Mechanism):
    """The noise of another mechanism, where nothing proves the sensitivity that it is scaled to: no guarantee."""

    law: Mechanism
    name: ClassVar[Name] = "unproven"

    def multipliers(self, n: int) -> Array:
        return self.law.multipliers(n)

    def with_multipliers(self, multipliers: Array) -> Self:
        return replace(self, law=self.law.with_multipliers(multipliers))

    def to_ledger(self, n: int) -> Entries:
        return {"law": self.law.name, **self.law.to_ledger(n)}

    @classmethod
    def from_ledger(cls, entries: Entries) -> Self:
        law = entries["law"]
        assert isinstance(law, str)
        return cls(mechanism_from_ledger(law, {key: value for key, value in entries.items() if key != "law"}))

    def _scale(self, bounded: Bounded, multipliers: Array) -> Array:
        return self.law._scale(bounded, multipliers)

    def _add_noise(self, bounded: Bounded, scale: Array, *, strict: bool = True) -> None:
        self.law._add_noise(bounded, scale, strict=False)  # that rounding spoils no proof is of no use here


@dataclass(frozen=True)
class Exact(Mechanism):
    """No noise and no guarantee: the ledger says so, and every report of the run does too."""

    name: ClassVar[Name] = "exact"

    def multipliers(self, n: int) -> Array:
        return np.broadcast_to(0.0, (n,))

    def with_multipliers(self, multipliers: Array) -> Self:
        return self

    def to_ledger(self, n: int) -> Entries:
        return {}

    @classmethod
    def from_ledger(cls, entries: Entries) -> Self:
        return cls()

    def _scale(self, bounded: Bounded, multipliers: Array) -> Array:
        return multipliers

    def _add_noise(self, bounded: Bounded, scale: Array, *, strict: bool = True) -> None:
        return


def mechanism_from_ledger(name: str, entries: Entries) -> Mechanism:
    """Return the mechanism that the ledger stores under `name`."""
    classes: dict[str, type[Mechanism]] = {each.name: each for each in (Gaussian, Laplace, Unproven, Exact)}
    if name not in classes:
        raise unknown("mechanism", name, classes)
    return classes[name].from_ledger(entries)
