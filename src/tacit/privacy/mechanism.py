"""The one door out of a node. What is noised here is what the ledger says, because both happen in `release`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy.bounded import Bounded

Multiplier = float | npt.NDArray[np.float64]


class Mechanism(ABC):
    """Turns a `Bounded` value into one that may leave: the event is written first, then the noise is drawn."""

    name: ClassVar[Literal["gaussian", "laplace", "exact"]]

    def release(self, bounded: Bounded) -> Tensor:
        """The noised value (n, d); it takes over the memory of `bounded.value`."""
        self.check(bounded)
        multiplier = np.broadcast_to(self.multiplier(), bounded.source.nodes.shape).astype(np.float64)
        bounded.source.ledger.record(bounded.step, bounded.purpose, self.name, multiplier, bounded.sampling)
        value = bounded.value
        self.add_noise(value, bounded, multiplier)
        return value

    @abstractmethod
    def multiplier(self) -> Multiplier: ...

    def check(self, bounded: Bounded) -> None:
        if bounded.sensitivity is None:
            raise TacitError(f"a value without a sensitivity cannot be released privately ({self.name}): set a clip bound")

    @abstractmethod
    def add_noise(self, value: Tensor, bounded: Bounded, multiplier: npt.NDArray[np.float64]) -> None: ...


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Adds N(0, (noise_multiplier · sensitivity)²) to every coordinate.

    Formal guarantee: one release of a value with L2 sensitivity Δ is (1 / noise_multiplier)-GDP.
    """

    noise_multiplier: Multiplier
    name: ClassVar[Literal["gaussian", "laplace", "exact"]] = "gaussian"

    def multiplier(self) -> Multiplier:
        return self.noise_multiplier

    def add_noise(self, value: Tensor, bounded: Bounded, multiplier: npt.NDArray[np.float64]) -> None:
        # An L1 bound is an L2 bound as well: ‖v‖₂ ≤ ‖v‖₁.
        source = bounded.source
        scale = multiplier * bounded.sensitivity
        source.noise.gaussian_(value, scale, f"noise/{bounded.purpose}", source.nodes, bounded.step)


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Adds Laplace(0, noise_multiplier · sensitivity) to every coordinate.

    Formal guarantee: one release of a value with L1 sensitivity Δ is (1 / noise_multiplier, 0)-DP.
    """

    noise_multiplier: Multiplier
    name: ClassVar[Literal["gaussian", "laplace", "exact"]] = "laplace"

    def multiplier(self) -> Multiplier:
        return self.noise_multiplier

    def check(self, bounded: Bounded) -> None:
        super().check(bounded)
        if bounded.norm != "l1":
            raise TacitError("Laplace noise needs a value bounded in L1, and this one is bounded in L2: clip with norm = \"l1\"")

    def add_noise(self, value: Tensor, bounded: Bounded, multiplier: npt.NDArray[np.float64]) -> None:
        source = bounded.source
        scale = multiplier * bounded.sensitivity
        source.noise.laplace_(value, scale, f"noise/{bounded.purpose}", source.nodes, bounded.step)


@dataclass(frozen=True)
class Exact(Mechanism):
    """No noise and no guarantee: the ledger says so, and every report of the run does too."""

    name: ClassVar[Literal["gaussian", "laplace", "exact"]] = "exact"

    def multiplier(self) -> Multiplier:
        return 0.0

    def check(self, bounded: Bounded) -> None:
        return

    def add_noise(self, value: Tensor, bounded: Bounded, multiplier: npt.NDArray[np.float64]) -> None:
        return
