"""What a run releases before round 0 to prepare its records, as it is planned and accounted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tacit.privacy import Gaussian, Mechanism, Paired, PairPlan, Relation, Release, Sampling


@dataclass(frozen=True)
class PlannedStatistic:
    """The release of one statistic, with the same noise at every node.

    Attributes:
        purpose: The purpose of the release in the ledger. It belongs to step 0.
        multiplier: Noise ÷ sensitivity.
        sensitivity: How far one record moves a node's statistic.
        pairs: The plan of paired noise for multiplier 1 and sensitivity 1; None: every node's noise is independent.
    """

    purpose: str
    multiplier: float
    sensitivity: float
    pairs: PairPlan | None = None

    def release(self, nodes: npt.NDArray[np.int64], relation: Relation) -> Release:
        """Return the release of the given nodes. It is computed from all records of a node."""
        all_records = Sampling("none", np.ones(len(nodes)), relation)
        return Release(0, self.purpose, self._mechanism(nodes), all_records)

    def mean_deviation(self, nodes: int) -> float:
        """Return the standard deviation of the noise in the mean over all nodes, in which the noise of pairs cancels.

        >>> round(PlannedStatistic("mean", 2.0, 3.0).mean_deviation(4), 6)
        3.0
        """
        own = np.ones(nodes) if self.pairs is None else self.pairs.own
        return float(self.multiplier * self.sensitivity * np.linalg.norm(own) / nodes)

    def _mechanism(self, nodes: npt.NDArray[np.int64]) -> Mechanism:
        if self.pairs is None:
            return Gaussian(self.multiplier)
        return Paired(self.pairs, nodes, self.multiplier * self.sensitivity, self.sensitivity)
