"""The contract of a sampling kind, the registry of all kinds, and the value that is attached to every release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.registry import Registry

if TYPE_CHECKING:
    from tacit.privacy.draws import Draw
    from tacit.privacy.noise import Noise

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Relation = Literal["add-remove", "replace-one"]
"""Neighbouring data sets: one record of one node added or removed, or one record replaced by another."""

sampling_kinds: Registry[SamplingKind] = Registry("sampling kind")


@dataclass(frozen=True)
class Population:
    """The records to sample from, and the randomness to do it with.

    Attributes:
        sizes: (n,) number of records per hosted node.
        batch: Records per batch; the expected number, if batches differ in size. None means all records.
        nodes: (n,) global ids of the hosted nodes.
        noise: The source of randomness.
        reshuffle_every: Epochs after which a permutation is drawn anew.
    """

    sizes: Ints
    batch: int | None
    nodes: Ints
    noise: Noise
    reshuffle_every: int = 1

    def is_same_simulation(self, other: Population) -> bool:
        """Whether two simulations have this population, so that the same kind draws the same batches."""
        simulated = self.noise.simulated and self.noise.fingerprint == other.noise.fingerprint
        same = (self.batch, self.reshuffle_every) == (other.batch, other.reshuffle_every)
        return simulated and same and np.array_equal([*self.sizes, *self.nodes], [*other.sizes, *other.nodes])


class SamplingKind(ABC):
    """A way to draw batches: how records are drawn, and what the draw is worth to privacy.

    To add a kind, add one file to this package with a class that is registered under its name. The sampler that runs
    is the one that is accounted, because both are methods of the same class.

    Formal guarantee (each implementation must prove it): if a record is in a batch, the mechanism's loss applies; the
    record is in the batch of a step with probability at most `accounted_rate`, independently of all other steps, or
    in at most one batch per `epoch`.

    Attributes:
        name: The name in configs and in the ledger.
        relations: The neighbouring relations that can be accounted; the first is the default.
        higher_rate_dominates: Whether a node is protected at least as well as one with a higher rate.
        is_random: Whether a draw is random; if not, every draw has all records.
        rate: (n,) share of a node's records in one draw.
    """

    name: ClassVar[str]
    relations: ClassVar[tuple[Relation, ...]] = get_args(Relation)
    higher_rate_dominates: ClassVar[bool] = True
    is_random: ClassVar[bool] = True
    rate: Array

    def __init__(self, population: Population) -> None:
        self.population = population
        sizes = population.sizes
        self.batch: Array = (
            sizes.astype(np.float64) if population.batch is None else np.full(len(sizes), float(population.batch))
        )
        self.rate = self.batch / sizes

    @abstractmethod
    def draw(self, step: int) -> Draw:
        """Return the batch of draw number `step`. The same step gives the same batch."""

    @property
    def distinct(self) -> int | None:
        """Number of draws after which the same batches come again; None if every draw is new."""
        return None

    @property
    def max_batch(self) -> Array | Ints:
        """(n,) largest possible number of records in one draw."""
        return self.batch

    @property
    def period(self) -> Ints:
        """(n,) number of consecutive draws of which a record is in at most one, as accounted."""
        return np.ones(len(self.batch), np.int64)

    @classmethod
    def accounted_rate(cls, rate: float) -> float:
        """Return the probability with which a record is in one draw, for amplification; 1 means none."""
        return rate

    @classmethod
    def attained_rate(cls, rate: float) -> float:
        """Return the least probability with which a record is in one draw, for lower bounds on ε; 0 if it is unknown.

        Draws must be independent, unless they have an `epoch`.
        """
        return 0.0

    @classmethod
    def epoch(cls, step: int, rate: float) -> int | None:
        """Return the epoch of a draw, if a record is in at most one draw per epoch; None if draws are independent.

        The accountant counts only the worst draw of an epoch.
        """
        return None

    @classmethod
    def spacing(cls, rate: float) -> int:
        """Return the least number of steps between two draws that have a record in common; 1 if nothing is known.

        Noise may be correlated over so many steps (`BandedGaussian`). It must hold for all draws with the same noise
        key, and the draws must not depend on the values of records.
        """
        return 1

    @classmethod
    def to_dp_event(cls, dp_accounting: Any, event: Any, rate: float) -> Any:
        """Return the `dp_accounting` event of one draw whose records `event` describes."""
        raise TacitError(f'dp_accounting has no event for sampling "{cls.name}", so the ledger cannot be exported')


@dataclass(frozen=True, eq=False)
class Sampling:
    """How the records behind a value were drawn.

    Attributes:
        kind: The name of a registered sampling kind.
        rate: (n,) share of each node's records in one draw.
        relation: The neighbouring relation of the guarantee.
    """

    kind: str
    rate: Array
    relation: Relation

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise TacitError(f'relation must be "add-remove" or "replace-one", got "{self.relation}"')
        if self.relation not in self.scheme.relations:
            raise TacitError(
                f'Sampling "{self.kind}" can be accounted for relation "{self.scheme.relations[0]}" only, '
                f'got "{self.relation}". For "add-remove", use Poisson sampling'
            )
        wrong = self.rate[~((self.rate >= 0) & (self.rate <= 1))]
        if len(wrong):
            raise TacitError(f"A sampling rate must be in [0, 1], got {wrong[0]}")

    @cached_property
    def scheme(self) -> type[SamplingKind]:
        """The class that draws and accounts this kind of sampling."""
        found = sampling_kinds.registered(self.kind)
        assert isinstance(found, type)
        assert issubclass(found, SamplingKind)
        return found
