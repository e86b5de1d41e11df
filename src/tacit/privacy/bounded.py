"""A value computed from records, with the bound on what one record can change in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError
from tacit.privacy.release import Unit
from tacit.privacy.sampling import Sampling

if TYPE_CHECKING:
    from torch import Tensor

    from tacit.privacy.ledger import Ledger
    from tacit.privacy.noise import Noise
    from tacit.privacy.pair_noise import PairNoise


@dataclass(frozen=True)
class ReleaseContext:
    """What a release needs besides the value.

    Attributes:
        nodes: The global ids of the hosted nodes.
        ledger: Records every release.
        noise: The source of the nodes' noise.
        on_release: Called with step, purpose, noised value and noise scale of every release. It may overwrite the
            value. Tests of algorithms use it to replay releases (`tacit check`).
        pairs: The source of the noise that pairs of nodes share; None: derived from `noise`, as for nodes in one
            trust domain.
    """

    nodes: npt.NDArray[np.int64]
    ledger: Ledger
    noise: Noise
    on_release: Callable[[int, str, Tensor, npt.NDArray[np.float64]], None] | None = None
    pairs: PairNoise | None = None

    @property
    def pair_noise(self) -> PairNoise:
        """The source of the noise that pairs of nodes share."""
        from tacit.privacy.pair_noise import DerivedPairNoise

        return self.pairs or DerivedPairNoise(self.noise)


@dataclass(frozen=True)
class Bounded:
    """A value (n, d) with one row per node that is not yet private: it leaves only through `Mechanism.release`.

    Linear operations (`scaled`, `plus`) keep the bound correct. Reading `value` before the release is recorded in the
    ledger and ends the guarantee, because what is read can be sent. `use_locally` is for values that stay in the node.

    Attributes:
        sensitivity: (n,) bound, in `norm`, on how far one `unit` under `sampling.relation` moves a node's row when
            it is drawn. None means that no bound is known; such a value cannot be released privately.
        norm: The norm of `sensitivity`.
        sampling: How the records behind the value were drawn.
        step: The draw of records that the value was computed from. Values of one step share their records.
        purpose: Distinguishes the values of one step.
        context: The nodes, ledger and noise of the release.
        unit: What the sensitivity is about: one "record", or all data of one "node". Whoever states the sensitivity
            states the unit.
    """

    _value: Tensor = field(repr=False)
    sensitivity: npt.NDArray[np.float64] | None
    norm: Literal["l1", "l2"]
    sampling: Sampling
    step: int
    purpose: str
    context: ReleaseContext
    unit: Unit = "record"
    _local: Tensor | None = field(default=None, repr=False)
    _noised: bool = field(default=False, init=False, repr=False)

    @property
    def value(self) -> Tensor:
        """The exact value, or the noised one after the release. The ledger records that an exact value was read."""
        if not self._noised:
            self.context.ledger.values.note_read(self.step, self.purpose)
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (n, d) of the value, which is public."""
        return tuple(self._value.shape)

    @property
    def local(self) -> Tensor | None:
        """(n, …) values of parameters that stay inside the node. They have no bound and may not be sent."""
        if self._local is not None and self._local.shape[1]:
            self.context.ledger.values.note_local_use(self.step, self.purpose)
        return self._local

    def use_locally(self) -> Tensor:
        """Return the exact value for use inside the node. Neither it nor anything computed from it may be sent.

        The guarantee of a run then rests on the algorithm's declaration `exact_values_stay_local`.
        """
        self.context.ledger.values.note_local_use(self.step, self.purpose)
        self.context.ledger.close(self.step, self.purpose)
        return self._value.clone()  # a change of it must not change what is released

    def use_local_part(self) -> Tensor:
        """Return the part for parameters that stay inside the node, and mark the rest as used locally."""
        self.use_locally()
        assert self._local is not None, "this value has no local part"
        return self._local

    def scaled(self, factor: float) -> Bounded:
        """Return the value and its sensitivity times a public `factor`."""
        bound = None if self.sensitivity is None else abs(factor) * self.sensitivity
        return replace(self, _value=factor * self._value, sensitivity=bound)

    def plus(self, other: Tensor | Bounded) -> Bounded:
        """Return the sum with a public tensor, or with another value of the same draw, whose sensitivity is added.

        The other value counts as part of this one: it needs no release of its own.
        """
        if other.shape != self.shape:  # copies of a value would reveal it, each with noise of its own
            raise TacitError(f"Values of shapes {tuple(self.shape)} and {tuple(other.shape)} cannot be added")
        if not isinstance(other, Bounded):
            return replace(self, _value=self._value + other)
        mine = (self.step, self.norm, self.unit, self.sampling.kind, self.sampling.relation)
        theirs = (other.step, other.norm, other.unit, other.sampling.kind, other.sampling.relation)
        if mine != theirs or not np.array_equal(self.sampling.rate, other.sampling.rate):
            raise TacitError(
                f'"{self.purpose}" and "{other.purpose}" can be added only if step, norm, unit and sampling are the '
                f"same, got {mine} and {theirs}"
            )
        if other.context.ledger is not self.context.ledger:
            raise TacitError(f'"{self.purpose}" and "{other.purpose}" belong to different ledgers')
        other.context.ledger.close(other.step, other.purpose)
        known = self.sensitivity is not None and other.sensitivity is not None
        bound = self.sensitivity + other.sensitivity if known else None  # type: ignore[operator]
        return replace(self, _value=self._value + other._value, sensitivity=bound)
