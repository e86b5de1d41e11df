"""Adversaries as values: which messages one sees, which nodes it controls, which final models it holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tacit.errors import TacitError

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Adversary(ABC):
    """Someone who tries to learn about a record. Every ε holds against one adversary.

    All adversaries know the algorithm, the graph and every record in the network except the one under attack.
    Their view of a round with messages M (one row per node) is B M. A proof may give an adversary more than
    it has: an upper bound for a larger view also holds for a smaller one.
    """

    @property
    def controls(self) -> tuple[int, ...]:
        """Nodes under its control: it knows their records and their noise."""
        return ()

    @property
    @abstractmethod
    def title(self) -> str:
        """A short description for tables and reports, such as "an eavesdropper on every link"."""

    @abstractmethod
    def view(self, weights: Array, mean_weights: Array | None) -> Array:
        """The matrix B (rows, n) of one round.

        Args:
            weights: The mixing matrix W (n, n) of the round.
            mean_weights: In the last round, the weight (n,) of each node's state in the mean of the final
                models; None in all other rounds.
        """

    def check_nodes(self, nodes: int) -> None:
        """Raise TacitError if the adversary refers to a node that a network of `nodes` nodes does not have."""
        _check_node_numbers(self.controls, nodes)


@dataclass(frozen=True)
class Eavesdropper(Adversary):
    """Sees every message on every link in every round, and colludes with any `colluders` nodes.

    Colluders tell it the noise that they know: their own, and the noise that they share with other nodes. Where the
    noise of nodes is independent, they change nothing.

    >>> Eavesdropper().view(np.full((2, 2), 0.5), None)
    array([[1., 0.],
           [0., 1.]])
    >>> Eavesdropper(5).title
    'an eavesdropper on every link who colludes with any 5 nodes'
    """

    colluders: int = 0

    @property
    def title(self) -> str:
        if self.colluders == 0:
            return "an eavesdropper on every link"
        nodes = "one node" if self.colluders == 1 else f"{self.colluders} nodes"
        return f"an eavesdropper on every link who colludes with any {nodes}"

    def view(self, weights: Array, mean_weights: Array | None) -> Array:
        return np.eye(len(weights))


@dataclass(frozen=True)
class Coalition(Adversary):
    """One node, or several that collude: they pool their records, noise, states and messages.

    They need not follow the algorithm. The proof gives them the messages that one of them receives, their own
    messages, and the state of every node after every round.

    >>> Coalition((2,)).view(np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]), None)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ],
           [0. , 0. , 1. ]])
    >>> Coalition((2,)).title, Coalition((3, 0)).title
    ('node 2', 'nodes 0 and 3 colluding')
    """

    nodes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.nodes:
            raise TacitError("A coalition needs at least one node, got none")

    @property
    def controls(self) -> tuple[int, ...]:
        return self.nodes

    @property
    def title(self) -> str:
        nodes = sorted(set(self.nodes))
        return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {_listed(nodes)} colluding"

    def view(self, weights: Array, mean_weights: Array | None) -> Array:
        own = np.isin(np.arange(len(weights)), self.controls)
        received = (weights[own] != 0).any(axis=0)
        return np.concatenate([weights, np.eye(len(weights))[own | received]])


@dataclass(frozen=True)
class ModelHolder(Adversary):
    """Sees no message, but holds the mean of the final models, all of them, or those of some nodes.

    The proof gives it the state of every node after every round except the last.

    >>> ModelHolder().view(np.array([[0.5, 0.5], [0.5, 0.5]]), mean_weights=np.ones(2))
    array([[1., 1.]])
    """

    models: tuple[int, ...] | Literal["mean", "all"] = "mean"

    def __post_init__(self) -> None:
        if not self.models:
            raise TacitError("A model holder needs at least one final model, got none")

    @property
    def title(self) -> str:
        if self.models == "mean":
            return "a holder of the mean of the final models"
        if self.models == "all":
            return "a holder of all final models"
        nodes = [int(node) for node in self.models]
        return f"a holder of the final {'model of node' if len(nodes) == 1 else 'models of nodes'} {_listed(nodes)}"

    def view(self, weights: Array, mean_weights: Array | None) -> Array:
        if mean_weights is None or self.models == "all":
            return weights
        return mean_weights[None] @ weights if self.models == "mean" else weights[list(self.models)]

    def check_nodes(self, nodes: int) -> None:
        _check_node_numbers(() if isinstance(self.models, str) else self.models, nodes)


@dataclass(frozen=True)
class MetricReader(Adversary):
    """Sees the accuracies and losses that a run publishes, measured on the nodes' mean model or on their models.

    The proof gives it everything that an eavesdropper sees.
    """

    @property
    def title(self) -> str:
        return "a reader of the published accuracies and losses"

    def view(self, weights: Array, mean_weights: Array | None) -> Array:
        return np.eye(len(weights))


def _listed(nodes: list[int]) -> str:
    *first, last = map(str, nodes)
    return f"{', '.join(first)} and {last}" if first else last


def _check_node_numbers(named: tuple[int, ...], nodes: int) -> None:
    for node in named:
        if not 0 <= node < nodes:
            raise TacitError(f"Node {node} does not exist: the nodes of this network are 0 to {nodes - 1}")
