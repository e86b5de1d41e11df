"""The contract of every method: parameters in, one round at a time, no loop over nodes, no idea of the runtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from torch import Tensor

from tacit.algorithms.privacy_plan import Nodes, PrivacyPlan
from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Network
from tacit.privacy.ledger import Array
from tacit.registry import Registry
from tacit.tasks import Task

S = TypeVar("S")


@dataclass(frozen=True)
class Algorithm(ABC, Generic[S]):
    """A frozen dataclass of the paper's parameters. Its state `S` is a dataclass of tensors with a leading axis n.

    `privacy` plans what `round` releases. `rounds` is the paper's K, set by the run. A method that can
    leave some parameters at their node (`partial`) has patterns of names of those it shares in `share`; the `local`
    ones learn from gradients with the same noise, or from exact ones.
    """

    needs: ClassVar[tuple[str, ...]] = ("column-stochastic", "connected")
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
    def privacy(self) -> PrivacyPlan:
        """What it releases, what its paper claims, and what the guarantee assumes."""
        return PrivacyPlan(self)

    @property
    def bounds(self) -> Literal["all", "shared"]:
        """Whose gradients are clipped: those of all parameters, or of the shared ones only."""
        return "all" if self.local == "private" else "shared"

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
