"""Engine for models that torch.vmap does not support: one backward pass per record, which is slow.

Privacy:
    Every record gets a copy of the model of its own. What a forward pass stores in the model, in attributes, buffers or
    lists, is lost afterwards, so that no record influences the gradient of another one.
"""

import copy

import torch
from torch import Tensor

from tacit.tasks.clip import Clip
from tacit.tasks.clipping import vector_norms
from tacit.tasks.gradients.objective import Objective
from tacit.tasks.models.synthetic import RecordForm, try_on_random_batches


def gradient_sum(
    objective: Objective,
    params: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    clip: Clip | None,
    out: Tensor,
    before: Tensor | None = None,
    keys: Tensor | None = None,
) -> None:
    """Write Σ_b weight_b · factor_b · ∇ℓ_b into out (n, d); see `vectorised.gradient_sum`."""
    bounded, given = objective.layout.bounded, (x, y) if keys is None else (x, y, keys)
    placed = weight.to(params.device)
    out.zero_()
    for i in range(len(params)):
        for b in weight[i].nonzero()[:, 0].tolist():
            record = [values[i, b] for values in given]
            g = _gradient(objective, params[i], record)
            if before is not None:
                g = g - _gradient(objective, before[i], record)
            scaled = placed[i, b].view(1, 1)
            if clip is not None:
                norm = vector_norms(g[None, None, :bounded], clip.degree)
                scaled = clip.for_nodes(slice(i, i + 1)).scaled(scaled, norm)
            out[i, :bounded] += scaled[0, 0] * g[:bounded]
            out[i, bounded:] += placed[i, b] * g[bounded:]


def _gradient(objective: Objective, params: Tensor, record: list[Tensor]) -> Tensor:
    """Return the gradient (d,) of one record's loss, with a copy of the model for this record alone."""
    objective = copy.deepcopy(objective)
    p = {name: value.detach().requires_grad_() for name, value in objective.layout.unflatten(params).items()}
    with torch.enable_grad():
        loss = objective.record(p, *record)
    if not loss.requires_grad:  # no parameter was used
        return torch.zeros_like(params)
    gradients = torch.autograd.grad(loss, list(p.values()), allow_unused=True, materialize_grads=True)
    return objective.layout.flatten(dict(zip(p, gradients, strict=True)))


def check(objective: Objective, form: RecordForm, dtype: torch.dtype) -> None:
    """Raise if the loss of random records of this form has no gradient."""
    params = torch.zeros(1, objective.layout.d, dtype=dtype, device=form.device)

    def run(x: Tensor, y: Tensor) -> None:
        gradient_sum(objective, params, x[None], y[None], params.new_ones(1, 2), None, torch.empty_like(params))

    try_on_random_batches(run, form, 2, "the model cannot be differentiated")
