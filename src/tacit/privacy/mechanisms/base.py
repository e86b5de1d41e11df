"""The contract of a mechanism, and the registry of all mechanisms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.bounded import Bounded
from tacit.privacy.mechanisms.loss import NO_PRIVACY, Array, PrivacyLoss
from tacit.privacy.release import Release
from tacit.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

mechanisms: Registry[Mechanism] = Registry("mechanism")

LedgerFields = Mapping[str, Array | str]
"""What the ledger stores of a mechanism: vectors with one entry per hosted node, and strings."""


class Mechanism(ABC):
    """Turns a `Bounded` value into one that may leave the node.

    One class defines how the noise is scaled and drawn, its privacy loss, and its form in the ledger. To add a
    mechanism, add one file to this package with a class that is registered under its own name:

        @mechanisms.register("staircase")
        @dataclass(frozen=True)
        class Staircase(AdditiveNoise):
            name: ClassVar[str] = "staircase"
            loss: ClassVar[PrivacyLoss] = StaircaseLoss()

            def add_noise(self, value, scale, bounded, *, strict=True): ...

    A subclass does not inherit its parent's name: the ledger and the accountant refuse a class that is not
    registered itself, because its noise may differ from what the name stands for.

    Attributes:
        name: The name in the ledger and in reports.
        loss: The privacy loss of one release; `NO_PRIVACY` if nothing is guaranteed.
        no_guarantee_because: The reason, for reports, if `loss` is `NO_PRIVACY`.
    """

    name: ClassVar[str]
    loss: ClassVar[PrivacyLoss] = NO_PRIVACY
    no_guarantee_because: ClassVar[str] = "the privacy loss of a mechanism is unknown"

    @abstractmethod
    def multipliers(self, n: int) -> Array:
        """Return noise ÷ sensitivity (n,), one entry per hosted node; 0 means no noise."""

    @abstractmethod
    def with_multipliers(self, multipliers: Array) -> Mechanism:
        """Return a mechanism with the same privacy loss and other noise multipliers."""

    @abstractmethod
    def to_ledger(self, n: int) -> LedgerFields:
        """Return what the ledger stores of the mechanism for n hosted nodes."""

    @classmethod
    @abstractmethod
    def from_ledger(cls, fields: LedgerFields) -> Self:
        """Return the mechanism that `to_ledger` described."""

    @abstractmethod
    def noise_scale(self, bounded: Bounded) -> Array:
        """Return the scale of the noise (n,), or raise TacitError if the value cannot be released by this mechanism."""

    @abstractmethod
    def add_noise(self, value: Tensor, scale: Array, bounded: Bounded, *, strict: bool = True) -> None:
        """Add noise of this scale to `value` (n, d) in place.

        `bounded` has the step, the purpose, the nodes and the noise. Without `strict`, values that are too large to be
        protected are allowed.
        """

    def is_same_kind(self, other: Mechanism) -> bool:
        """Whether the two mechanisms differ at most in their noise multipliers."""
        return type(self) is type(other)

    def is_complete(self, steps: Collection[int]) -> bool:
        """Whether releases in these steps have the whole cost of each of them, so that a lower bound may count it."""
        return True

    def release(self, bounded: Bounded) -> Tensor:
        """Record the release in the ledger, then return the noised value (n, d).

        The ledger of a run with secret noise writes the release to its file before noise is drawn. That of a simulation
        writes blocks of releases, but always before anybody reads it.

        Nothing else may leave a node. The memory of the value is reused. If the release fails, the value is
        overwritten with NaN, which networks refuse to send. A run that resumes with secret noise repeats releases:
        its journal refuses a value other than that of before.
        """
        scale, context, value = self.noise_scale(bounded), bounded.context, bounded._value
        try:
            release = Release(bounded.step, bounded.purpose, self, bounded.sampling, bounded.unit)
            context.ledger.record(release, simulated=context.noise.simulated)
            self.add_noise(value, scale, bounded)
            if context.ledger.journal is not None:
                context.ledger.journal.admit(bounded.step, bounded.purpose, value)
        except BaseException:
            value.fill_(math.nan)
            raise
        if context.on_release is not None:
            context.on_release(bounded.step, bounded.purpose, value, scale)
        object.__setattr__(bounded, "_noised", True)  # its memory holds the noised value now
        return value


@dataclass(frozen=True, eq=False)
class AdditiveNoise(Mechanism):
    """A mechanism that adds noise of scale noise_multiplier · sensitivity to every coordinate.

    Args:
        noise_multiplier: Noise ÷ sensitivity, one number for all nodes or one entry per node.
    """

    noise_multiplier: float | Array

    def __post_init__(self) -> None:
        multipliers = np.atleast_1d(np.asarray(self.noise_multiplier, np.float64))
        wrong = multipliers[~((multipliers > 0) & np.isfinite(multipliers))]
        if len(wrong):
            raise TacitError(f"noise_multiplier must be positive and finite, got {wrong[0]}")

    def multipliers(self, n: int) -> Array:
        return np.broadcast_to(np.asarray(self.noise_multiplier, np.float64), (n,))

    def with_multipliers(self, multipliers: Array) -> Self:
        return replace(self, noise_multiplier=multipliers)

    def to_ledger(self, n: int) -> LedgerFields:
        return {"noise_multiplier": self.multipliers(n)}

    @classmethod
    def from_ledger(cls, fields: LedgerFields) -> Self:
        multipliers = fields["noise_multiplier"]
        assert not isinstance(multipliers, str)
        return cls(multipliers)

    def noise_scale(self, bounded: Bounded) -> Array:
        if bounded.sensitivity is None:
            raise TacitError(f"{self.name} noise needs a value with a known sensitivity: set a clip bound")
        return self.multipliers(len(bounded.context.nodes)) * bounded.sensitivity


def check_registered(mechanism: Mechanism) -> None:
    """Raise TacitError unless the mechanism's name is registered for exactly its class."""
    if mechanisms.registered(mechanism.name) is not type(mechanism):
        raise TacitError(
            f'{type(mechanism).__name__} is not the class registered as mechanism "{mechanism.name}": '
            "register it under a name of its own"
        )


def mechanism_from_ledger(name: str, fields: LedgerFields) -> Mechanism:
    """Return the mechanism that the ledger stores as `name` and `fields`."""
    found = mechanisms.registered(name)
    assert isinstance(found, type)
    assert issubclass(found, Mechanism)
    return found.from_ledger(fields)
