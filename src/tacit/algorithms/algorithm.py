"""The contract of every method: parameters in, one round at a time, no loop over nodes, no idea of the runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.bounded import Sampling
from tacit.privacy.ledger import Array
from tacit.privacy.planning import Planned
from tacit.registry import Registry
from tacit.tasks import Clip, Task

S = TypeVar("S")
Nodes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Algorithm(ABC, Generic[S]):
    """A frozen dataclass of the paper's parameters. Its state `S` is a dataclass of tensors with a leading axis n.

    `releases(t)` says which mechanisms round t uses, and `round` uses those: what is planned, calibrated and accounted
    before a run is what the ledger holds after it. `rounds` is the paper's K, set by the run. A method that can
    leave some parameters at their node (`partial`) has patterns of names of those it shares in `share`; the `local`
    ones learn from gradients with the same noise, or from exact ones.
    """

    needs: ClassVar[tuple[str, ...]] = ("column-stochastic", "connected")
    unit: ClassVar[str] = "record"
    adversary: ClassVar[str] = "sees every message a node ever sends and knows every record in the network but one"
    claimed_for: ClassVar[Literal["run", "round"]] = "run"
    partial: ClassVar[bool] = False

    rounds: int = field(default=1, kw_only=True)
    share: tuple[str, ...] | None = field(default=None, kw_only=True)
    local: Literal["private", "exact"] = field(default="private", kw_only=True)

    @property
    @abstractmethod
    def title(self) -> str:
        """What the paper calls it."""

    @abstractmethod
    def start(self, task: Task, graph: Graph) -> S:
        """The state before round 0."""

    @abstractmethod
    def round(self, t: int, state: S, task: Task, network: Network) -> S:
        """The state after round t. The given one stays as it is: a run that is stopped half-way goes back to it."""

    @abstractmethod
    def models(self, state: S) -> Tensor:
        """Each hosted node's model, (n, d)."""

    @property
    def assumes(self) -> str | None:
        """What the guarantee takes for granted and nobody checks; None where it is proven throughout."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that belong to any statement about its privacy."""
        return ()

    @property
    def bounds(self) -> Literal["all", "shared"]:
        """Whose gradients are clipped: those of all parameters, or of the shared ones only."""
        return "all" if self.local == "private" else "shared"

    def sampling(self, task: Task) -> Sampling:
        """How the records behind a release are drawn, as it is accounted."""
        return task.sampling

    def traces(self, state: S) -> dict[str, Tensor]:
        """Numbers worth a curve over the rounds, one a hosted node (n,) each."""
        return {}

    def norms(self, state: S) -> dict[str, Tensor]:
        """Norms of the state's parts, one a hosted node (n,) each; the history has their mean."""
        return {"primal_norm": self.models(state).norm(dim=1)}

    def with_rounds(self, rounds: int) -> Self:
        """The same method for a run of so many rounds."""
        return replace(self, rounds=rounds)

    def bind(self, task: Task, graph: Graph) -> Self:
        """The same method, with what its noise needs to know of the task and the graph."""
        return self

    def releases(self, t: int, nodes: Nodes) -> Iterable[Planned]:
        """What the given nodes release in round t. Nothing planned: the run can have no budget."""
        return ()

    def mixing_only_clip(self, t: int) -> Clip | None:
        """The clip of round t, where that is x ← W(t) (x − γ (clipped gradient at x + Gaussian noise)) and no more.

        Then a node remembers nothing but what mixing gave it, and `tacit.threats` knows what mixing hides. None: it is
        not so, or nobody has proven it. A class answers for itself only, not for those derived from it.
        """
        return None

    @property
    def tolerates_dropout(self) -> bool:
        """Whether nodes may go on without one that is silent: they only mix, and push-sum weights go with the values,
        so that whatever is kept back of one is kept back of the other."""
        return False

    def with_noise(self, scale: Array) -> Self:
        """The same method with its noise multipliers scaled, node by node: `scale` has an entry for every node."""
        raise TacitError(
            f"{self.title} has no noise to calibrate: leave out privacy.epsilon, or choose a private method"
        )

    def paper_noise(self, sampling: Sampling, epsilon: float, delta: float) -> Array:
        """The noise scales that the paper's own formula gives for a *claimed* ε."""
        raise TacitError(f"{self.title} has no calibration of its paper's own: leave out privacy.calibration")

    def claim(self, sampling: Sampling, nodes: Nodes, delta: float, rounds: int) -> float | None:
        """The ε that the paper's formula claims after `rounds` rounds; None where the paper claims none."""
        return None


def at_nodes(values: float | Array, nodes: Nodes) -> Array:
    """What is one for all, or one for each node of the network by its id, at these nodes."""
    array = np.asarray(values, np.float64)
    return array[nodes] if array.ndim else np.full(len(nodes), array)


def by_id(values: Array, nodes: Nodes) -> Array:
    """Values of these nodes at the places of their ids; other nodes are hosted elsewhere."""
    placed = np.full(nodes.max() + 1, np.nan)
    placed[nodes] = values
    return placed


algorithms: Registry[Algorithm[Any]] = Registry("algorithm", given=("rounds", "scale", "name"))
