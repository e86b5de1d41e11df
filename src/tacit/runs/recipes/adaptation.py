"""What a recipe adapts to the noise in the mean of the network: the step size, and the statistics before round 0."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tacit.privacy import epsilon_to_mu


@dataclass(frozen=True)
class Setting:
    """The public numbers on which the noise in the mean depends.

    Attributes:
        records: The number of records of all nodes.
        nodes: The number of nodes.
        epsilon, delta: The target.
        colluders: With paired noise, the number of colluding nodes; None: independent noise.
        share: The share of the gradients of μ².
    """

    records: int
    nodes: int
    epsilon: float
    delta: float
    colluders: int | None = None
    share: float = 1.0

    @property
    def signal(self) -> float:
        """The weight of a record in the mean of the network, divided by the noise in this mean.

        The noise in the mean of n nodes is that of a trusted server times √n; with paired noise about √(n / (n − t)).
        """
        gain = 1 if self.colluders is None else max(1, self.nodes - self.colluders)
        return epsilon_to_mu(self.epsilon, self.delta) * self.records * math.sqrt(self.share * gain / self.nodes)


@dataclass(frozen=True)
class StepSize:
    """lr = `lr` · (signal / `signal`)^`power`, as it was measured.

    Attributes:
        lr: The best lr at `signal`.
        signal: The signal of that measurement.
        power: How fast the best lr grows with the signal.
    """

    lr: float
    signal: float
    power: float

    def at(self, setting: Setting) -> float:
        """Return lr, rounded to two digits."""
        return float(f"{self.lr * (setting.signal / self.signal) ** self.power:.2g}")


@dataclass(frozen=True)
class StatisticShares:
    """Which statistics are released before round 0, and their shares of the privacy.

    Attributes:
        mean: The shares with the mean of the records only.
        gram: The shares with their second moments too, which pay off where the noise is small; None: never.
        gram_from: The signal from which second moments are released.
    """

    mean: Mapping[str, float]
    gram: Mapping[str, float] | None = None
    gram_from: float = math.inf

    def at(self, setting: Setting) -> dict[str, float]:
        """Return the shares for this setting."""
        return dict(self.mean if self.gram is None or setting.signal < self.gram_from else self.gram)
