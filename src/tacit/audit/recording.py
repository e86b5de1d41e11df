"""Networks that record messages as an eavesdropper sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from tacit.graphs import Graph
from tacit.networks import Simulated


class ReplicatedGraph(Graph):
    """`copies` disconnected copies of a graph: one trial per copy."""

    def __init__(self, graph: Graph, copies: int) -> None:
        super().__init__(graph.nodes * copies, graph.period, f"{copies} × {graph.name}")
        self._graph, self._copies = graph, copies

    def at(self, t: int) -> sparse.csr_array:
        return sparse.csr_array(sparse.kron(sparse.eye_array(self._copies), self._graph.at(t), "csr"))

    def contractions(self, length: int) -> npt.NDArray[np.float64]:
        """The contractions of one copy: copies do not exchange values."""
        return self._graph.contractions(length)

    def certified_constants(self) -> tuple[float, float]:
        return self._graph.certified_constants()


class RecordingNetwork(Simulated):
    """A simulated network of `trials` equal parts that records every message on every link.

    `mean`, `max` and `diameter` are taken over each part, because each part is a network of its own.
    """

    def __init__(self, graph: Graph, trials: int) -> None:
        super().__init__(graph)
        self._trials = trials
        self._messages = [torch.empty(trials, 0, dtype=torch.float64)]
        self._recording = True

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        self._record(*values)
        return super().mix(t, *values, row_bytes=row_bytes)

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        self._record(z if only is None else torch.where(only[:, None], z, 0.0))
        return super().swap(t, z, only)

    def mean(self, x: Tensor) -> Tensor:
        """The mean over each trial's nodes."""
        self._record(x)
        by_trial = x.view(self._trials, -1, x.shape[-1])
        return by_trial.mean(1, keepdim=True).expand_as(by_trial).reshape(x.shape)

    def max(self, s: Tensor) -> Tensor:
        """The maximum over each trial's nodes, (n,)."""
        self._record(s)
        by_trial = s.view(self._trials, -1)
        return by_trial.amax(1, keepdim=True).expand_as(by_trial).flatten()

    def diameter(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """The L1 diameter of each trial's vectors, (n,)."""
        by_trial = x.view(self._trials, -1, x.shape[-1]).double()
        diameters = torch.cdist(by_trial, by_trial, p=1).amax((1, 2))
        return diameters.repeat_interleave(by_trial.shape[1])

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        """Pause recording: measurements are not messages."""
        before, self._recording = self._recording, False
        try:
            with super().unmetered():
                yield
        finally:
            self._recording = before

    def transcripts(self) -> npt.NDArray[np.float64]:
        """All recorded messages, (trials, numbers)."""
        return torch.cat(self._messages, 1).numpy()

    def _record(self, *values: Tensor) -> None:
        if self._recording:
            self._messages += [value.detach().double().reshape(self._trials, -1).clone() for value in values]


class NodeRecordingNetwork(Simulated):
    """A simulated network that records, for some columns, what one node sends and receives in each round.

    Received values are recorded as the node uses them: weighted and summed. On links with variables of their own,
    links to nodes with a lower and with a higher number are summed separately, because algorithms give them
    opposite signs.
    """

    def __init__(self, graph: Graph, node: int, columns: slice) -> None:
        super().__init__(graph)
        self._node, self._columns = node, columns
        self._round: dict[str, Tensor] = {}
        self._rounds: list[Tensor] = []

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        mixed = super().mix(t, *values, row_bytes=row_bytes)
        for sent, received in zip(values, mixed, strict=True):
            if sent.dim() == 2:  # push-sum weights have no columns and do not depend on records
                self._record(f"message {len(self._round)}", sent[self._node], received[self._node])
        return mixed

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        received, edges = super().swap(t, z, only), self.edges(t)
        active = np.ones(len(z), bool) if only is None else only.numpy()
        sides = {"lower": edges.target < self._node, "higher": edges.target > self._node}
        for side, targets in sides.items():
            links = torch.from_numpy((edges.source == self._node) & targets & active)
            self._record(side, z[links].sum(0), received[links].sum(0))
        return received

    def mean(self, x: Tensor) -> Tensor:
        mean = super().mean(x)
        self._record(f"message {len(self._round)}", x[self._node], mean)
        return mean

    def end_round(self) -> None:
        self._rounds.append(torch.stack(list(self._round.values())))
        self._round = {}

    def recorded(self) -> npt.NDArray[np.float64]:
        """The recorded values, (rounds, messages sent or received, columns)."""
        return torch.nn.utils.rnn.pad_sequence(self._rounds, batch_first=True).numpy()

    def _record(self, name: str, sent: Tensor, received: Tensor) -> None:
        """Add to this round's values: links that are active at different times form one message per round."""
        for direction, value in (("sent", sent), ("received", received)):
            columns = value[self._columns].detach().double()
            key = f"{name} {direction}"
            self._round[key] = self._round.get(key, torch.zeros_like(columns)) + columns
