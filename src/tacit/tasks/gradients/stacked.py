"""Engine for chains of linear layers: all nodes in one batched product, norms without per-record gradients.

For one record, the gradient of a linear layer's weight is the outer product g aᵀ of the gradient g at its output and
its input a. So its norm is ‖g‖‖a‖ in L2 and in L1, and the clipped sum is one product of inputs and scaled gradients.

Cells are several sets of parameters (S, n, d) on the same batches. The first layer multiplies each record by the
weights of all cells at once, so that the records are read once. Work is split into tiles of a few nodes, or of some
records of one node, which stay in the cache from the forward pass to the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from tacit.device import as_double
from tacit.tasks.clip import Clip
from tacit.tasks.clipping import vector_norms
from tacit.tasks.gradients import closed_forms
from tacit.tasks.gradients.chain import (
    ChainLayer,
    accepts,
    chain,
    flattens,
    only_linear_layer,
    split_at_first_linear,
    widest,
)
from tacit.tasks.gradients.chunks import slices
from tacit.tasks.gradients.input_norms import record_norms
from tacit.tasks.gradients.layer_sum import LayerSum
from tacit.tasks.gradients.objective import ModuleObjective, Objective, Parameters
from tacit.tasks.gradients.terms import outer_norms
from tacit.tasks.precision import copied, passes

NUMBERS = 1 << 19  # inputs of the widest layer in a tile (measured: fewer need more calls, more leave the cache)

Pass = list[tuple[ChainLayer, Tensor, Tensor]]
"""The layers of a chain from the first linear one, with their inputs and outputs."""
Signals = list[tuple[ChainLayer, Tensor, Tensor]]
"""The linear layers, the last one first, with their inputs and the gradients (n · S, B, O) at their outputs."""


class Chain:
    """The layers of one model, with the operations of the engine. Node i and cell s are row i · S + s of (n · S, …)."""

    def __init__(self, objective: ModuleObjective, steps: list[ChainLayer]) -> None:
        self._objective, self._all, self._width = objective, steps, widest(steps)
        self._before, self._steps = split_at_first_linear(steps)
        self._reads_records = all(flattens(step.layer) for step in self._before)

    @classmethod
    def of(cls, objective: Objective) -> Chain | None:
        """Return the chain of a model; None if it is none."""
        steps = chain(objective)
        return None if steps is None or not isinstance(objective, ModuleObjective) else cls(objective, steps)

    @property
    def only_linear_layer(self) -> nn.Linear | None:
        """The layer of a chain that contains nothing else except Flatten; None for any other chain."""
        return only_linear_layer(self._all)

    def accepts(self, x: Tensor) -> bool:
        """Return whether the records of x (n, B, …) are flat when they reach the first linear layer."""
        return accepts(self._all, x)

    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the losses (n, B)."""
        n, batch = y.shape[:2]
        result = params.new_empty(n, batch)
        for k in slices(n, self._nodes(batch)):
            p = self._objective.layout.unflatten(params[k])
            z = self._forward(p, self._first_weight(p, x[k]), self._inputs(x[k]))[-1][2]
            result[k] = closed_forms.losses(self._objective.loss, z, y[k])
        return result

    def gradient_sums(
        self,
        params: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip | None,
        out: Tensor,
        before: Tensor | None = None,
    ) -> None:
        """Write Σ_b weight_b · factor_b · ∇ℓ_b into out (S, n, d), for parameters (S, n, d).

        `clip` is per record, with one bound or one per row (n · S,). With `before` (S, n, d), ∇ℓ_b is the gradient at
        `params` minus that at `before`. The model must then be one linear layer: a difference of outer products with
        the same input is the outer product with the difference of the signals.
        """
        cells, (n, batch), weight = len(params), weight.shape, weight.to(params.device)
        norms = record_norms(x, clip.degree) if clip is not None and self._reads_records else None
        for k in slices(n, self._nodes(batch)):
            points = [_rows(part[:, k]) for part in (params, before) if part is not None]
            bound = clip and clip.for_nodes(slice(k.start * cells, k.stop * cells))
            self._tile_sums(points, x[k], y[k], weight[k], bound, out[:, k], None if norms is None else norms[k])

    def _tile_sums(
        self,
        points: list[Tensor],
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip | None,
        out: Tensor,
        norms: Tensor | None,
    ) -> None:
        """Write the sums of some nodes; `points` are the parameters (n · S, d) and perhaps earlier ones."""
        cells, layout = len(out), self._objective.layout
        parameters = [layout.unflatten(point) for point in points]
        first = [self._first_weight(p, x) for p in parameters]
        sums = {step.weight: LayerSum(step, layout, out) for step in self._steps if step.weight}
        batch = weight.shape[1]
        for b in slices(batch, batch if len(x) > 1 else NUMBERS // self._width):
            a, targets = self._inputs(x[:, b]), _repeated(y[:, b], cells)
            signals = self._signals(parameters[0], first[0], a, targets)
            if len(points) > 1:
                ((_, _, earlier),) = self._signals(parameters[1], first[1], a, targets)
                signals = [(step, a, g - earlier) for step, a, g in signals]
            used = _repeated(weight[:, b], cells)
            known = None if norms is None else _repeated(norms[:, b], cells)
            scaled = used if clip is None else clip.scaled(used, _norms(signals, layout.is_bounded, clip, known))
            for step, a, g in signals:
                sums[step.weight].add(a, g, scaled, used)
        for part in sums.values():
            part.write()

    def _nodes(self, batch: int) -> int:
        """Return how many nodes are in a tile."""
        return NUMBERS // max(1, batch * self._width)

    def _inputs(self, x: Tensor) -> Tensor:
        """Return the inputs (n, B, I) of the first linear layer."""
        for step in self._before:
            x = x.flatten(2) if flattens(step.layer) else step.layer(x)
        return x

    def _first_weight(self, p: Parameters, x: Tensor) -> Tensor:
        """Return the first layer's weights of all cells (n, S · O, I)."""
        w = p[self._steps[0].weight]
        return w.reshape(len(x), -1, w.shape[2])

    def _forward(self, p: Parameters, first: Tensor, x: Tensor) -> Pass:
        """Return inputs and outputs of every layer, for inputs x (n, B, I); those of later ones are (n · S, B, O)."""
        passed: Pass = []
        h = x
        for step in self._steps:
            if step.weight:
                w = first if h is x else p[step.weight]
                bias = None if step.bias is None else p[step.bias].reshape(len(h), -1, 1)
                # With few outputs, weights times records was measured to be 2 to 4 times as fast as the transpose.
                z = torch.bmm(w, h.mT) if bias is None else torch.baddbmm(bias, w, h.mT)
                z = _records_first(z, p[step.weight])
            else:
                z = h if flattens(step.layer) else step.layer(h)
            passed.append((step, h, z))
            h = z
        return passed

    def _signals(self, p: Parameters, first: Tensor, x: Tensor, y: Tensor) -> Signals:
        """Return the inputs of the linear layers, and the gradients at their outputs."""
        precision, found = self._objective.precision, []
        with passes(precision, x.device):
            passed = self._forward(p, first, x)
        g = closed_forms.output_gradients(self._objective.loss, copied(passed[-1][2], first), y)
        with passes(precision, x.device):
            for i, (step, a, z) in reversed(list(enumerate(passed))):
                if step.weight:
                    found.append((step, copied(a, first), copied(g, first)))
                    g = torch.bmm(g, p[step.weight]) if i else g
                elif not flattens(step.layer):
                    g = closed_forms.input_gradients(step.layer, a, z, copied(g, z))
        return found


def _rows(params: Tensor) -> Tensor:
    """Return parameters (S, n, d) as (n · S, d)."""
    return params.transpose(0, 1).reshape(-1, params.shape[2])


def _repeated(values: Tensor, cells: int) -> Tensor:
    """Return values (n, …) as (n · S, …), equal for all cells of a node."""
    return values if cells == 1 else values.repeat_interleave(cells, 0)


def _records_first(z: Tensor, w: Tensor) -> Tensor:
    """Return outputs (n, S · O, B) of a layer as (n · S, B, O), for its weights w (n · S, O, I)."""
    return z.mT.contiguous() if len(z) == len(w) else z.reshape(len(w), w.shape[1], -1).mT


def _norms(signals: Signals, bounded: Callable[[str], bool], clip: Clip, first: Tensor | None) -> Tensor:
    """Return the norms (n · S, B) of each record's bounded gradient.

    `first` are the norms of the first layer's inputs, if they are the records themselves.
    """
    order = clip.degree
    join = torch.add if order == 1 else torch.hypot  # products of norms, not of squares, which could underflow
    total: Tensor | None = None
    for i, (step, a, g) in enumerate(signals):
        parts, signal = [], _vector_norms(g, order)
        if bounded(step.weight):
            known = first if i == len(signals) - 1 and first is not None else None
            inputs = _repeated(_vector_norms(a, order), len(g) // len(a)) if known is None else known
            parts.append(outer_norms(inputs, signal))
        if step.bias is not None and bounded(step.bias):
            parts.append(signal)
        for part in parts:
            total = part if total is None else join(total, part)
    assert total is not None  # at least one parameter is shared
    return total


def _vector_norms(g: Tensor, order: Literal[1, 2]) -> Tensor:
    """Return `vector_norms`; where the last axis is not contiguous, with a sum of squares in double precision."""
    if order == 1 or g.dtype != torch.float32 or g.stride(-1) == 1:
        return vector_norms(g, order)
    return as_double(g).square_().sum(-1).sqrt_()  # squares of single-precision numbers neither overflow nor underflow
