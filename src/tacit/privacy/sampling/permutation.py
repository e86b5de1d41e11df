"""Permutation: a shuffle, cut into batches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit.privacy.sampling.base import Ints, Population, Relation, SamplingKind, sampling_kinds

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.privacy.draws import Draw


@sampling_kinds.register("permutation")
class Permutation(SamplingKind):
    """Batches are consecutive parts of a shuffle, which is drawn anew every `reshuffle_every` epochs.

    Records that do not fill a batch at the end of the shuffle are left out. A record is in at most one batch per
    epoch, so an epoch costs as much as its worst draw without sampling. One record more would shift every later
    batch: only replacing a record gives a neighbouring data set. A shorter epoch does not dominate a longer one.
    """

    name = "permutation"
    relations: ClassVar[tuple[Relation, ...]] = ("replace-one",)
    higher_rate_dominates = False

    def __init__(self, population: Population) -> None:
        super().__init__(population)
        self._batches: Ints = population.sizes // int(population.batch or 1)
        self.rate = 1.0 / self._batches
        self._shuffle = np.full(len(population.sizes), -1)
        self._order: Tensor | None = None
        self._drawn: dict[bytes, Draw] = {}

    def draw(self, step: int) -> Draw:
        import torch

        from tacit.privacy.draws import filled, random_keys

        batch = int(self.batch[0])
        shuffle, place = step // self._batches // self.population.reshuffle_every, step % self._batches
        if self._order is None or (shuffle != self._shuffle).any():
            self._order, self._shuffle = random_keys(self.population, shuffle, shuffle=True).argsort(1), shuffle
            self._drawn = {}
        key = place.tobytes()
        if key in self._drawn:
            return self._drawn[key]
        columns = torch.from_numpy(place * batch)[:, None] + torch.arange(batch)
        drawn = filled(self._order.gather(1, columns))
        if self.distinct is not None:
            self._drawn[key] = drawn
        return drawn

    @property
    def distinct(self) -> int | None:
        if self.population.reshuffle_every == 1 or len(np.unique(self._batches)) > 1:
            return None  # nodes with fewer batches start again sooner, so no draw of all nodes repeats
        return int(self._batches[0])

    @property
    def period(self) -> Ints:
        return self._batches

    @classmethod
    def accounted_rate(cls, rate: float) -> float:
        return 1.0

    @classmethod
    def attained_rate(cls, rate: float) -> float:
        return rate

    @classmethod
    def epoch(cls, step: int, rate: float) -> int | None:
        return step // cls.batches(rate)

    @classmethod
    def batches(cls, rate: float) -> int:
        """Return the number of batches per epoch."""
        return max(1, math.floor(1 / rate + 1e-9))

    @classmethod
    def to_dp_event(cls, dp_accounting: Any, event: Any, rate: float) -> Any:
        return event
