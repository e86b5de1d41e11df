"""The frozen map from raw records to features, and a data set to which it was applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tacit.tasks.features.description import FeatureDescription
from tacit.tasks.features.registry import finite_rows, unit
from tacit.tasks.features.whitening import Whitening

CHUNK = 128  # records at once: few enough for the values between two layers of scattering to stay in the cache


class FeatureMap(nn.Module):
    """Maps raw records (M, *inputs) to features (M, k) of unit norm. It is frozen: no parameter is trained.

    Privacy:
        The features of a record depend on this record, and on constants that no record shaped. A record without
        finite features has the features 0, so no record can stop a run.

    Attributes:
        description: What the map consists of.
        whitening: The whitening; None without one.
    """

    def __init__(
        self, parts: Sequence[nn.Module], description: FeatureDescription, whitening: Whitening | None = None
    ) -> None:
        super().__init__()
        self.parts, self.description, self.whitening = nn.ModuleList(parts), description, whitening
        self.eval().requires_grad_(False)

    def train(self, mode: bool = True) -> FeatureMap:
        """Stay in evaluation mode, whatever `mode` is: the map is frozen."""
        return super().train(False)

    def forward(self, x: Tensor) -> Tensor:
        values = torch.cat([part(x) for part in self.parts], dim=1)
        return finite_rows(unit(values) if self.whitening is None else self.whitening(values))

    def apply_to(self, x: Tensor, advance: Callable[[int], object] | None = None) -> Tensor:
        """Return the features of many records; `advance` is called with the number of records of each finished part."""
        found = torch.empty(len(x), self.description.values)
        with torch.no_grad():
            for start in range(0, len(x), CHUNK):
                rows = slice(start, start + CHUNK)
                found[rows] = self(x[rows])
                if advance is not None:
                    advance(len(x[rows]))
        return found


@dataclass(frozen=True, eq=False)
class AppliedFeatures:
    """The features of a data set: the map, and the raw training records, by which they are recognised.

    Attributes:
        map: The map.
        raw: The raw training records.
        raw_test: The raw test records.
    """

    map: FeatureMap
    raw: Tensor
    raw_test: Tensor

    @property
    def description(self) -> FeatureDescription:
        """The public facts about the map."""
        return self.map.description

    def subset(self, records: npt.NDArray[np.int64]) -> AppliedFeatures:
        """Return the features of these training records."""
        return replace(self, raw=self.raw[torch.from_numpy(records)])
