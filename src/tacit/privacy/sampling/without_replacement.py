"""Sampling without replacement: batches of exactly one size."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from tacit.privacy.sampling.base import Relation, SamplingKind, sampling_kinds

if TYPE_CHECKING:
    from tacit.privacy.draws import Draw


@sampling_kinds.register("without-replacement")
class WithoutReplacement(SamplingKind):
    """Exactly `batch` records, each subset equally likely.

    With one record more, batches have the same size: only replacing a record gives a neighbouring data set. Under
    replace-one, the same pair of laws dominates as for Poisson sampling, so both have the same ε at the same rate.
    """

    name = "without-replacement"
    relations: ClassVar[tuple[Relation, ...]] = ("replace-one",)

    def draw(self, step: int) -> Draw:
        from tacit.privacy.draws import filled, random_keys

        keys = random_keys(self.population, step)
        return filled(keys.topk(int(self.batch[0]), largest=False).indices)

    @classmethod
    def attained_rate(cls, rate: float) -> float:
        return rate

    @classmethod
    def to_dp_event(cls, dp_accounting: Any, event: Any, rate: float) -> Any:
        share = Fraction(rate).limit_denominator(10**6)
        return dp_accounting.SampledWithoutReplacementDpEvent(share.denominator, share.numerator, event)
