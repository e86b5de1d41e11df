"""Engine for large models: per-record norms from the inputs and output gradients of each layer, node by node.

One forward and one backward pass give each layer's input and the gradient at its output. Norms and clipped sums are
computed from these (ghost norms, book-keeping). Per-record gradients are computed only where that is cheaper.
"""

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tacit.tasks.clip import Clip
from tacit.tasks.clipping import vector_norms
from tacit.tasks.gradients import summed
from tacit.tasks.gradients.chunks import slices, width
from tacit.tasks.gradients.layers import Calls, Rule, rule
from tacit.tasks.gradients.objective import ModuleObjective, Objective, Parameters
from tacit.tasks.gradients.terms import GradientTerm
from tacit.tasks.models.synthetic import RecordForm
from tacit.tasks.precision import copied

LARGE = 1_000_000  # parameters × batch from which this engine is the fastest (measured)
BYTES = 32 << 20  # of per-record gradients in memory at once (measured: more and less are slower)


class UnsupportedModel(Exception):
    """The model uses a layer in a way that hooks cannot observe."""


Layers = dict[str, tuple[nn.Module, Rule]]
"""The layers with parameters, by name, each with its rule."""


class GhostPlan(NamedTuple):
    """How to process a model: its layers, the number of records at once, and the memory format of images."""

    layers: Layers
    records: int
    layout: torch.memory_format


def layers(objective: Objective) -> Layers | None:
    """Return the objective's layers; None if some parameter is not in a supported layer."""
    if not isinstance(objective, ModuleObjective):
        return None
    named = [name for name, _ in objective.module.named_parameters(remove_duplicate=False)]
    if len(named) != len(list(objective.module.named_parameters())):
        return None  # a tensor with two names
    wanted = set(objective.layout.names)
    found: Layers = {}
    for prefix, layer in objective.module.named_modules():
        mine = {f"{prefix}.{name}" if prefix else name for name, _ in layer.named_parameters(recurse=False)} & wanted
        known = rule(layer)
        if mine and known is None:
            return None
        if mine and known is not None:
            found[prefix] = layer, known
    return found


def gradient_sum(
    objective: ModuleObjective,
    params: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    clip: Clip | None,
    out: Tensor,
    plan: GhostPlan,
    keys: Tensor | None = None,
) -> None:
    """Write Σ_b weight_b · factor_b · ∇ℓ_b into out (n, d); `clip` must not bound the L1 norm.

    Norms and sums come from one forward pass, so both have the same dropout masks.
    """
    layout, placed = objective.layout, weight.to(params.device)
    out.zero_()
    for i in range(len(params)):
        p, target = layout.unflatten(params[i]), layout.unflatten(out[i])
        for b in slices(width(weight[i : i + 1]), plan.records):
            records = _with_memory_format(x[i, b], plan.layout), y[i, b], None if keys is None else keys[i, b]
            terms = _terms(objective, plan.layers, p, *records)
            scaled = placed[i, b]
            if clip is not None:
                parts = [term.norms() for name, term in terms.items() if layout.is_bounded(name)]
                norms = vector_norms(torch.stack(parts, -1), 2) if parts else torch.zeros_like(scaled)
                scaled = clip.for_nodes(slice(i, i + 1)).scaled(scaled.unsqueeze(0), norms.unsqueeze(0)).squeeze(0)
            for name, term in terms.items():
                c = scaled if layout.is_bounded(name) else placed[i, b]
                target[name] += term.sum(c).view_as(target[name])


