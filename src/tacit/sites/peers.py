"""The network as a site has it: one node here, each of the others somewhere else, and the four verbs between them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tacit.errors import TacitError
from tacit.graphs import Graph
from tacit.networks.network import Costs, Network
from tacit.sites.incoming import Tensors
from tacit.sites.journal import Verb
from tacit.sites.payload import Expected
from tacit.sites.post import Post, Returned
from tacit.sites.wire import Kind


def neighbours(graph: Graph, node: int, t: int) -> tuple[list[int], list[int]]:
    """From whom a node hears in round t, and to whom it speaks."""
    sources, targets = graph.edges(t)
    return sources[targets == node].tolist(), targets[sources == node].tolist()


def speaks(graph: Graph, sites: Sequence[str], me: str) -> Callable[[Verb, str], bool]:
    """Whether a site has something to say to `me` in a verb."""
    own, number = copy.deepcopy(graph), {name: i for i, name in enumerate(sites)}  # for another thread

    def answer(verb: Verb, sender: str) -> bool:
        if verb.kind in (Kind.MAX, Kind.MEAN):
            return True
        return number[sender] in neighbours(own, number[me], verb.round)[0]

    return answer


class Peers(Network):
    """The end of a network that hosts the site `post.me` alone.

    `mix` conserves the sum of all values whoever is silent, where `post` tolerates dropout: the weight of what is not
    sent
    stays here, and that of what was missed comes back. `max` and `mean` are said to everyone, and wait for everyone.
    """

    omniscient: ClassVar[bool] = False

    def __init__(
        self, graph: Graph, sites: Sequence[str], post: Post, patience: float, costs: Costs | None = None
    ) -> None:
        self._sites, self._node = list(sites), list(sites).index(post.me)
        super().__init__(graph, np.array([self._node]), costs)
        self._post, self._patience = post, patience
        self._round, self._verbs = 0, Counter[Kind]()

    def begin(self, t: int) -> int:
        t = self._post.begin(t)
        self._round, self._verbs = t, Counter()
        return t

    def _mix(self, t: int, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        matrix, node = self.graph.at(t), self._node
        sources, targets = neighbours(self.graph, node, t)
        own: Tensors = {str(k): value[0] for k, value in enumerate(values)}
        heard, said, returned = self._exchange(Kind.MIX, own, dict.fromkeys(targets, own), sources)
        own = next(iter(said.values()), own)  # after a crash, what was said before it
        kept = matrix[node, node] + sum(matrix[j, node] for j in targets if j not in said)
        parts = {j: (float(matrix[node, j]), tensors) for j, tensors in heard.items()} | {node: (float(kept), own)}
        back = [(float(self.graph.at(r.round)[self._sites.index(r.receiver), node]), r.tensors) for r in returned]
        weighted = [parts[j] for j in sorted(parts)] + back
        return tuple(
            torch.stack([weight * tensors[str(k)] for weight, tensors in weighted]).sum(0, keepdim=True)
            for k in range(len(values))
        )

    def _swap(self, t: int, z: Tensor, only: Tensor | None) -> Tensor:
        rows = {int(j): row for row, j in enumerate(self.edges(t).target) if only is None or bool(only[row])}
        if not rows:  # an exchange of others, which counts here too
            self._verbs[Kind.SWAP] += 1
            return z
        outgoing = {j: {"0": z[row]} for j, row in rows.items()}
        heard, _, _ = self._exchange(Kind.SWAP, {"0": z[0]}, outgoing, list(rows))
        swapped = z.clone()
        for j, row in rows.items():
            swapped[row] = heard[j]["0"]
        return swapped

    def _max(self, s: Tensor) -> Tensor:
        return self._all(Kind.MAX, s).max()

    def _mean(self, x: Tensor) -> Tensor:
        return self._all(Kind.MEAN, x).mean(0)

    def _all(self, kind: Kind, rows: Tensor) -> Tensor:
        """The rows of all nodes, by node id."""
        if self._post.tolerates_dropout:
            raise TacitError(f"{kind.name.lower()} asks every node, and this run goes on without those that are silent")
        others = [j for j in range(self.graph.nodes) if j != self._node]
        own: Tensors = {"0": rows[0]}
        heard, said, _ = self._exchange(kind, own, dict.fromkeys(others, own), others)
        heard[self._node] = next(iter(said.values()), own)  # after a crash, what was said before it
        return torch.stack([heard[j]["0"] for j in range(self.graph.nodes)])

    def _exchange(
        self, kind: Kind, like: Tensors, outgoing: Mapping[int, Tensors], sources: Sequence[int]
    ) -> tuple[dict[int, Tensors], dict[int, Tensors], list[Returned]]:
        """Say and hear once: what was heard of whom, said to whom, and what has come back."""
        verb = Verb(self._round, kind, self._verbs[kind])
        self._verbs[kind] += 1
        said = self._post.say(verb, {self._sites[j]: tensors for j, tensors in outgoing.items()})
        form: Expected = {name: (value.dtype, tuple(value.shape)) for name, value in like.items()}
        expected = {self._sites[j]: form for j in sources}
        heard, returned = self._post.hear(verb, expected, self._patience)
        number = self._sites.index
        return {number(j): x for j, x in heard.items()}, {number(j): x for j, x in said.items()}, returned
