"""Two neighbouring data sets as nodes of one simulation: many small networks side by side, half of them in each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor, nn

from tacit.algorithms import Algorithm
from tacit.algorithms.over_dpps import OverDPPS
from tacit.graphs import Graph
from tacit.networks import Simulated
from tacit.privacy.noise import Noise
from tacit.runs import Batch
from tacit.tasks import Dataset, Model, Task
from tacit.tasks.gradients import Engine

NOTHING, _CANARY, _OPPOSITE, _OTHER = range(4)
FAR = 1e6  # far beyond any clip bound: clipped, a canary's gradient has the length of the bound
_SMALL = 1e-3  # far within it
_SPREAD, _ONE = (0.8, 0.6, 0.0), (1.0, 0.0, 0.0)


class Copies(Graph):
    """`times` copies of a graph side by side, with no link between them."""

    def __init__(self, graph: Graph, times: int) -> None:
        super().__init__(graph.nodes * times, graph.period, f"{times} × {graph.name}")
        self._graph, self._times = graph, times

    def at(self, t: int) -> sparse.csr_array:
        return sparse.csr_array(sparse.kron(sparse.eye_array(self._times), self._graph.at(t), "csr"))

    def contractions(self, length: int) -> npt.NDArray[np.float64]:
        """Of each copy by itself: nodes of two copies never meet."""
        return self._graph.contractions(length)

    def certified_constants(self) -> tuple[float, float]:
        return self._graph.certified_constants()


class Eavesdropper(Simulated):
    """A network whose every message is written down, as one who listens on all links hears it."""

    def __init__(self, graph: Graph, trials: int) -> None:
        super().__init__(graph)
        self._trials, self._heard = trials, [torch.empty(trials, 0, dtype=torch.float64)]
        self._listening = True

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        self._hear(*values)
        return super().mix(t, *values, row_bytes=row_bytes)

    def swap(self, t: int, z: Tensor, only: Tensor | None = None) -> Tensor:
        self._hear(z if only is None else torch.where(only[:, None], z, 0.0))
        return super().swap(t, z, only)

    def mean(self, x: Tensor) -> Tensor:
        """Of each little network by itself, which a mean over all nodes would mix with the others."""
        self._hear(x)
        each = x.view(self._trials, -1, x.shape[-1])
        return each.mean(1, keepdim=True).expand_as(each).reshape(x.shape)

    def max(self, s: Tensor) -> Tensor:
        """Of each by itself, likewise, (n,)."""
        self._hear(s)
        each = s.view(self._trials, -1)
        return each.amax(1, keepdim=True).expand_as(each).flatten()

    def diameter(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Of each by itself, likewise, (n,)."""
        each = x.view(self._trials, -1, x.shape[-1]).double()
        apart = torch.cdist(each, each, p=1).amax((1, 2))
        return apart.repeat_interleave(each.shape[1])

    @contextmanager
    def unmetered(self) -> Iterator[None]:
        """Measurements are sent nowhere, so nobody hears them."""
        before, self._listening = self._listening, False
        try:
            with super().unmetered():
                yield
        finally:
            self._listening = before

    def transcript(self) -> npt.NDArray[np.float64]:
        """All that was heard of each trial, (trials, numbers)."""
        return torch.cat(self._heard, 1).numpy()

    def _hear(self, *values: Tensor) -> None:
        if self._listening:
            self._heard += [value.detach().double().reshape(self._trials, -1).clone() for value in values]


def worlds(
    trials: int,
    nodes: int,
    size: int,
    draws: Batch,
    method: Algorithm[Any],
    noise: Noise,
    others: float = 0.0,
    engine: Engine = "auto",
) -> tuple[Task, npt.NDArray[np.bool_]]:
    """The task of all trials, and in which of them the record is there.

    The loss is ⟨w, x⟩: a record's gradient is x, whatever the model is. All records are `others` but one at the first
    node of each trial, which points as far as the clip allows, in unlike parts along some coordinates and not at all
    along another: there it is, or it is not (`add-remove`; 0 in its place is the same), or its opposite is
    (`replace-one`). Where the unit is a node, all its records are such. Where noise follows the data, next to nothing
    is in place of the opposite: then there is hardly any noise. A method that leaves parameters at their node has one
    of those beside the ones that it shares; the others' gradients come from the engine for linear layers.
    """
    there = np.arange(trials) % 2 == 1
    along = torch.tensor(_ONE if isinstance(method, OverDPPS) else _SPREAD)  # the worst for a bound in L1, and in L2
    follows = isinstance(method, OverDPPS) and method.sensitivity in ("real", "estimated")
    nothing = _SMALL if follows else 0.0  # to nothing at all no noise could be scaled
    x = torch.tensor([nothing, FAR, -FAR, others])[:, None] * along
    if method.share is None:
        model = Model(nn.Linear(len(along), 1, bias=False), lambda output, y: output[:, 0], engine=engine)
        model._initial.zero_()
    else:
        x = torch.cat([x, torch.zeros(4, 1)], 1)
        zero = torch.zeros(x.shape[1], dtype=torch.float64)
        model = Model.from_loss(lambda w, x, y: (w * x).sum(), zero, shared=len(along), bounds=method.bounds)
    y = torch.tensor([0, 1, 0, 1])  # which nobody looks at
    data = Dataset("canaries", x, y, x, y, 2)
    made = partial(
        Task,
        model,
        data,
        batch=draws.size,
        sampling=draws.sampling,
        relation=draws.relation,
        epochs=draws.epochs,
        noise=noise,
        dtype=torch.float64,
    )
    relation = method.privacy.sampling(made([np.zeros(size, np.int64)])).relation
    other = _OPPOSITE if relation == "replace-one" and not follows else NOTHING
    held = np.full((trials, nodes, size), _OTHER)
    held[:, 0, : size if method.privacy.unit == "node" else 1] = np.where(there, _CANARY, other)[:, None]
    shards = list(held.reshape(trials * nodes, size))
    return made(shards), there
