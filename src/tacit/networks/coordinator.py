"""Coordination between the processes of one run. It carries no messages of nodes: those go through a `Network`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tacit.networks.network import Network, Traffic
from tacit.networks.process_group import ProcessGroup


class Coordinator:
    """The coordinator of a run in a single process: nothing has to be coordinated.

    A run over several processes uses a subclass, such as `ClusterCoordinator`. Methods that gather are collective:
    every process must call them, in the same order.
    """

    @property
    def is_leader(self) -> bool:
        """Whether this process prints and writes what exists once per run."""
        return True

    @property
    def processes(self) -> int:
        """The number of processes of the run."""
        return 1

    @property
    def all_alive(self) -> bool:
        """Whether all processes still take part, as far as this one has noticed."""
        return True

    def folder(self, out: Path) -> Path:
        """The folder in which this process writes its part of a run that is kept in `out`."""
        return out

    def all_gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, concatenated; with one row per hosted node they are sorted by node id."""
        return rows

    def gather_strings(self, text: str) -> list[str]:
        """The text of every process, in the order of the processes."""
        return [text]

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """Run the block in the leader before the other processes enter it."""
        yield

    def stop(self, reason: str) -> None:
        """Announce that this process takes no further part, so that the others stop instead of waiting."""

    def total_traffic(self, network: Network) -> Traffic:
        """A copy of the traffic of all nodes, wherever they are hosted; `network` is the one of this process."""
        return replace(network.traffic)


class ClusterCoordinator(Coordinator):
    """The coordinator of a run whose nodes are spread over the ranks of a cluster."""

    def __init__(self, ranks: ProcessGroup) -> None:
        self._ranks = ranks

    @property
    def is_leader(self) -> bool:
        return self._ranks.is_leader

    @property
    def processes(self) -> int:
        return self._ranks.size

    @property
    def all_alive(self) -> bool:
        return not self._ranks.stop_reason

    def folder(self, out: Path) -> Path:
        return self._ranks.folder(out)

    def all_gather(self, rows: Tensor) -> Tensor:
        return torch.cat(self._ranks.all_gather(rows))

    def gather_strings(self, text: str) -> list[str]:
        return self._ranks.gather_strings(text)

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        with self._ranks.leader_first():
            yield

    def stop(self, reason: str) -> None:
        self._ranks.stop(reason)

    def total_traffic(self, network: Network) -> Traffic:
        own = network.traffic
        messages, sent = self._ranks.sum(torch.tensor([own.messages, own.bytes])).tolist()
        rounds, busiest = self._ranks.max(torch.tensor([own.rounds, own.bytes_out])).tolist()
        by_node = np.broadcast_to(own.by_node, (2, len(network.nodes))).T.copy()
        return Traffic(messages, sent, rounds, busiest, self.all_gather(torch.from_numpy(by_node)).numpy().T)
