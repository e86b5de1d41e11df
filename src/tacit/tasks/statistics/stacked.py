"""Several statistics in one release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy import Relation
from tacit.tasks.statistics.base import Statistic, check_statistic, statistics

if TYPE_CHECKING:
    from tacit.tasks.data import Dataset


@statistics.register("stacked")
@dataclass(frozen=True)
class Stacked(Statistic):
    """Statistics of the same records, each times a public weight, in one vector.

    Privacy:
        If one record moves part k by at most Δ_k, it moves the vector of w_k · part k by at most √(Σ w_k² Δ_k²). The
        weights are rounded to single precision (24 bits), so that a weight times a count of at most 2²⁰ is exact. The
        rounding of other products is covered by the margin in the norm of a record.

    Args:
        parts: The statistics.
        weights: Their weights w.
    """

    name: ClassVar[str] = "stacked"

    parts: tuple[Statistic, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.weights) or not self.parts:
            raise TacitError(f"{len(self.parts)} statistics need as many weights, got {len(self.weights)}")
        rounded = tuple(torch.tensor(self.weights, dtype=torch.float32).tolist())
        if not all(0 < weight < math.inf for weight in rounded):
            raise TacitError(f"weights of statistics must be positive and finite, got {self.weights}")
        object.__setattr__(self, "weights", rounded)
        for part in self.parts:
            check_statistic(part)

    def length(self, data: Dataset) -> int:
        return sum(part.length(data) for part in self.parts)

    def sensitivity(self, relation: Relation) -> float:
        return math.hypot(*(w * part.sensitivity(relation) for part, w in zip(self.parts, self.weights, strict=True)))

    def totals(self, data: Dataset, shards: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        return torch.cat([w * p.totals(data, shards) for p, w in zip(self.parts, self.weights, strict=True)], 1)

    def split(self, values: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """Return the parts of a vector (…, length), without their weights; `lengths` are those of the parts."""
        pieces = torch.split(values, list(lengths), dim=-1)
        return [piece / weight for piece, weight in zip(pieces, self.weights, strict=True)]
