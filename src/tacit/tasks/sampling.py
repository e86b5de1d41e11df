"""Which records a draw takes. The sampler that runs is the one accounted: `Sampler.sampling` is what it does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.privacy.bounded import Relation, Sampling, SamplingKind
from tacit.privacy.noise import Noise

_LOW31 = 0x7FFFFFFF


class Draw(NamedTuple):
    """`records` (n, B) are places in each node's shard; `weight` (n, B) is 1 for a record and 0 for padding."""

    records: Tensor
    weight: Tensor


class Sampler:
    """Draws batches for all hosted nodes at once, from the key alone.

    - `poisson`: every record by itself with probability batch / size. Batches differ in size.
    - `without-replacement`: exactly `batch` records, each subset equally likely.
    - `permutation`: a shuffle every `epochs` epochs, cut in batches; what is left over at the end sits it out.
    - no batch: all records, every time.

    >>> sampler = Sampler(np.array([10, 12]), 4, "without-replacement", np.array([0, 1]), Noise.from_seed(0))
    >>> sampler.draw(0).records.shape, sampler.sampling.rate.round(3).tolist()
    (torch.Size([2, 4]), [0.4, 0.333])
    """

    def __init__(
        self,
        sizes: npt.NDArray[np.int64],
        batch: int | None,
        kind: SamplingKind,
        nodes: npt.NDArray[np.int64],
        noise: Noise,
        relation: Relation | None = None,
        epochs: int = 1,
    ) -> None:
        if batch is not None and batch < 1:
            raise TacitError(f"a batch needs at least 1 record, not {batch}")
        if batch is not None and batch > sizes.min():
            node = int(nodes[sizes.argmin()])
            raise TacitError(
                f"node {node} has {sizes.min()} records, fewer than a batch of {batch}: "
                "use a smaller batch or fewer nodes"
            )
        self.kind: SamplingKind = "none" if batch is None else kind
        self._sizes, self._nodes, self._noise = sizes, nodes, noise
        self._widest = int(sizes.max())
        self.batch = sizes.astype(np.float64) if batch is None else np.full(len(sizes), float(batch))
        rate = self.batch / sizes
        if self.kind == "permutation":
            self._batches = sizes // int(batch or 1)
            rate = 1.0 / self._batches
            self._epochs, self._shuffle = epochs, np.full(len(sizes), -1)
            self._drawn: dict[bytes, Draw] = {}
        self.sampling = Sampling(self.kind, rate, _relation(self.kind, relation))
        self._valid = torch.arange(self._widest)[None, :] < torch.from_numpy(sizes)[:, None]
        if self.kind == "none":
            self._all = self._pad(self._valid)

    def draw(self, step: int) -> Draw:
        """The records of draw number `step`."""
        if self.kind == "none":
            return self._all
        if self.kind == "poisson":
            # ⌊q·2³²⌋ of the 2³² words say yes, so the rate that runs never exceeds the rate accounted.
            limit = torch.from_numpy(np.floor(self.sampling.rate * 2.0**32).astype(np.int64) - 2**31)
            words = self._noise.words("batch", self._nodes, step, self._widest)
            return self._pad((words < limit[:, None]) & self._valid)
        batch = int(self.batch[0])
        if self.kind == "without-replacement":
            return _full(self._keys(step).topk(batch, largest=False).indices)
        shuffle, place = step // self._batches // self._epochs, step % self._batches
        if (shuffle != self._shuffle).any():
            self._order, self._shuffle, self._drawn = self._keys(shuffle).argsort(1), shuffle, {}
        key = place.tobytes()
        if key in self._drawn:
            return self._drawn[key]
        columns = torch.from_numpy(place * batch)[:, None] + torch.arange(batch)
        drawn = _full(self._order.gather(1, columns))
        if self.distinct is not None:
            self._drawn[key] = drawn
        return drawn

    @property
    def distinct(self) -> int | None:
        """How many draws there are before they come again, the very same; None where each is new."""
        if self.kind == "none":
            return 1
        if self.kind != "permutation" or self._epochs == 1 or len(np.unique(self._batches)) > 1:
            return None  # nodes with fewer batches go round sooner: no draw of all of them comes again
        return int(self._batches[0])

    @property
    def period(self) -> npt.NDArray[np.int64]:
        """Draws of which a record takes part in one only, as they are counted: an epoch of a permutation, else 1."""
        return self._batches if self.kind == "permutation" else np.ones(len(self.batch), np.int64)

    def _keys(self, step: int | npt.NDArray[np.int64]) -> Tensor:
        """62 random bits a record, to sort by; places past a shard's end come last."""
        words = self._noise.words("batch", self._nodes, step, 2 * self._widest).view(-1, self._widest, 2)
        keys = ((words[..., 0] & _LOW31).long() << 31) | (words[..., 1] & _LOW31).long()
        return keys.masked_fill_(~self._valid, torch.iinfo(torch.int64).max)

    def _pad(self, drawn: Tensor) -> Draw:
        """The places of the True entries of each row, moved to the left and padded to the longest row."""
        node, place = drawn.nonzero(as_tuple=True)
        counts = drawn.sum(1)
        column = torch.arange(len(node)) - (counts.cumsum(0) - counts)[node]
        index = torch.zeros(len(counts), max(1, int(counts.max())), dtype=torch.long)
        weight = torch.zeros(index.shape)
        index[node, column] = place
        weight[node, column] = 1.0
        return Draw(index, weight)


def _full(index: Tensor) -> Draw:
    return Draw(index, torch.ones(index.shape))


def _relation(kind: SamplingKind, asked: Relation | None) -> Relation:
    """Batches of a fixed size are the same size with a record more: only replacing one is a neighbour for them."""
    fixed = kind in ("without-replacement", "permutation")
    if fixed and asked == "add-remove":
        raise TacitError(
            f'{kind} batches are accounted for relation = "replace-one"; for "add-remove" use sampling = "poisson"'
        )
    return asked or ("replace-one" if fixed else "add-remove")
