"""Poisson sampling: every record by itself."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.privacy.sampling.base import Array, Ints, SamplingKind, sampling_kinds

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.privacy.draws import Draw


@sampling_kinds.register("poisson")
class Poisson(SamplingKind):
    """Each record independently with probability batch / size. Batches differ in size."""

    name = "poisson"

    def draw(self, step: int) -> Draw:
        from tacit.privacy.draws import padded

        population = self.population
        words = population.noise.words("batch", population.nodes, step, int(population.sizes.max()))
        return padded((words < self._limits) & self._in_shard)

    @property
    def max_batch(self) -> Array | Ints:
        return self.population.sizes

    @cached_property
    def _limits(self) -> Tensor:
        """⌊rate · 2³²⌋ of the 2³² words are below the limit, so the true rate never exceeds the accounted one."""
        import torch

        return torch.from_numpy(np.floor(self.rate * 2.0**32).astype(np.int64) - 2**31)[:, None]

    @cached_property
    def _in_shard(self) -> Tensor:
        from tacit.privacy.draws import in_shard

        return in_shard(self.population.sizes)

    @classmethod
    def attained_rate(cls, rate: float) -> float:
        return rate

    @classmethod
    def to_dp_event(cls, dp_accounting: Any, event: Any, rate: float) -> Any:
        return dp_accounting.PoissonSampledDpEvent(rate, event)
