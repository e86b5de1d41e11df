"""The privacy loss of one release: what the accountant needs to know of a mechanism."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError

Array = npt.NDArray[np.float64]


class PrivacyLoss(ABC):
    """The privacy loss of one release without sampling: a family of laws with the parameter μ = 1 / noise multiplier.

    A release compares two laws of its outcome: Q without the record, and P with it. Its privacy loss is log dP/dQ.

    Formal guarantee (each implementation must prove it):

    - The pair (P, Q) dominates the release for every value and every change within the sensitivity.
    - The pair is symmetric: P(loss ≤ y) = Q(loss ≥ −y).
    - A larger μ dominates a smaller one.

    Sampling, composition and both neighbouring relations are then the accountant's work. The methods that are not
    abstract allow more, or make it faster; their defaults are always safe.

    Instances have no state. Mechanisms whose releases compose with each other share one instance.
    """

    name: ClassVar[str]
    delta_is_convex: ClassVar[bool] = False
    """Whether, at every ε, δ(ε) is a convex function of the total variation.

    If so, the accountant replaces many different μ by mixtures of few. If not, it composes each μ by itself.
    """
    is_attained: ClassVar[bool] = False
    """Whether some value and some change within the sensitivity have exactly this pair of laws.

    Only then does the pair also give a lower bound on ε.
    """

    @abstractmethod
    def cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        """Return Q(loss ≤ y) and Q(loss > y), each accurate where it is small."""

    @abstractmethod
    def shifted_cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        """Return P(loss ≤ y) and P(loss > y), each accurate where it is small."""

    @abstractmethod
    def reach(self, mu: float, tail: float) -> float:
        """Return a loss that P exceeds with probability at most `tail`; by symmetry it bounds −loss under Q, too."""

    @abstractmethod
    def total_variation(self, mu: Array) -> Array:
        """Return the total variation distance of P and Q. It equals δ at ε = 0."""

    def total_variation_complement(self, mu: Array) -> Array:
        """Return 1 − `total_variation`, accurate where it is small."""
        return 1 - self.total_variation(mu)

    def max_loss(self, mu: float) -> float:
        """Return the largest possible loss; infinite if the loss is unbounded."""
        return math.inf

    def combine(self, multipliers: Sequence[float]) -> float | None:
        """Return the multiplier of one release that dominates several from the same draw of records.

        None means that none is known; the accountant then refuses several releases of one draw.
        """
        return None

    def compose(self, counts: Mapping[float, int]) -> float | None:
        """Return the μ of one release that equals all releases in `counts` (how often each μ occurs) without sampling.

        None means that there is no closed form.
        """
        return None

    def epsilon(self, mu: float, delta: float) -> float | None:
        """Return the exact ε of one release without sampling; None if there is no closed form."""
        return None

    def to_dp_event(self, dp_accounting: Any, multiplier: float) -> Any:
        """Return the `dp_accounting` event of one release."""
        raise TacitError(f"dp_accounting has no event for {self.name} noise, so the ledger cannot be exported")


class NoPrivacy(PrivacyLoss):
    """The loss of a release that protects nothing: every outcome may reveal whether the record was there."""

    name = "no"

    def cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        return np.ones_like(y), np.zeros_like(y)

    def shifted_cdf(self, y: Array, mu: float) -> tuple[Array, Array]:
        return np.zeros_like(y), np.ones_like(y)

    def reach(self, mu: float, tail: float) -> float:
        return math.inf

    def total_variation(self, mu: Array) -> Array:
        return np.ones_like(mu)

    def to_dp_event(self, dp_accounting: Any, multiplier: float) -> Any:
        return dp_accounting.NonPrivateDpEvent()


NO_PRIVACY = NoPrivacy()
