"""Engine for chains of linear layers: all nodes in one batched product, norms without per-record gradients.

For one record, the gradient of a linear layer's weight is the outer product g aᵀ of the gradient g at its output and
its input a. So its norm is ‖g‖‖a‖ in L2 and in L1, and the clipped sum is one product of inputs and scaled gradients.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from tacit.tasks.clip import Clip
from tacit.tasks.clipping import vector_norms
from tacit.tasks.gradients.chunks import slices
from tacit.tasks.gradients.objective import ModuleObjective, Objective, Parameters
from tacit.tasks.gradients.terms import outer_norms
from tacit.tasks.models.per_record import ELEMENTWISE, separate_losses
from tacit.tasks.precision import copied, passes

NUMBERS = 1 << 22  # inputs of the widest layer processed at once (measured: fewer need more calls)
_INPUT_NORMS = WeakTensorKeyDictionary()  # cached by batch, as long as the batch exists
NARROW = 16  # number of outputs below which the transposed product is faster (measured: twice)


@dataclass(frozen=True)
class ChainLayer:
    """One layer of the chain; `weight` and `bias` are the names of a linear layer's parameters."""

    layer: nn.Module
    weight: str = ""
    bias: str | None = None


def chain(objective: Objective) -> list[ChainLayer] | None:
    """Return the layers of a chain of Flatten, Linear and elementwise layers; None for any other model."""
    if not isinstance(objective, ModuleObjective):
        return None
    steps = list(_steps(objective.module, ""))
    used = [name for step in steps for name in (step.weight, step.bias) if name]
    # A layer that is used twice has no single outer product, and a frozen one has no columns in the vector.
    if sorted(used) != sorted(objective.layout.names) or not all(
        step.weight or _is_supported(step.layer) for step in steps
    ):
        return None
    return steps


def _steps(module: nn.Module, prefix: str) -> Iterator[ChainLayer]:
    if type(module) is nn.Sequential:
        for name, child in module._modules.items():  # named_children omits the second use of a layer
            assert child is not None
            yield from _steps(child, f"{prefix}{name}.")
    elif type(module) is nn.Linear:
        yield ChainLayer(module, f"{prefix}weight", f"{prefix}bias" if module.bias is not None else None)
    else:
        yield ChainLayer(module)


def _flattens(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)


def _is_supported(layer: nn.Module) -> bool:
    return type(layer) in ELEMENTWISE or _flattens(layer)


def only_linear_layer(steps: list[ChainLayer]) -> nn.Linear | None:
    """Return the linear layer of a chain that contains nothing else except Flatten; None for any other chain."""
    layers = [step.layer for step in steps if not _flattens(step.layer)]
    return layers[0] if len(layers) == 1 and isinstance(layers[0], nn.Linear) else None


def accepts(steps: list[ChainLayer], x: Tensor) -> bool:
    """Return whether the records of x (n, B, …) are flat when they reach the first linear layer."""
    return x.dim() == 3 or _flattens(next(s.layer for s in steps if s.weight or _flattens(s.layer)))


