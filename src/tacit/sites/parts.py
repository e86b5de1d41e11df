"""The parts of a site's run: its configuration, its data, and the settings shared by all sites."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tacit.algorithms import Algorithm
from tacit.graph_learning import GraphMethod, Signals
from tacit.graphs import Graph
from tacit.privacy import Ledger, Noise, RatchetedKeys
from tacit.runs import Config, longest_statistic
from tacit.sites.description import NetworkDescription
from tacit.sites.peers import neighbours, one_per_round
from tacit.sites.site_config import SiteConfig
from tacit.tasks import Task

_ROUNDS_EXAMINED = 64  # of a graph sequence that does not repeat, to find all neighbours
_ENVELOPE_BYTES = 2 << 20  # of one message without its vectors; a HELLO contains the description
_VECTORS_PER_MESSAGE, _BYTES_PER_VALUE = 2, 8


@dataclass(frozen=True)
class SiteParts(ABC):
    """What a site needs to run; `TrainingParts` to train a model, `GraphLearningParts` to learn a graph.

    Attributes:
        site: The site's configuration.
        node: Its node id.
        config: The config of the same run as a simulation, with this site's data.
        description: What is compared with the other sites.
        graph: The communication graph.
        algorithm: The method. Its noise is calibrated for the site's own sampling rate: those of others are unknown.
        task: The site's data, noise and ledger.
    """

    site: SiteConfig
    node: int
    config: Config
    description: NetworkDescription
    graph: Graph
    algorithm: Algorithm[Any] | GraphMethod[Any]
    task: Task | Signals

    @property
    def delta(self) -> float:
        return self.config.privacy.delta

    @property
    def noise(self) -> Noise:
        return self.task.noise

    @property
    def ledger(self) -> Ledger:
        return self.task.ledger

    @property
    def neighbours(self) -> list[str]:
        """The names of all sites with which this one exchanges messages."""
        return sorted(self.description.sites[j] for j in self._neighbour_ids)

    @property
    def max_message_bytes(self) -> int:
        return _ENVELOPE_BYTES + _VECTORS_PER_MESSAGE * _BYTES_PER_VALUE * self._vector_length

    def graph_time(self, round_: int, sequence: int) -> int:
        """Return the time of the graph at mixing number `sequence` of a round."""
        return one_per_round(round_, sequence)

    @property
    @abstractmethod
    def tolerates_dropout(self) -> bool:
        """Whether the run can continue without a neighbour."""

    @property
    @abstractmethod
    def _neighbour_ids(self) -> set[int]: ...

    @property
    @abstractmethod
    def _vector_length(self) -> int: ...


@dataclass(frozen=True)
class TrainingParts(SiteParts):
    """The parts of a site that trains a model.

    Attributes:
        keys: The keys of its noise, which are erased round by round; None for noise from a seed.
    """

    algorithm: Algorithm[Any]
    task: Task
    keys: RatchetedKeys | None = None

    def graph_time(self, round_: int, sequence: int) -> int:
        return self.algorithm.mixing.graph_time(round_, sequence)

    @property
    def tolerates_dropout(self) -> bool:
        """Statistics before round 0 are means over all sites: one that missed them could never take part later."""
        return self.algorithm.tolerates_dropout and not self.algorithm.preparation

    @property
    def _neighbour_ids(self) -> set[int]:
        if self.algorithm.preparation:
            return set(range(self.graph.nodes)) - {self.node}
        rounds = range(self.graph.period or _ROUNDS_EXAMINED)
        return {j for t in rounds for side in neighbours(self.graph, self.node, t) for j in side}

    @property
    def _vector_length(self) -> int:
        return max(self.task.d, longest_statistic(self.task, self.algorithm))


@dataclass(frozen=True)
class GraphLearningParts(SiteParts):
    """The parts of a site that learns a graph. Its methods compute means over all sites."""

    algorithm: GraphMethod[Any]
    task: Signals

    @property
    def tolerates_dropout(self) -> bool:
        return False

    @property
    def _neighbour_ids(self) -> set[int]:
        return set(range(self.graph.nodes)) - {self.node}

    @property
    def _vector_length(self) -> int:
        return self.task.p
