"""The network of a real site: one node in this process, every other node at another site."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks import Costs, Network
from tacit.sites.exchange import Exchange, ReturnedMessage
from tacit.sites.message import MessageKind, Operation
from tacit.sites.payload import Tensors, TensorSpecs


def neighbours(graph: Graph, node: int, t: int) -> tuple[list[int], list[int]]:
    """Return the in-neighbours and the out-neighbours of a node in round t."""
    sources, targets = graph.edges(t)
    return sources[targets == node].tolist(), targets[sources == node].tolist()


GraphTime = Callable[[int, int], int]
"""A function (round, sequence) → the time of the graph at mixing number `sequence` of a round."""


def one_per_round(round_: int, sequence: int) -> int:
    """The time of the graph of methods for which it advances once per round."""
    return round_


def sender_check(
    graph: Graph, sites: Sequence[str], site: str, graph_time: GraphTime = one_per_round
) -> Callable[[Operation, str], bool]:
    """Return a function that decides whether a peer may send to `site` in an operation."""
    # Graphs cache their rounds; the transport's thread uses a copy.
    own_graph, node_of = copy.deepcopy(graph), {name: node for node, name in enumerate(sites)}

    def may_send(operation: Operation, sender: str) -> bool:
        if operation.kind in (MessageKind.MAX, MessageKind.MEAN):
            return True
        t = graph_time(operation.round, operation.sequence) if operation.kind == MessageKind.MIX else operation.round
        return node_of[sender] in neighbours(own_graph, node_of[site], t)[0]

    return may_send


class _Exchanged(NamedTuple):
    """The tensors that were received and sent in an operation, by node, and the returned messages."""

    received: dict[int, Tensors]
    sent: dict[int, Tensors]
    returned: list[ReturnedMessage]


class Peers(Network):
    """The network of the site `exchange.site`, which hosts one node.

    If the method tolerates dropout, `mix` conserves the sum of all values even when peers are absent: this node keeps
    the weight of messages that are not sent, and adds missed messages back. `max` and `mean` need all nodes and wait
    for them.

    Args:
        graph: The graph of all nodes.
        sites: The names of the sites, by node.
        exchange: Sends and receives the messages.
        timeout: Seconds to wait for a peer; see `Exchange.receive`.
        costs: The cost model of the run.
        graph_time: The time of the graph at each mixing of a round.
    """

    omniscient: ClassVar[bool] = False

    def __init__(
        self,
        graph: Graph,
        sites: Sequence[str],
        exchange: Exchange,
        timeout: float,
        costs: Costs | None = None,
        graph_time: GraphTime = one_per_round,
    ) -> None:
        self._sites, self._node = list(sites), list(sites).index(exchange.site)
        super().__init__(graph, np.array([self._node]), costs)
        self._exchange, self._timeout, self._graph_time = exchange, timeout, graph_time
        self._round, self._operations = 0, Counter[MessageKind]()

    def begin(self, t: int) -> int:
        t = self._exchange.begin(t)
        self._round, self._operations = t, Counter()
        return t

    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        matrix, node = self.graph.at(t), self._node
        sources, targets = neighbours(self.graph, node, t)
        own: Tensors = {str(k): value[0] for k, value in enumerate(values)}
        sequence = self._operations[MessageKind.MIX]
        received, sent, returned = self._run(MessageKind.MIX, own, dict.fromkeys(targets, own), sources)
        own = next(iter(sent.values()), own)  # after a restart: the values that were sent before it
        own_weight = matrix[node, node] + sum(matrix[j, node] for j in targets if j not in sent)
        parts = {j: (float(matrix[node, j]), tensors) for j, tensors in received.items()}
        parts[node] = float(own_weight), own
        back = [(self._sent_weight(r.receiver, self._graph_time(r.round, sequence)), r.tensors) for r in returned]
        weighted = [parts[j] for j in sorted(parts)] + back
        return tuple(
            torch.stack([weight * tensors[str(k)] for weight, tensors in weighted]).sum(0, keepdim=True)
            for k in range(len(values))
        )

    def _sent_weight(self, receiver: str, t: int) -> float:
        """Return the weight with which this node sent to a receiver at a time of the graph."""
        return float(self.graph.at(t)[self._sites.index(receiver), self._node])

    def _swap(self, t: int, z: Tensor, only: Tensor | None) -> Tensor:
        rows = {int(j): row for row, j in enumerate(self.edges(t).target) if only is None or bool(only[row])}
        if not rows:  # an operation of other nodes; it counts here too, so that sequences agree
            self._operations[MessageKind.SWAP] += 1
            return z
        outgoing = {j: {"0": z[row]} for j, row in rows.items()}
        received = self._run(MessageKind.SWAP, {"0": z[0]}, outgoing, list(rows)).received
        swapped = z.clone()
        for j, row in rows.items():
            swapped[row] = received[j]["0"]
        return swapped

    def _max(self, s: Tensor) -> Tensor:
        return self._all_rows(MessageKind.MAX, s).max()

    def _mean(self, x: Tensor) -> Tensor:
        return self._all_rows(MessageKind.MEAN, x).mean(0)

    def _all_rows(self, kind: MessageKind, rows: Tensor) -> Tensor:
        """Return the rows of all nodes, by node."""
        if self._exchange.tolerates_dropout:
            raise TacitError(f"{kind.name.lower()} needs every node, but this run continues without absent sites")
        others = [j for j in range(self.graph.nodes) if j != self._node]
        own: Tensors = {"0": rows[0]}
        received, sent, _ = self._run(kind, own, dict.fromkeys(others, own), others)
        received[self._node] = next(iter(sent.values()), own)  # after a restart: the values that were sent before it
        return torch.stack([received[j]["0"] for j in range(self.graph.nodes)])

    def _run(
        self, kind: MessageKind, like: Tensors, outgoing: Mapping[int, Tensors], sources: Sequence[int]
    ) -> _Exchanged:
        """Run one operation: send `outgoing` by node, and receive tensors of the form of `like` from `sources`."""
        operation = Operation(self._round, kind, self._operations[kind])
        self._operations[kind] += 1
        device, main_memory = next(iter(like.values())).device, torch.device("cpu")
        messages = {self._sites[j]: _on(main_memory, tensors) for j, tensors in outgoing.items()}
        sent = self._exchange.send(operation, messages)
        specs: TensorSpecs = {name: (value.dtype, tuple(value.shape)) for name, value in like.items()}
        received, returned = self._exchange.receive(operation, {self._sites[j]: specs for j in sources}, self._timeout)
        node_of = self._sites.index
        by_node, sent_by_node = (
            {node_of(name): _on(device, tensors) for name, tensors in found.items()} for found in (received, sent)
        )
        returned = [r._replace(tensors=_on(device, r.tensors)) for r in returned]
        return _Exchanged(by_node, sent_by_node, returned)


def _on(device: torch.device, tensors: Tensors) -> Tensors:
    """Return tensors on a device. Messages are in main memory."""
    return {name: value.to(device) for name, value in tensors.items()}
