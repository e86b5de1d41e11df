"""A value computed from records, with the bound on what one record can change in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tacit.privacy.sampling import Sampling

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.privacy.ledger import Ledger
    from tacit.privacy.noise import Noise


@dataclass(frozen=True)
class ReleaseContext:
    """What a release needs besides the value: the global ids of the hosted nodes, their ledger and their noise."""

    nodes: npt.NDArray[np.int64]
    ledger: Ledger
    noise: Noise


@dataclass(frozen=True)
class Bounded:
    """A value (n, d) with one row per node that is not yet private: it leaves only through `Mechanism.release`.

    Attributes:
        value: The exact value (n, d).
        sensitivity: (n,) bound, in `norm`, on how far one record under `sampling.relation` moves a node's row when
            the record is drawn. None means that no bound is known; such a value cannot be released privately.
        norm: The norm of `sensitivity`.
        sampling: How the records behind the value were drawn.
        step: The draw of records that the value was computed from. Values of one step share their records.
        purpose: Distinguishes the values of one step.
        context: The nodes, ledger and noise of the release.
        local: (n, …) values of parameters that stay inside the node. They have no bound and may not be sent.
    """

    value: Tensor
    sensitivity: npt.NDArray[np.float64] | None
    norm: Literal["l1", "l2"]
    sampling: Sampling
    step: int
    purpose: str
    context: ReleaseContext
    local: Tensor | None = None

    def use_locally(self) -> Tensor:
        """Return the exact value for use inside the node. Neither it nor anything computed from it may be sent."""
        self.context.ledger.close(self.step, self.purpose)
        return self.value

    def use_local_part(self) -> Tensor:
        """Return the part for parameters that stay inside the node, and mark the rest as used locally."""
        self.use_locally()
        assert self.local is not None, "this value has no local part"
        return self.local
