"""The rounds of an algorithm with its options: several mixings, momentum, closing mixings and averages of models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tacit.algorithms.algorithm import Algorithm
from tacit.algorithms.mixing_options import MixingOptions
from tacit.errors import TacitError
from tacit.graphs import Graph, Repeated
from tacit.networks import Network, NetworkView
from tacit.tasks import Task, join

S = TypeVar("S")


class MixingNetwork(NetworkView):
    """The network of one round: every `mix` of the algorithm mixes several times, with momentum.

    With momentum β, the parameters x ← W(x + s) of a method whose step is s = −lr g become

        u = βv + s,   v ← W u,   x ← W(x + (1 − β) u)

    so v is −lr times the velocity of the gradients. Both are in one message, with all other values of `mix`. Under
    push-sum v is a numerator, as x is.

    Args:
        network: The network of the run.
        t: The round.
        options: How often nodes mix, and β.
        graph: The graph of the rounds as the algorithm sees it.
        x: The parameters before the round, if there is momentum.
        velocity: v before the round, if there is momentum; afterwards, v after it.
    """

    def __init__(
        self, network: Network, t: int, options: MixingOptions, graph: Graph, x: Tensor, velocity: Tensor
    ) -> None:
        super().__init__(network, graph)
        self._t, self._options, self._x, self.velocity = t, options, x, velocity
        self._sequence = 0

    def mix(self, t: int, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        if self._options.momentum:
            values = self._with_momentum(*values)
        for k in range(self._options.mixings):
            values = self.mix_once(*values, row_bytes=row_bytes if k == 0 else None)
        if self._options.momentum:
            *values, self.velocity = values  # type: ignore[assignment]
        return tuple(values)

    def mix_once(self, *values: Tensor, row_bytes: int | None = None) -> tuple[Tensor, ...]:
        """Mix once, at the next time of the graph."""
        time = self._options.graph_time(self._t, self._sequence)
        self._sequence += 1
        return self._network.mix(time, *values, row_bytes=row_bytes)

    def _with_momentum(self, moved: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        if self._sequence or moved.shape != self._x.shape:
            raise TacitError("momentum needs a method that mixes once per round, its parameters first")
        beta = self._options.momentum
        update = (moved - self._x).add_(self.velocity, alpha=beta)
        return self._x.add(update, alpha=1 - beta), *others, update


@dataclass(frozen=True)
class OptionState(Generic[S]):
    """The state of an algorithm with momentum or averages.

    Attributes:
        inner: The state of the algorithm itself.
        velocity: v (n, d_s) of the momentum; (n, 0) without.
        average: The average (n, d) of each node's models; (n, 0) without.
        weight: (n,) the sum of the weights of the models in `average`, relative to the last one.
    """

    inner: S
    velocity: Tensor
    average: Tensor
    weight: Tensor


def inner_state(state: S | OptionState[S]) -> S:
    """Return the state of the algorithm itself."""
    return state.inner if isinstance(state, OptionState) else state


class Stepper(Generic[S]):
    """Starts and advances an algorithm with the options in `Algorithm.mixing`.

    Without options, the states and rounds are those of the algorithm itself.

    Formal guarantee: messages are computed from what the algorithm gives to `Network.mix`, and from the `mixed` tensors
    of its state or its shared models. These are functions of released values and public numbers. Averages are functions
    of models. So all of this is post-processing: the releases and their ε are those of the algorithm without options.

    Args:
        algorithm: The algorithm.

    Raises:
        TacitError: The algorithm does not accept one of its options.
    """

    def __init__(self, algorithm: Algorithm[S]) -> None:
        algorithm.check_options()
        self.algorithm, self.options = algorithm, algorithm.mixing
        self._averages = self.options.averaging != "none"
        self._seen: tuple[Graph, Graph] | None = None

    def start(self, task: Task, graph: Graph) -> S | OptionState[S]:
        """Return the state before round 0."""
        inner = self.algorithm.start(task, self._graph(graph))
        if not self._averages and not self.options.momentum:
            return inner
        models = self.algorithm.models(inner)
        none = models.new_zeros(len(models), 0)
        velocity = torch.zeros_like(self._parameters(inner)) if self.options.momentum else none
        return OptionState(inner, velocity, models if self._averages else none, models.new_zeros(len(models)))

    def step(
        self, t: int, state: S | OptionState[S], task: Task, network: Network, *, last: bool
    ) -> S | OptionState[S]:
        """Return the state after round t. The closing mixings belong to the `last` round of the run."""
        inner = inner_state(state)
        velocity = state.velocity if isinstance(state, OptionState) else torch.empty(0)
        x = self._parameters(inner) if self.options.momentum else velocity
        view = MixingNetwork(network, t, self.options, self._graph(network.graph), x, velocity)
        inner = self.algorithm.round(t, inner, task, network if self.options.keeps_rounds else view)
        if isinstance(state, OptionState):
            state = self._averaged(t, replace(state, inner=inner, velocity=view.velocity))
        else:
            state = inner
        return self._closed(state, task, view) if last and self.options.closing_rounds else state

    def models(self, state: S | OptionState[S]) -> Tensor:
        """Return the model of each hosted node (n, d) that is evaluated and saved: its last model, or the average."""
        if self._averages and isinstance(state, OptionState):
            return state.average
        return self.algorithm.models(inner_state(state))

    def _averaged(self, t: int, state: OptionState[S]) -> OptionState[S]:
        """Add the models of round t to the averages. Before the first round of "polyak", they are the models."""
        if not self._averages:
            return state
        models, polyak = self.algorithm.models(state.inner), self.options.averaging == "polyak"
        if polyak and t < int(self.options.averaging_start * self.algorithm.rounds):
            return replace(state, average=models)
        weight = (1.0 if polyak else self.options.averaging_decay) * state.weight + 1
        return replace(state, average=state.average + (models - state.average) / weight[:, None], weight=weight)

    def _closed(self, state: S | OptionState[S], task: Task, view: MixingNetwork) -> S | OptionState[S]:
        """Mix what `models` returns, without gradients. Averages are mixed by push-sum from weight 1."""
        mixings = range(self.options.closing_rounds)
        if isinstance(state, OptionState) and self._averages:
            shared, local = task.split(state.average)
            weight = shared.new_ones(len(shared))
            for _ in mixings:
                shared, weight = view.mix_once(shared, weight)
            return replace(state, average=join(shared / weight[:, None], local))
        inner = inner_state(state)
        for _ in mixings:
            inner = self.algorithm.mix_models(inner, view.mix_once)
        return replace(state, inner=inner) if isinstance(state, OptionState) else inner

    def _parameters(self, inner: S) -> Tensor:
        """The parameters that nodes mix."""
        x: Tensor = getattr(inner, self.algorithm.mixed[0])
        return x

    def _graph(self, graph: Graph) -> Graph:
        """The graph of whole rounds."""
        if self.options.mixings == 1:
            return graph
        if self._seen is None or self._seen[0] is not graph:
            self._seen = graph, Repeated(graph, self.options.mixings)
        return self._seen[1]
