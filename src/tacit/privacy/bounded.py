"""A value that knows how much one record can move it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.privacy.ledger import Ledger
    from tacit.privacy.noise import Noise

Relation = Literal["add-remove", "replace-one"]
"""Neighbouring data sets: one record of one node added or removed, or one record replaced by another."""

SamplingKind = Literal["none", "poisson", "without-replacement", "permutation"]


@dataclass(frozen=True)
class Sampling:
    """How the records behind a value were drawn; `rate[i]` is the share of node i's records in one draw.

    `permutation` walks through a fresh shuffle every epoch: a record takes part once in `1 / rate` draws.
    """

    kind: SamplingKind
    rate: npt.NDArray[np.float64]
    relation: Relation


@dataclass(frozen=True)
class Source:
    """Who hosts the records: the global ids of the nodes, their ledger, and their noise."""

    nodes: npt.NDArray[np.int64]
    ledger: Ledger
    noise: Noise


@dataclass(frozen=True)
class Bounded:
    """`value` (n, d), one row a node, not yet private: it leaves only through `Mechanism.release`.

    `sensitivity` (n,) bounds, in `norm`, how far one record under `sampling.relation` moves a node's row when it
    is drawn; None says that no bound is known, and such a value cannot be released privately. Values of one `step`
    come from one draw of records; `purpose` tells them apart. `local` (n, …) belongs to parameters that stay inside the
    node: nothing bounds it, and it may not be sent.
    """

    value: Tensor
    sensitivity: npt.NDArray[np.float64] | None
    norm: Literal["l1", "l2"]
    sampling: Sampling
    step: int
    purpose: str
    source: Source
    local: Tensor | None = None

    def use_locally(self) -> Tensor:
        """The exact value, for use inside the node only: neither it nor what is made of it may be sent."""
        self.source.ledger.close(self.step, self.purpose)
        return self.value

    def use_local_part(self) -> Tensor:
        """The part for parameters that stay inside the node, where the rest is not used."""
        self.use_locally()
        assert self.local is not None, "this value has no local part"
        return self.local
