"""The privacy of an algorithm, apart from its update: what it releases, what its paper claims, what is assumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy import (
    Adversary,
    Array,
    BandedGaussian,
    Eavesdropper,
    Gaussian,
    Mechanism,
    Paired,
    Release,
    Sampling,
    Unit,
)
from tacit.tasks import Clip, Task

if TYPE_CHECKING:
    from tacit.algorithms.algorithm import Algorithm

Nodes = npt.NDArray[np.int64]

EDGE_VARIABLES_REFUSE_PAIRS = (
    "its edge variables do not keep the sum of the nodes' values, in which paired noise cancels"
)


@dataclass(frozen=True)
class PrivacyPlan:
    """What `algorithm` releases in each round, what its paper claims, and what the guarantee rests on.

    This class is the plan of an algorithm that states nothing: no planned releases, so no privacy budget, no
    calibration and no claim. An algorithm's own plan overrides what applies to it.

    The mechanisms in `releases(t, ...)` are those that round t uses. What is planned, calibrated and accounted before
    a run is therefore what the ledger holds after it; a contract test checks this for every registered algorithm.

    Attributes:
        algorithm: The algorithm whose releases are planned.
        unit: What the planned releases protect, which is what audits change. Statements take it from the ledger.
        claimed_for: Whether the paper's claim is for the whole "run" or for each "round".
        norm: The norm in which sensitivities are bounded.
        covers_traces: Whether the traced quantities are functions of released values and public numbers only.
    """

    algorithm: Algorithm[Any]
    unit: ClassVar[Unit] = "record"
    claimed_for: ClassVar[Literal["run", "round"]] = "run"
    norm: ClassVar[Literal["l1", "l2"]] = "l2"
    covers_traces: ClassVar[bool] = True

    @property
    def adversary(self) -> Adversary:
        """Whom the guarantee holds against. It knows all data except the protected unit."""
        pairs = self.algorithm.pairs
        return Eavesdropper() if pairs is None else Eavesdropper(pairs.colluders)

    @property
    def refuses_pairs(self) -> str | None:
        """Why the algorithm cannot use paired noise; None if it can.

        Paired noise cancels in the sum over all nodes. An algorithm profits only if it keeps this sum: what nodes
        release is added with the same factor at every node, and mixing does not change the sum.
        """
        return "it is not known to keep the sum of the nodes' values, in which paired noise cancels"

    def unit_noise(self, task: Task) -> tuple[Array, Array]:
        """Return noise multiplier and sensitivity of every node (N,) for a release of factor 1; for paired noise."""
        raise TacitError(f"{self.algorithm.title} cannot use paired noise: {self.refuses_pairs}")

    def gaussian(
        self, multipliers: Array, nodes: Nodes, steps: int, noise: float = 1.0, sensitivity: float = 1.0
    ) -> Mechanism:
        """Return Gaussian noise for a release of these nodes: independent, paired, or correlated in time.

        Args:
            multipliers: (n,) noise multipliers of a release of factor 1.
            nodes: (n,) ids of the hosted nodes.
            steps: The number of such releases of the run.
            noise: The factor by which the multipliers of this release are larger.
            sensitivity: The sensitivity of this release, relative to a release of factor 1.
        """
        if self.algorithm.pairs is not None:
            return Paired(self.algorithm.pairs, nodes, noise * sensitivity, sensitivity)
        if self.algorithm.bandwidth is not None:
            return BandedGaussian(multipliers * noise, self.algorithm.bandwidth, steps)
        return Gaussian(multipliers * noise)

    @property
    def noise_depends_on_data(self) -> bool:
        """Whether the scale of the noise depends on private data, which then has no proven guarantee."""
        return False

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee assumes without a check; empty if everything is proven or enforced."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that belong to every statement about the algorithm's privacy."""
        return ()

    def sampling(self, task: Task) -> Sampling:
        """How the records behind a release are sampled, as it is accounted."""
        return task.sampling

    def preparation(self, nodes: Nodes, sampling: Sampling) -> list[Release]:
        """Return what the given nodes release before round 0 to prepare their records, such as their mean.

        The run releases it, and not the algorithm.
        """
        return [planned.release(nodes, sampling.relation) for planned in self.algorithm.preparation]

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> list[Release]:
        """Return what the given nodes release in round t, in order; `sampling` is that of `sampling(task)`."""
        return []

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        """The noise scale per node that the paper's own formula gives for a claimed ε."""
        raise TacitError(
            f"{self.algorithm.title} has no calibration formula of its paper: leave out privacy.calibration"
        )

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """The ε that the paper's formula claims after `rounds` rounds; None if the paper claims none."""
        return None

    def mixing_only_clip(self, t: int) -> Clip | None:
        """The clip of round t if the round is x ← W(t) (x − γ (clipped gradient at x + Gaussian noise)), else None.

        A node of such an algorithm stores nothing but the result of mixing, so `tacit.threats` can bound what mixing
        hides. The answer counts only for a class that declares `mixes_only`.
        """
        return None
