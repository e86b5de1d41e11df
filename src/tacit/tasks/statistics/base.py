"""The contract of a statistic, and the registry of all statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tacit.device import has_double
from tacit.errors import TacitError
from tacit.privacy import Bounded, Relation, ReleaseContext, Sampling
from tacit.registry import Registry

if TYPE_CHECKING:
    from tacit.tasks.data import Dataset

statistics: Registry[Statistic] = Registry("statistic")

MAX_RECORDS = 1 << 20
"""Of one node. Up to this number, sums of contributions are exact in double precision."""

_UNITS = 2.0**16  # records are rounded to multiples of 1/_UNITS: products of two of them are multiples of 2⁻³²
_LONGEST = 1 - 2.0**-20  # of a record: a margin for the rounding of its norm and of scaled sums
_RECORDS_AT_ONCE = 4096


class Statistic(ABC):
    """A sum over the records of a node: Σ c(record).

    A statistic is one file in this package: a frozen dataclass that is registered under its own name. `Task.statistic`
    computes it for all hosted nodes. Only the classes of this package are accepted there, because a statistic reads
    records.

    Privacy:
        The contribution c of a record is computed from this record alone and has a bounded L2 norm, whatever the record
        contains. Each class states and proves its `sensitivity`. Contributions are multiples of a fixed power of two,
        so that up to `MAX_RECORDS` of them are added exactly: the sum of a node does not depend on the order of its
        records, and rounding cannot increase the change that one record makes.

    Attributes:
        name: The name in the registry.
    """

    name: ClassVar[str]

    @abstractmethod
    def length(self, data: Dataset) -> int:
        """Return the number of values, from public facts of the data. Raise TacitError if the data do not fit."""

    @abstractmethod
    def sensitivity(self, relation: Relation) -> float:
        """Return how far one record moves the sum (L2), if it is added or removed, or replaced."""

    @abstractmethod
    def totals(self, data: Dataset, shards: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        """Return the statistic of every node (n, length) over all its records, in double precision."""


class RecordSum(Statistic):
    """A statistic whose contributions are added record by record, many records at once."""

    @abstractmethod
    def add(self, total: Tensor, records: Tensor, y: Tensor, node: Tensor) -> None:
        """Add the contributions of records to the sums `total` (n, length), in place, in units of `unit`.

        Args:
            total: The sums, in double precision.
            records: (B, …) what `read` returned for these records.
            y: (B,) their targets.
            node: (B,) the row of `total` of each record.
        """

    def read(self, data: Dataset, index: Tensor) -> Tensor:
        """Return what is counted of the given training records: by default the records, scaled down to norm 1."""
        return bounded_records(data.x[index]) * _UNITS

    def finish(self, total: Tensor) -> Tensor:
        """Return the statistic (n, length) from the sums that `add` computed."""
        return total

    def totals(self, data: Dataset, shards: Sequence[npt.NDArray[np.int64]]) -> Tensor:
        length = self.length(data)
        if (most := max(map(len, shards))) > MAX_RECORDS:
            raise TacitError(f"a statistic is for at most {MAX_RECORDS:,} records per node, got {most:,}")
        total = torch.zeros(len(shards), length, dtype=torch.float64)
        index = torch.from_numpy(np.concatenate(shards).astype(np.int64))
        node = torch.repeat_interleave(torch.arange(len(shards)), torch.tensor([len(shard) for shard in shards]))
        for start in range(0, len(index), _RECORDS_AT_ONCE):
            part = slice(start, start + _RECORDS_AT_ONCE)
            self.add(total, self.read(data, index[part]), data.y[index[part]], node[part])
        return self.finish(total)


def bounded_records(x: Tensor) -> Tensor:
    """Return each record (B, d) scaled down to norm at most 1, rounded towards 0 to multiples of 2⁻¹⁶, in doubles.

    A record with a value that is not finite becomes 0. Rounding towards 0 never makes a record longer.

    >>> bounded_records(torch.tensor([[3.0, 4.0], [0.25, 0.0], [float("nan"), 1.0]])).round(decimals=3)
    tensor([[0.6000, 0.8000],
            [0.2500, 0.0000],
            [0.0000, 0.0000]], dtype=torch.float64)
    """
    rows = x.flatten(1).double()
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    scaled = rows * (_LONGEST / norms.clamp(min=_LONGEST))
    return torch.where(norms.isfinite(), scaled, 0.0).mul_(_UNITS).trunc_().div_(_UNITS)


def in_integers(value: float) -> float:
    """Return a number in the units in which sums are computed."""
    return value * _UNITS


def in_units(total: Tensor, products: int = 1) -> Tensor:
    """Return sums of `products` factors, each in units of 2⁻¹⁶, as plain numbers."""
    return total / _UNITS**products


def check_statistic(statistic: Statistic) -> None:
    """Refuse a statistic that is not part of the package: it would read records without a proven bound."""
    kind = type(statistic)
    if statistics.registered(statistic.name) is not kind or not kind.__module__.startswith(f"{__package__}."):
        raise TacitError(f"{kind.__name__} is not a statistic of Tacit, so its sensitivity is not proven")


def check_numbers(data: Dataset) -> None:
    """Refuse records that are tokens."""
    if data.tokens:
        raise TacitError(f"data set {data.name}: statistics are for records of numbers, but the records are tokens")


def bounded_total(
    statistic: Statistic,
    data: Dataset,
    shards: Sequence[npt.NDArray[np.int64]],
    step: int,
    purpose: str | None,
    relation: Relation,
    context: ReleaseContext,
    device: torch.device | None = None,
) -> Bounded:
    """Return the statistic of each node's records with its sensitivity. All records take part in it.

    It is computed in main memory, in double precision, and then copied to `device`, unless that has no such precision.
    """
    check_statistic(statistic)
    value, purpose = statistic.totals(data, shards), purpose or statistic.name
    value = value if device is None or not has_double(device) else value.to(device)

    context.ledger.open(step, purpose)
    sampling = Sampling("none", np.ones(len(shards)), relation)
    sensitivity = np.full(len(shards), statistic.sensitivity(relation))
    return Bounded(value, sensitivity, "l2", sampling, step, purpose, context, "record")
