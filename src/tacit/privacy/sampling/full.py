"""No sampling: every batch has all records."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from tacit.privacy.sampling.base import SamplingKind, sampling_kinds

if TYPE_CHECKING:
    from tacit.privacy.draws import Draw


@sampling_kinds.register("none")
class Full(SamplingKind):
    """All records in every draw: no amplification."""

    name = "none"
    is_random = False

    def draw(self, step: int) -> Draw:
        return self._all_records

    @cached_property
    def _all_records(self) -> Draw:
        from tacit.privacy.draws import in_shard, padded

        return padded(in_shard(self.population.sizes))

    @property
    def distinct(self) -> int | None:
        return 1

    @classmethod
    def accounted_rate(cls, rate: float) -> float:
        return 1.0

    @classmethod
    def attained_rate(cls, rate: float) -> float:
        return 1.0

    @classmethod
    def to_dp_event(cls, dp_accounting: Any, event: Any, rate: float) -> Any:
        return event
