"""The privacy plan of the algorithms over DPPS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from tacit.algorithms.dpps import DPPS
from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.algorithms.sensitivity import RealSensitivity, ReplacementSensitivity
from tacit.privacy import Release, Sampling, Unit
from tacit.tasks import Task

if TYPE_CHECKING:
    from tacit.algorithms.dpps_algorithm import DPPSAlgorithm


@dataclass(frozen=True)
class DPPSPrivacy(PrivacyPlan):
    """One Laplace-noised message per round and node. It protects all data of a node.

    Claim: b/γ_n for each round (Theorem 1).

    Formal guarantee: the composition of the Laplace mechanisms of all rounds; none if the sensitivity mode depends on
    the data.
    """

    algorithm: DPPSAlgorithm[Any]
    unit: ClassVar[Unit] = "node"
    claimed_for: ClassVar[Literal["run", "round"]] = "round"
    norm: ClassVar[Literal["l1", "l2"]] = "l1"
    covers_traces: ClassVar[bool] = False  # a simulation records sensitivities that it computes from the data

    @property
    def refuses_pairs(self) -> str | None:
        return "its noise is Laplace noise, and paired noise is Gaussian"

    @property
    def noise_depends_on_data(self) -> bool:
        return self.algorithm.sensitivity in ("real", "estimated")

    @property
    def notes(self) -> tuple[str, ...]:
        if self.algorithm.noise_rate == 0:
            return ()
        return (
            f"The noise was scaled to the {self.algorithm.sensitivity} sensitivity.",
            "The sensitivities that a simulation records are computed from the data and are not covered.",
        )

    def sampling(self, task: Task) -> Sampling:
        return Sampling("none", np.ones(task.n), "replace-one")

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        # The mechanism does not depend on the graph, only on whether the sensitivity depends on the data.
        mode = RealSensitivity() if self.noise_depends_on_data else ReplacementSensitivity()
        mechanism = DPPS(self.algorithm.noise(t, nodes), (mode,)).planned_mechanism()
        return [Release(t, "gradient", mechanism, sampling, self.unit)]

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """Return b/γ_n of the round with the least noise."""
        least = [float(noise.min()) for t in range(rounds) if (noise := self.algorithm.noise(t, nodes)) is not None]
        return 1 / min(least) if least else None
