"""Engine for chains of convolutions, pooling, activations and linear layers: everything is written out, without hooks.

Convolutions are products of patches with the kernels. The patches, and the gradients at the outputs, also give each
record's gradient: explicitly where it is small, otherwise as in `ghost`. A tile of few records stays in cache.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tacit.tasks.clip import Clip
from tacit.tasks.clipping import vector_norms
from tacit.tasks.gradients.chunks import blocks
from tacit.tasks.gradients.image_layers import IMAGE_LAYERS, Product, flattens, forward, is_supported
from tacit.tasks.gradients.objective import ModuleObjective, Objective
from tacit.tasks.gradients.terms import Degree, DirectTerm, GradientTerm, outer
from tacit.tasks.models.per_record import separate_losses
from tacit.tasks.precision import copied, passes

RECORDS = 64  # processed at once (measured)
BYTES = 64 << 20  # of per-record gradients of convolutions in memory at once


@dataclass(frozen=True)
class Step:
    """One layer of the chain; `names` are those of its parameters, by their name in the layer."""

    layer: nn.Module
    names: dict[str, str]


Chain = list[Step]


class Part(NamedTuple):
    """The gradients of one parameter. `order` maps its values (n, …) to a view in the order of the term."""

    name: str
    term: GradientTerm
    order: Callable[[Tensor], Tensor]


def chain(objective: Objective) -> Chain | None:
    """Return the layers of a chain with convolutions, then Flatten, then linear layers; None for any other model."""
    if not isinstance(objective, ModuleObjective):
        return None
    steps = list(_steps(objective.module, ""))
    flat = next((i for i, step in enumerate(steps) if flattens(step.layer)), 0)
    kinds = [type(step.layer) for step in steps]
    in_order = nn.Linear not in kinds[:flat] and IMAGE_LAYERS.isdisjoint(kinds[flat:])
    # A layer that is used twice has two gradients to add, and a frozen one has no columns in the vector.
    used = sorted(name for step in steps for name in step.names.values())
    if nn.Conv2d not in kinds or not in_order or used != sorted(objective.layout.names):
        return None
    return steps if all(is_supported(step.layer) for step in steps) else None


def _steps(module: nn.Module, prefix: str) -> Iterator[Step]:
    if type(module) is nn.Sequential:
        for name, child in module._modules.items():  # named_children omits the second use of a layer
            assert child is not None
            yield from _steps(child, f"{prefix}{name}.")
    else:
        yield Step(module, {name: f"{prefix}{name}" for name, _ in module.named_parameters(recurse=False)})


def gradient_sum(
    objective: ModuleObjective,
    steps: Chain,
    params: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    clip: Clip | None,
    out: Tensor,
    keys: Tensor | None = None,
) -> None:
    """Write Σ_b weight_b · factor_b · ∇ℓ_b into out (n, d), for images x (n, B, C, H, W)."""
    layout, placed = objective.layout, weight.to(params.device)
    out.zero_()
    for k, b in blocks(weight, _records(steps, params)):
        masks = None if keys is None else keys[k, b]
        degree = None if clip is None else clip.degree
        parts = _parts(objective, steps, params[k], x[k, b], y[k, b], degree, masks)
        scaled = placed[k, b]
        if clip is not None:
            norms = [part.term.norms(clip.degree) for part in parts if layout.is_bounded(part.name)]
            joined = vector_norms(torch.stack(norms, -1), clip.degree)
            scaled = clip.for_nodes(k).scaled(scaled, joined.view_as(scaled))
        target = layout.unflatten(out[k])
        for name, term, order in parts:
            place = order(target[name])
            place += term.sum(scaled if layout.is_bounded(name) else placed[k, b]).view_as(place)


def _records(steps: Chain, params: Tensor) -> int:
    """Return how many records to process at once."""
    largest = max(step.layer.weight.numel() for step in steps if isinstance(step.layer, nn.Conv2d))
    return max(1, min(RECORDS, BYTES // (largest * params.element_size())))


def _parts(
    objective: ModuleObjective,
    steps: Chain,
    params: Tensor,
    x: Tensor,
    y: Tensor,
    degree: Degree | None,
    keys: Tensor | None,
) -> list[Part]:
    """Return the gradients of all parameters for the records x (n, B, …); `degree` is that of the norms, if needed."""
    p = objective.layout.unflatten(params)
    h, backs = x.flatten(0, 1), []
    masks = (
        nullcontext() if objective.stream is None else objective.stream.using(None if keys is None else keys.flatten())
    )
    with masks, passes(objective.precision, x.device):
        for step in steps:
            h, back = forward(step.layer, {key: p[name] for key, name in step.names.items()}, h)
            backs.append((back, h.dtype))
    g = _signals(objective, copied(h, params), y.flatten(0, 1))
    first = next(i for i, step in enumerate(steps) if step.names)
    products: list[tuple[Step, Product]] = []
    with passes(objective.precision, x.device):
        for i in range(len(steps) - 1, first - 1, -1):
            back, dtype = backs.pop()
            product, g = back(g.to(dtype), i > first)
            if product is not None:
                products.append((steps[i], product))
    return [part for step, product in products for part in _parts_of(step, product.copied(params), degree)]


def _parts_of(step: Step, product: Product, degree: Degree | None) -> Iterator[Part]:
    """Yield the gradients of one layer's parameters, of a kernel explicitly even if no norms are needed."""
    a, g, order = product
    term = outer(a, g, degree or 2)
    yield Part(step.names["weight"], term, order)
    if "bias" in step.names:
        yield Part(step.names["bias"], DirectTerm(g.sum(1)), lambda values: values)


def _signals(objective: ModuleObjective, outputs: Tensor, y: Tensor) -> Tensor:
    """Return the gradients of the losses at the outputs (N, …)."""
    with torch.enable_grad():
        outputs = outputs.detach().requires_grad_()
        total = separate_losses(objective.loss, outputs, y).sum()
    return torch.autograd.grad(total, outputs)[0]
