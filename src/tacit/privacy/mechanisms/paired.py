"""Paired noise: Gaussian noise of which most cancels between nodes that share a key."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.bounded import Bounded
from tacit.privacy.mechanisms.base import LedgerFields, Mechanism, mechanisms
from tacit.privacy.mechanisms.gaussian import Gaussian
from tacit.privacy.mechanisms.loss import Array, PrivacyLoss
from tacit.privacy.pair_plan import MAX_SPREAD, PairPlan

if TYPE_CHECKING:
    from torch import Tensor

_TOLERANCE = 1 + 1e-9  # the multipliers of a plan are rounded down by more
_MAX_VALUE = 2.0**16  # relative to the least noise: with MAX_SPREAD and 9.3 standard deviations, floats are fine enough


@mechanisms.register("paired")
@dataclass(frozen=True, eq=False)
class Paired(Mechanism):
    """Adds own noise of every node, and noise of every pair of nodes with opposite signs at its two ends.

        release_i = g_i + f (s_i Z_i + κ Σ_{j ∈ K_i} sgn(j − i) R_ij)

    Both ends of a pair compute R_ij from a key that they share. In the sum over all nodes the noise of the pairs
    cancels, so the mean has far less noise than with independent noise of the same protection.

    Formal guarantee: against an adversary that sees every release of every node and controls any `plan.colluders`
    nodes, one release is (1/m_i)-GDP for a record of node i, with m_i = 1 / (Δ_i √[Σ_H⁻¹]_ii). Here
    Σ_H = diag(s_H²) + κ² L_{K[H]} is the covariance of the noise of the honest nodes H that the colluders do not know.

    Proof: give the adversary every release of the honest nodes. The value g_j of an honest node is a function of
    earlier releases, of its records, which are the same in both worlds for j ≠ i, and of its own draw of records,
    which may be given away too. Subtracting the values is a change of variables that keeps the measure. The likelihood
    ratio is therefore that of N(0, Σ_H) against N(v e_i, Σ_H) with ‖v‖ ≤ Δ_i. Whitened, this is one Gaussian with shift
    ‖v‖ √[Σ_H⁻¹]_ii. Node i's own random draw mixes the two means, as for independent noise. The noise of different
    steps is independent, so releases compose adaptively. A node that is silent, or whose message is lost, removes rows
    of Σ_H, which only hides more.

    Rounding: Z and R are rounded to one public grid, which is at least 64 times finer than every s_i. Sums of multiples
    of the grid step are exact in double precision, so the noise of pairs cancels exactly. A rounded Gaussian is
    distributed on the grid like a Gaussian plus an independent uniform variable, to far more than 30 digits, so it
    protects no less. No noise is cut off: the scales of a plan differ by at most `MAX_SPREAD`, and coordinates of a
    value beyond 65,536 times the least noise are replaced by this bound before noise is added. That moves no two values
    further apart. A bound on the value with its own noise would not do: the noise of pairs is not in it yet.

    Args:
        plan: The public scales, keys and sensitivities of all nodes.
        nodes: (n,) ids of the hosted nodes.
        noise: The factor f of all noise in this release.
        sensitivity: The factor of all sensitivities in this release.
    """

    name: ClassVar[str] = "paired"
    loss: ClassVar[PrivacyLoss] = Gaussian.loss

    plan: PairPlan
    nodes: npt.NDArray[np.int64]
    noise: float = 1.0
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        for key, value in {"noise": self.noise, "sensitivity": self.sensitivity}.items():
            if not 0 < value < np.inf:
                raise TacitError(f"The {key} factor of paired noise must be positive and finite, got {value}")

    @property
    def own(self) -> Array:
        """(N,) standard deviation of every node's own noise in this release."""
        return self.noise * self.plan.own

    @property
    def pair(self) -> float:
        """Standard deviation of the noise of a pair in this release."""
        return self.noise * self.plan.pair

    def multipliers(self, n: int) -> Array:
        return self.against(None)

    def against(self, colluders: int | None) -> Array:
        """Return the noise multipliers (n,) against any coalition of so many nodes; None: of the planned size."""
        return self.noise / self.sensitivity * self.plan.multipliers(colluders)[self.nodes]

    def is_same_kind(self, other: Mechanism) -> bool:
        """Independent Gaussian noise has the same privacy loss; budgets compare with it."""
        return type(other) in (Paired, Gaussian)

    def with_multipliers(self, multipliers: Array) -> Mechanism:
        """Return independent Gaussian noise, whose privacy loss is the same."""
        return Gaussian(multipliers)

    def to_ledger(self, n: int) -> LedgerFields:
        factors = {"noise": np.array([self.noise]), "factor": np.array([self.sensitivity])}
        return {**self.plan.to_ledger(), **factors, "nodes": self.nodes.astype(np.float64)}

    @classmethod
    def from_ledger(cls, fields: LedgerFields) -> Self:
        vectors = {key: np.asarray(value, np.float64) for key, value in fields.items()}
        nodes, noise, factor = (vectors.pop(key) for key in ("nodes", "noise", "factor"))
        plan = _plan_of(tuple((key, value.tobytes()) for key, value in sorted(vectors.items())))
        return cls(plan, nodes.astype(np.int64), float(noise[0]), float(factor[0]))

    def noise_scale(self, bounded: Bounded) -> Array:
        nodes = bounded.context.nodes
        if not np.array_equal(nodes, self.nodes):
            raise TacitError(f"Paired noise was planned for nodes {self.nodes.tolist()}, got {nodes.tolist()}")
        if bounded.sensitivity is None:
            raise TacitError("paired noise needs a value with a known sensitivity: set a clip bound")
        planned = self.sensitivity * self.plan.sensitivity[nodes]
        if (bounded.sensitivity > planned * _TOLERANCE).any():
            row = int((bounded.sensitivity / planned).argmax())
            raise TacitError(
                f'"{bounded.purpose}" of node {nodes[row]} has sensitivity {bounded.sensitivity[row]:.6g}, but its '
                f"paired noise was planned for {planned[row]:.6g}"
            )
        largest, least = max(self.pair, self.own.max()), self.own.min()
        if largest > MAX_SPREAD * least:
            raise TacitError(
                f"Paired noise of {largest:g} is too large beside the least noise {least:g} of a node: it must be at "
                f"most {MAX_SPREAD:g} times as large"
            )
        return self.own[nodes]

    def add_noise(self, value: Tensor, scale: Array, bounded: Bounded, *, strict: bool = True) -> None:
        context, step = bounded.context, bounded.step
        finest = float(self.own.min())  # one grid for all nodes and pairs
        own = f"noise/{bounded.purpose}"
        if strict:
            value.clamp_(-_MAX_VALUE * finest, _MAX_VALUE * finest)
        context.noise.gaussian_(value, scale, own, self.nodes, step, strict=strict, grid_scale=finest)
        pairs = context.pair_noise
        total = pairs.sum(self.plan, self.nodes, bounded.purpose, step, self.pair, finest, like=value)
        value.copy_(total.add_(value.to(total.device)))


@lru_cache(maxsize=8)
def _plan_of(vectors: tuple[tuple[str, bytes], ...]) -> PairPlan:
    """Return the plan with these vectors. Releases of one run share it, and what it has computed."""
    return PairPlan.from_ledger({key: np.frombuffer(data) for key, data in vectors})