def _forward(steps: list[ChainLayer], p: Parameters, x: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Return outputs (n, B, …), and the inputs and outputs of each linear layer. Gradients stop at these outputs."""
    inputs, outputs = [], []
    for step in steps:
        if step.weight:
            inputs.append(x.detach())
            x = _linear(x, p[step.weight], None if step.bias is None else p[step.bias])
            outputs.append(x if x.requires_grad else x.requires_grad_(torch.is_grad_enabled()))
        else:
            x = x.flatten(2) if _flattens(step.layer) else step.layer(x)
    return x, inputs, outputs


def _linear(x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """Return x wᵀ + bias, for x (n, B, I), w (n, O, I) and bias (n, O)."""
    if w.shape[1] < NARROW:
        return (torch.bmm(w, x.mT) if bias is None else torch.baddbmm(bias.unsqueeze(2), w, x.mT)).mT
    return torch.bmm(x, w.mT) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, w.mT)


def _nodes(steps: list[ChainLayer], batch: int) -> int:
    """Return how many nodes to process at once."""
    widest = max(max(s.layer.in_features, s.layer.out_features) for s in steps if isinstance(s.layer, nn.Linear))
    return NUMBERS // max(1, batch * widest)


def losses(objective: ModuleObjective, steps: list[ChainLayer], params: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the losses (n, B)."""
    n, batch = y.shape[:2]
    result = params.new_empty(n, batch)
    for k in slices(n, _nodes(steps, batch)):
        z, _, _ = _forward(steps, objective.layout.unflatten(params[k]), x[k])
        result[k] = separate_losses(objective.loss, z.flatten(0, 1), y[k].flatten(0, 1)).view_as(result[k])
    return result


def gradient_sum(
    objective: ModuleObjective,
    steps: list[ChainLayer],
    params: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    clip: Clip | None,
    out: Tensor,
    before: Tensor | None = None,
) -> None:
    """Write Σ_b weight_b · factor_b · ∇ℓ_b into out (n, d); `clip` per record or None.

    With `before`, ∇ℓ_b is the gradient at `params` minus that at `before`. The model must then be one linear layer: a
    difference of outer products with the same input is the outer product with the difference of the signals.
    """
    n, batch = weight.shape
    input_norms = _input_norms(x, clip.degree) if clip is not None and _first_linear_on_records(steps) else None
    for k in slices(n, _nodes(steps, batch)):
        block, known = clip and clip.for_nodes(k), None if input_norms is None else input_norms[k]
        inputs, signals = _signals(objective, steps, params[k], x[k], y[k])
        if before is not None:
            _, earlier = _signals(objective, steps, before[k], x[k], y[k])
            signals = tuple(g - old for g, old in zip(signals, earlier, strict=True))
        _clipped_sum(objective, steps, inputs, signals, weight[k], block, out[k], known)


def _signals(
    objective: ModuleObjective, steps: list[ChainLayer], params: Tensor, x: Tensor, y: Tensor
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Return the inputs of the linear layers, and the gradients at their outputs."""
    with torch.enable_grad():
        with passes(objective.precision, params.device):
            z, inputs, outputs = _forward(steps, objective.layout.unflatten(params), x)
        total = separate_losses(objective.loss, copied(z, params).flatten(0, 1), y.flatten(0, 1)).sum()
        signals = torch.autograd.grad(total, outputs)
    return [copied(a, params) for a in inputs], tuple(copied(g, params) for g in signals)


def _clipped_sum(
    objective: ModuleObjective,
    steps: list[ChainLayer],
    inputs: list[Tensor],
    signals: tuple[Tensor, ...],
    weight: Tensor,
    clip: Clip | None,
    out: Tensor,
    input_norms: Tensor | None,
) -> None:
    """Write the weighted sum of the clipped gradients, which are outer products of signals and inputs."""
    linear = [step for step in steps if step.weight]
    bounded = objective.layout.is_bounded
    scaled = weight
    if clip is not None:
        scaled = clip.scaled(weight, _norms(linear, inputs, signals, bounded, clip, input_norms))
    target = objective.layout.unflatten(out)
    for step, a, g in zip(linear, inputs, signals, strict=True):
        target[step.weight].copy_(torch.bmm((g * (scaled if bounded(step.weight) else weight).unsqueeze(-1)).mT, a))
        if step.bias is not None:
            c = scaled if bounded(step.bias) else weight
            target[step.bias].copy_(torch.bmm(c.unsqueeze(1), g).squeeze(1))


def _norms(
    linear: list[ChainLayer],
    inputs: list[Tensor],
    signals: tuple[Tensor, ...],
    bounded: Callable[[str], bool],
    clip: Clip,
    input_norms: Tensor | None,
) -> Tensor:
    """Return the norms (n, B) of each record's bounded gradient.

    `input_norms` are the norms of the first layer's inputs; None: not cached.
    """
    order = clip.degree
    join = torch.add if order == 1 else torch.hypot  # products of norms, not of squares, which could underflow
    total = torch.zeros((), dtype=torch.float64)
    for i, (step, a, g) in enumerate(zip(linear, inputs, signals, strict=True)):
        signal = vector_norms(g, order)
        if bounded(step.weight):
            known = input_norms if i == 0 else None
            total = join(total, outer_norms(vector_norms(a, order) if known is None else known, signal))
        if step.bias is not None and bounded(step.bias):
            total = join(total, signal)
    return total


def _first_linear_on_records(steps: list[ChainLayer]) -> bool:
    """Return whether the inputs of the first linear layer are the records themselves."""
    return all(_flattens(step.layer) for step in steps[: next(i for i, step in enumerate(steps) if step.weight)])


def _input_norms(x: Tensor, order: Literal[1, 2]) -> Tensor:
    """Return the norms (n, B) of the records, cached for batches that repeat."""
    key = order, x._version
    if x not in _INPUT_NORMS:
        _INPUT_NORMS[x] = {}
    known: dict[tuple[int, int], Tensor] = _INPUT_NORMS[x]
    if key not in known:
        known[key] = vector_norms(x.flatten(2), order)
    return known[key]
