"""The sampler of a task: it draws what it states, because drawing and accounting are one sampling kind."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy import Draw, Noise, Population, Relation, Sampling, SamplingKind, sampling_kinds

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Sampler:
    """Draws batches for all hosted nodes at once.

    Args:
        sizes: (n,) number of records per hosted node.
        batch: Records per batch; None takes all records in every draw.
        kind: The name of a registered sampling kind. It is ignored if `batch` is None.
        nodes: (n,) global ids of the hosted nodes.
        noise: The source of randomness.
        relation: The neighbouring relation; by default the first that the kind can be accounted for.
        epochs: Epochs after which a permutation is drawn anew.

    Example:
        >>> sampler = Sampler(np.array([10, 12]), 4, "without-replacement", np.array([0, 1]), Noise.from_seed(0))
        >>> sampler.draw(0).records.shape, sampler.sampling.rate.round(3).tolist()
        (torch.Size([2, 4]), [0.4, 0.333])
    """

    def __init__(
        self,
        sizes: Ints,
        batch: int | None,
        kind: str,
        nodes: Ints,
        noise: Noise,
        relation: Relation | None = None,
        epochs: int = 1,
    ) -> None:
        if batch is not None and batch < 1:
            raise TacitError(f"batch.size must be at least 1, got {batch}")
        if batch is not None and batch > sizes.min():
            raise TacitError(
                f"batch.size is {batch}, but node {nodes[sizes.argmin()]} has only {sizes.min()} records: "
                "use a smaller batch or fewer nodes"
            )
        self.kind = "none" if batch is None else kind
        population = Population(sizes, batch, nodes, noise, epochs)
        self._scheme: SamplingKind | _PublicScheme = sampling_kinds.registered(self.kind)(population)
        self.sampling = Sampling(self.kind, self._scheme.rate, relation or self._scheme.relations[0])

    def draw(self, step: int) -> Draw:
        """Return the records of draw number `step`."""
        return self._scheme.draw(step)

    def share_draws(self, other: Sampler) -> None:
        """Use the draws of another sampler if they are the same, which is known of simulations only."""
        mine, theirs = self._scheme, other._scheme
        if isinstance(mine, SamplingKind) and isinstance(theirs, SamplingKind):
            same = type(mine) is type(theirs) and mine.population.is_same_simulation(theirs.population)
            self._scheme = theirs if same else mine

    def has_same_draws(self, other: Sampler) -> bool:
        """Whether the two samplers share their draws."""
        return self._scheme is other._scheme

    def without_draws(self) -> Sampler:
        """Return the sampler as an algorithm sees it: its public numbers, and no access to the drawn records."""
        seen, scheme = copy.copy(self), self._scheme
        seen._scheme = _PublicScheme(scheme.batch, scheme.max_batch, scheme.distinct, scheme.period)
        return seen

    @property
    def batch(self) -> Array:
        """(n,) expected number of records per draw, which is public."""
        return self._scheme.batch

    @property
    def max_batch(self) -> Array | Ints:
        """(n,) largest possible number of records in one draw."""
        return self._scheme.max_batch

    @property
    def distinct(self) -> int | None:
        """Number of draws after which the same batches come again; None if every draw is new."""
        return self._scheme.distinct

    @property
    def period(self) -> Ints:
        """(n,) number of consecutive draws of which a record is in at most one, as accounted."""
        return self._scheme.period


@dataclass(frozen=True)
class _PublicScheme:
    """The public numbers of a sampling kind. Amplification by sampling needs draws that nobody else sees."""

    batch: Array
    max_batch: Array | Ints
    distinct: int | None
    period: Ints

    def draw(self, step: int) -> NoReturn:
        raise TacitError(
            "An algorithm has no access to the drawn records or to their number: use task.gradient, and "
            "task.sampler.batch for the expected size"
        )
