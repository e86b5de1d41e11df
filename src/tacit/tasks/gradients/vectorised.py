"""Engine for any model: per-record gradients by torch.func, in blocks that fit in memory."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.func import grad

from tacit.tasks.clip import Clip
from tacit.tasks.clipping import vector_norms
from tacit.tasks.gradients.chunks import blocks
from tacit.tasks.gradients.objective import Objective
from tacit.tasks.models.synthetic import RecordForm, try_on_random_batches

BYTES = 32 << 20  # of per-record gradients in memory at once (measured: more and less are slower)


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
    """Write Σ_b weight_b · factor_b · ∇ℓ_b into out (n, d); `clip` per record or None.

    With `before`, ∇ℓ_b is the gradient at `params` minus that at `before`. `keys` (n, B) determine dropout masks.
    """
    layout, given = objective.layout, (x, y) if keys is None else (x, y, keys)
    placed = weight.to(params.device)
    per_record = torch.vmap(torch.vmap(grad(objective.record), in_dims=(None, *[0] * len(given))))
    records = BYTES // (layout.d * params.element_size())
    out.zero_()
    for k, b in blocks(weight, records):
        records_of_block = [values[k, b] for values in given]
        with _no_speed_warnings():
            gradients = per_record(layout.unflatten(params[k]), *records_of_block)
        flat = {name: gradients[name].flatten(2) for name in layout.names}
        if before is not None:
            with _no_speed_warnings():
                earlier = per_record(layout.unflatten(before[k]), *records_of_block)
            flat = {name: g - earlier[name].flatten(2) for name, g in flat.items()}
        scaled = placed[k, b]
        if clip is not None:
            bounded = [g for name, g in flat.items() if layout.is_bounded(name)]
            norms = torch.stack([vector_norms(g, clip.degree) for g in bounded], -1)
            scaled = clip.for_nodes(k).scaled(scaled, vector_norms(norms, clip.degree))
        for name, g in flat.items():
            c = scaled if layout.is_bounded(name) else placed[k, b]
            out[k, layout.columns[name]] += torch.bmm(c.unsqueeze(1), g).squeeze(1)


@contextmanager
def _no_speed_warnings() -> Iterator[None]:
    """Silence torch where it processes the records of an operation one by one, which gives the same values."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="There is a performance drop")
        yield


def check(objective: Objective, form: RecordForm, dtype: torch.dtype) -> None:
    """Raise if torch.func cannot differentiate the loss of random records of this form."""
    params = torch.zeros(1, objective.layout.d, dtype=dtype, device=form.device)

    def run(x: Tensor, y: Tensor) -> None:
        gradient_sum(objective, params, x[None], y[None], params.new_ones(1, 2), None, torch.empty_like(params))

    try_on_random_batches(
        run, form, 2, "torch.func cannot differentiate the model separately for each record; use tensor operations only"
    )
