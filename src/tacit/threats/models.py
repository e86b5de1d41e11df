"""Who looks, as values: what an adversary is given of a round's messages M, as rows of a matrix B with view B M."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tacit.errors import TacitError
from tacit.privacy.ledger import Array


@dataclass(frozen=True)
class Threat(ABC):
    """An adversary. It knows the method, the graph, and every record in the network but one.

    What it is given is never less than what it has: a bound for more is a bound for less.
    """

    @property
    def controls(self) -> tuple[int, ...]:
        """Nodes that are its own: it knows their records and their noise."""
        return ()

    @property
    @abstractmethod
    def title(self) -> str:
        """Who it is, in words."""

    @abstractmethod
    def view(self, weights: Array, ends: Array | None) -> Array:
        """B of a round with these weights (n, n); `ends`, in the last round, is how a mean of models weighs states."""

    def check(self, nodes: int) -> None:
        """Refuse nodes that are not in a network of so many."""
        _check(self.controls, nodes)


@dataclass(frozen=True)
class Eavesdropper(Threat):
    """Listens on all links in all rounds.

    >>> Eavesdropper().view(np.full((2, 2), 0.5), None)
    array([[1., 0.],
           [0., 1.]])
    """

    @property
    def title(self) -> str:
        return "an eavesdropper on all links"

    def view(self, weights: Array, ends: Array | None) -> Array:
        return np.eye(len(weights))


@dataclass(frozen=True)
class Colluders(Threat):
    """Nodes that put together all they send, hear, hold and draw; they need not follow the method.

    Given to them: the messages of all that one of them hears from, their own, and every node's state after the round.

    >>> Colluders((2,)).view(np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]), None)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ],
           [0. , 0. , 1. ]])
    """

    nodes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.nodes:
            raise TacitError("colluders are at least one node")

    @property
    def controls(self) -> tuple[int, ...]:
        return self.nodes

    @property
    def title(self) -> str:
        nodes = sorted(set(self.nodes))
        return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {', '.join(map(str, nodes))} together"

    def view(self, weights: Array, ends: Array | None) -> Array:
        own = np.isin(np.arange(len(weights)), self.controls)
        known = own | (weights[own] != 0).any(axis=0)
        return np.concatenate([weights, np.eye(len(weights))[known]])


@dataclass(frozen=True)
class Neighbour(Threat):
    """One node of the network, curious about the others.

    >>> Neighbour(3).controls, Neighbour(3).title
    ((3,), 'node 3')
    """

    node: int

    @property
    def controls(self) -> tuple[int, ...]:
        return (self.node,)

    @property
    def title(self) -> str:
        return Colluders(self.controls).title

    def view(self, weights: Array, ends: Array | None) -> Array:
        return Colluders(self.controls).view(weights, ends)


@dataclass(frozen=True)
class ModelHolder(Threat):
    """Has no message, but the mean of the final models, or all of them, or those of the nodes named.

    Given to it: every node's state after every round but the last.

    >>> ModelHolder().view(np.array([[0.5, 0.5], [0.5, 0.5]]), ends=np.ones(2))
    array([[1., 1.]])
    """

    of: tuple[int, ...] | Literal["mean", "all"] = "mean"

    def __post_init__(self) -> None:
        if not self.of:
            raise TacitError("who holds final models holds at least one")

    @property
    def title(self) -> str:
        if self.of == "mean":
            return "who holds the mean of the final models"
        return "who holds all final models" if self.of == "all" else f"who holds the final {_models(self.of)}"

    def view(self, weights: Array, ends: Array | None) -> Array:
        if ends is None or self.of == "all":
            return weights
        return ends[None] @ weights if self.of == "mean" else weights[list(self.of)]

    def check(self, nodes: int) -> None:
        _check(() if isinstance(self.of, str) else self.of, nodes)


def _models(of: tuple[int | str, ...]) -> str:
    return f"model of node {of[0]}" if len(of) == 1 else f"models of nodes {', '.join(map(str, of))}"


def _check(named: tuple[int, ...], nodes: int) -> None:
    for node in named:
        if not 0 <= node < nodes:
            raise TacitError(f"there is no node {node}: those of this network are 0 to {nodes - 1}")
