"""The privacy of a graph learning method, apart from its update: what it releases and what its paper claims."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tacit.algorithms import Nodes, select_nodes
from tacit.graph_learning.statistic import PURPOSES, RELEASED
from tacit.privacy import Exact, Gaussian, Mechanism, Release, Sampling

if TYPE_CHECKING:
    from tacit.graph_learning.method import GraphMethod

GRAPH_PURPOSE = "graph"


@dataclass(frozen=True)
class GraphPrivacyPlan:
    """What `method` releases in each round, and what its paper claims. The counterpart of an algorithm's `PrivacyPlan`.

    The mechanism in `releases(t, ...)` is the one that round t uses, so what is planned and accounted before a run is
    what the ledger holds after it.

    Attributes:
        method: The method whose releases are planned.
        unit: What the guarantee protects: one record, which is one signal.
        adversary: The adversary. It knows all signals except the protected one.
    """

    method: GraphMethod[Any]
    unit: ClassVar[Literal["record"]] = "record"
    adversary: ClassVar[str] = "an observer of every message and every learned graph"

    @property
    def purpose(self) -> str:
        """The name of the statistic in the ledger."""
        return PURPOSES[self.method.statistic]

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that belong to every statement about the method's privacy: what is released with noise, once."""
        if self.method.noise is None or self.method.release != "once":
            return ()
        return (f"A client releases, once and with noise, {RELEASED[self.method.statistic]}.",)

    @property
    def unprotected_reason(self) -> str | None:
        """Why the learned graphs are not private although nothing is sent without noise; None if they are."""
        return None

    def mechanism(self, nodes: Nodes) -> Mechanism:
        """Return the mechanism of every release by the given clients."""
        return Exact() if self.method.noise is None else Gaussian(select_nodes(self.method.noise, nodes))

    def preparation(self, nodes: Nodes, sampling: Sampling) -> Iterable[Release]:
        """Return what the given clients release before round 0: nothing."""
        return ()

    def releases(self, t: int, nodes: Nodes, sampling: Sampling) -> Iterable[Release]:
        """Return what the given clients release in round t."""
        if self.method.release == "rounds" or self.method.noise is None:
            return (Release(t, GRAPH_PURPOSE, self.mechanism(nodes), sampling),)
        return (Release(0, self.purpose, self.mechanism(nodes), sampling),) if t == 0 else ()

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """Return the ε that the paper's formula claims after `rounds` rounds; None if the paper claims none."""
        return None
