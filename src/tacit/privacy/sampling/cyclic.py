"""Cyclic order: one shuffle for the whole run, cut into batches that come again in every epoch."""

from __future__ import annotations

from dataclasses import replace

from tacit.privacy.sampling.base import Population, sampling_kinds
from tacit.privacy.sampling.permutation import Permutation

_NEVER = 2**62  # epochs


@sampling_kinds.register("cyclic")
class Cyclic(Permutation):
    """A permutation that is never drawn anew: a record is in draws j, j + b, j + 2b, … of b batches per epoch.

    An epoch costs as much as with a permutation. The draws of a record are exactly b steps apart, so noise can be
    correlated in time (`BandedGaussian`). A permutation that is drawn anew can have a record in the last batch of one
    epoch and in the first of the next.
    """

    name = "cyclic"

    def __init__(self, population: Population) -> None:
        super().__init__(replace(population, reshuffle_every=_NEVER))

    @classmethod
    def spacing(cls, rate: float) -> int:
        return cls.batches(rate)
