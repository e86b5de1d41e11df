"""Engine for sums without clipping: one backward pass per batch, no per-record gradients."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tacit.tasks.gradients.chunks import SMALL, blocks, slices, width
from tacit.tasks.gradients.objective import Objective

RECORDS = 512  # processed at once
NUMBERS = 1 << 18  # if inputs are small, more records are processed at once, up to this many numbers


def gradient_sum(
    objective: Objective,
    params: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    out: Tensor,
    keys: Tensor | None = None,
    *,
    vmap: bool = True,
) -> None:
    """Write Σ_b weight_b ∇ℓ_b into out (n, d). `vmap` is whether the model supports torch.vmap over the nodes."""
    out.zero_()
    given = (x, y) if keys is None else (x, y, keys)
    together = vmap and is_small(objective, params, weight)
    (_together if together else _one_by_one)(objective, params, given, weight, out)


def is_small(objective: Objective, params: Tensor, weight: Tensor) -> bool:
    """Return whether it is faster to process several nodes together."""
    return len(params) > 1 and objective.layout.d * weight.shape[1] <= SMALL


def _together(objective: Objective, params: Tensor, given: tuple[Tensor, ...], weight: Tensor, out: Tensor) -> None:
    losses = torch.vmap(objective.losses)

    def gradient(params: Tensor, weight: Tensor, *batch: Tensor) -> Tensor:
        return _gradient(objective, losses, params, batch, weight)

    placed = weight.to(params.device)
    for k, b in blocks(weight, max(RECORDS, NUMBERS // max(1, given[0][0, 0].numel()))):
        parts = params[k], placed[k, b], *(values[k, b] for values in given)
        out[k] += objective.repeat("sum", gradient, *parts)


def _one_by_one(objective: Objective, params: Tensor, given: tuple[Tensor, ...], weight: Tensor, out: Tensor) -> None:
    placed = weight.to(params.device)
    for i in range(len(params)):
        for b in slices(width(weight[i : i + 1]), RECORDS):
            batch = [values[i, b] for values in given]
            out[i] += _gradient(objective, objective.losses, params[i], batch, placed[i, b])


def _gradient(
    objective: Objective, losses: Callable[..., Tensor], params: Tensor, batch: Sequence[Tensor], weight: Tensor
) -> Tensor:
    """Return each node's gradient of the sum of all losses. A loss depends on its own node's parameters only."""
    # Separate leaves, not views of one vector: the gradient of each view would be a full vector.
    p = {name: value.detach().requires_grad_() for name, value in objective.layout.unflatten(params).items()}
    with torch.enable_grad():
        total = (weight * losses(p, *batch)).sum()
    gradients = torch.autograd.grad(total, list(p.values()), allow_unused=True, materialize_grads=True)
    return objective.layout.flatten(dict(zip(p, gradients, strict=True)))


def losses(objective: Objective, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return the losses (n, B)."""
    result = params.new_empty(y.shape[:2])
    for i in range(len(params)):
        p = objective.layout.unflatten(params[i])
        for b in slices(y.shape[1], RECORDS):
            result[i, b] = objective.losses(p, x[i, b], y[i, b])
    return result