def _terms(
    objective: ModuleObjective, known: Layers, p: Parameters, x: Tensor, y: Tensor, keys: Tensor | None = None
) -> dict[str, GradientTerm]:
    """Return each parameter's per-record gradients, without parameters that were not used."""
    seen: list[tuple[str, Tensor, Tensor, int]] = []

    def watch(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            if len(args) != 1 or len(args[0]) != len(x) or len(output) != len(x):
                raise UnsupportedModel
            if not output.requires_grad:
                output.requires_grad_()
            seen.append((name, args[0].detach(), output, args[0]._version + output._version))

        return hook

    handles = [layer.register_forward_hook(watch(name)) for name, (layer, _) in known.items()]
    try:
        with torch.enable_grad():
            total = objective.losses(p, x, y, keys).sum()
    finally:
        for handle in handles:
            handle.remove()
    if any(a._version + output._version != version for _, a, output, version in seen):
        raise UnsupportedModel  # modified in place after the hook
    signals = torch.autograd.grad(total, [output for _, _, output, _ in seen], allow_unused=True)
    calls: dict[str, Calls] = {}
    like = next(iter(p.values()))
    for (name, a, _, _), g in zip(seen, signals, strict=True):
        if g is not None:
            calls.setdefault(name, []).append((copied(a, like), copied(g, like)))
    terms: dict[str, GradientTerm] = {}
    for name, pairs in calls.items():
        layer, derive = known[name]
        for parameter, term in derive(layer, pairs).items():
            terms[f"{name}.{parameter}" if name else parameter] = term
    return {name: term for name, term in terms.items() if name in objective.layout.columns}


def _with_memory_format(x: Tensor, layout: torch.memory_format) -> Tensor:
    """Return a copy with the strides of this format, also for one channel, where torch's conversions do nothing."""
    return x if layout == torch.contiguous_format else torch.empty_like(x, memory_format=layout).copy_(x)


def probe(objective: ModuleObjective, known: Layers, form: RecordForm, dtype: torch.dtype) -> GhostPlan | None:
    """Return a plan for this model after a trial with one random record; None if the trial fails.

    A model can use a layer in a way that its type does not show (for example its weight without calling the layer). So
    the engine is used only after it has computed the same gradient as autograd once.
    """
    initial = objective.layout.initial(objective.module)
    exact = copy.copy(objective)  # a coarse trial could hide a difference
    exact.precision = "float32"
    noise = torch.randn(initial.shape, generator=torch.Generator().manual_seed(0))
    perturbed = initial.to("cpu", dtype) + 0.05 * noise.to(dtype)  # zeros would hide a difference
    params = perturbed.unsqueeze(0).to(form.device)
    # Channels last makes pooling 3 times as fast, but fails in models that reshape with `view`.
    image = len(form.x_shape) == 3
    for layout in (torch.channels_last, torch.contiguous_format) if image else (torch.contiguous_format,):
        for x, y in form.batches(1):
            try:
                plan = _trial(exact, known, params, x, y, layout)
            except (UnsupportedModel, RuntimeError, IndexError):  # if the model is wrong, the general engine raises
                continue
            if plan is not None:
                return plan
    return None


def _trial(
    objective: ModuleObjective, known: Layers, params: Tensor, x: Tensor, y: Tensor, layout: torch.memory_format
) -> GhostPlan | None:
    """Return a plan if the engine computes the same clipped gradient as autograd for the record x (1, …)."""
    one, clip, bounded = params.new_ones(1, 1), Clip(1.0, "smooth"), objective.layout.bounded
    expected, found = torch.empty_like(params), torch.empty_like(params)
    terms = _terms(objective, known, objective.layout.unflatten(params[0]), _with_memory_format(x, layout), y)
    data = x.unsqueeze(0), y.unsqueeze(0), one
    gradient_sum(objective, params, *data, clip, found, GhostPlan(known, 1, layout))
    summed.gradient_sum(objective, params, *data, expected)
    expected[:, :bounded] = clip.clip_rows(expected[:, :bounded])
    if bool((found - expected).abs().max() > 1e-3 * expected.abs().max()):  # NaN is not an error of this engine
        return None
    held = sum(term.numel() for term in terms.values()) * params.element_size()
    return GhostPlan(known, max(8, BYTES // max(1, held)), layout)
