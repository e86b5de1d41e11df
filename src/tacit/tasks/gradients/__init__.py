"""Sums of clipped per-record gradients for all hosted nodes, by the fastest engine for the model.

`stacked`: chains of linear layers; batched products over nodes, norms from inputs and output gradients.
`convolutional`: chains of convolutions, pooling and linear layers on images; the same idea, tile by tile.
`ghost`: large models of supported layers; the same idea, node by node.
`vectorised`: any model that torch.vmap supports; per-record gradients by torch.func.
`looped`: any other model; one backward pass per record.
`summed`: sums without per-record clipping.

With several copies of each record, `averaged.py` replaces the objective, and the last three engines are used.

Privacy:
    The gradient of a record must depend on that record only. `vectorised` and `looped` guarantee it for any module
    without a state: the module receives one record at a time. Which of the two is used is decided on random records.
    The others run the module on whole batches. `stacked`, `convolutional` and `ghost` are therefore used only for
    modules that are known to treat each record separately (`models/per_record.py`). `summed` needs no such property:
    a sum without a clip has no sensitivity, and a batch with a clip has sensitivity 2C.
    Every engine computes a loss other than the default one separately for each record.
    A record with weight 0 is padding and has no influence, even if its gradient is not finite. On the CPU, nodes whose
    sum is not finite are computed again without padding. On another device, such a choice would wait for the device,
    so copies of drawn records replace padding there (`padding.py`).

Weights are in main memory, where the sizes of blocks are computed from them. Engines copy them to the device.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tacit.tasks.clip import Clip
from tacit.tasks.gradients import cells, convolutional, ghost, looped, summed, vectorised
from tacit.tasks.gradients.averaged import AveragedObjective
from tacit.tasks.gradients.engine_choice import Engine, EngineChoice
from tacit.tasks.gradients.objective import FunctionObjective, ModuleObjective, Objective
from tacit.tasks.gradients.padding import clear_empty, without_padding

__all__ = ["Engine", "FunctionObjective", "Gradients", "ModuleObjective", "Objective"]


class Gradients:
    """The gradients of one objective. An `engine` other than "auto" is for tests and benchmarks."""

    def __init__(self, objective: Objective, engine: Engine = "auto") -> None:
        self.objective, self.engine = objective, engine
        self.choice = EngineChoice(objective, engine)
        self._averaged: Gradients | None = None  # of the mean over copies of a record; made when it is needed

    @property
    def only_linear_layer(self) -> nn.Linear | None:
        """The layer of a model that is one linear layer on flat records; None for any other model."""
        chain = self.choice.chain
        return None if chain is None or not self.objective.per_record else chain.only_linear_layer

    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the losses (n, B)."""
        with torch.no_grad():
            if self.choice.stackable(x):
                assert self.choice.chain is not None
                return self.choice.chain.losses(params, x, y)
            return summed.losses(self.objective, params, x, y)

    def sum(
        self,
        params: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip | None,
        out: Tensor | None = None,
        before: Tensor | None = None,
        keys: Tensor | None = None,
        copies: int = 1,
    ) -> Tensor:
        """Return Σ_b weight_b · factor_b · ∇ℓ_b (n, d); see `Model.gradient_sum`."""
        if copies > 1:
            self._averaged = self._averaged or Gradients(AveragedObjective(self.objective), self.engine)
            return self._averaged.sum(params, x, y, weight, clip, out, before, keys)
        weight = weight.cpu()
        out = torch.empty_like(params) if out is None else out
        with torch.no_grad():
            record = clip if clip is not None and clip.per == "record" else None
            self._sum(params, x, y, weight, record, out, before, keys)
            if clip is not None and clip.per == "batch":
                cells.clip_batches(out[None], [clip], self.objective.layout.bounded)
        return out

    def stacks_cells(self, x: Tensor) -> bool:
        """Whether `sum_cells` computes several cells in one pass over the records."""
        return self.choice.stackable(x)

    def sum_cells(self, params: Tensor, x: Tensor, y: Tensor, weight: Tensor, clips: Sequence[Clip | None]) -> Tensor:
        """Return the sums (S, n, d) of S cells, with parameters (S, n, d) and one clip each, on the same records.

        Cell s has the result of `sum` with params[s] and clips[s], up to rounding.
        """
        weight, padded = weight.cpu(), not bool(weight.all())
        out, alone = torch.empty_like(params), list(range(len(clips)))
        if self.choice.stackable(x) and weight.numel() and cells.together(clips):
            assert self.choice.chain is not None
            on_device = padded and not params.is_cpu
            given = without_padding(x, y, weight) if on_device else (x, y)
            with torch.no_grad():
                self.choice.chain.gradient_sums(params, *given[:2], weight, cells.merged(clips, params), out)
                cells.clip_batches(out, clips, self.objective.layout.bounded)
            alone = _not_finite(out.flatten(1)) if padded and not on_device else []  # 0 · ∞ is NaN
        if not params.is_cpu:
            clear_empty(out, weight)
        for s in alone:
            self.sum(params[s], x, y, weight, clips[s], out[s])
        return out

    def _sum(
        self,
        params: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip | None,
        out: Tensor,
        before: Tensor | None,
        keys: Tensor | None,
    ) -> None:
        if not weight.numel():
            out.zero_()
            return
        if before is not None:
            engine = self.choice.for_differences(params, x, y)
        else:
            engine = self.choice.choose(params, x, y, clip, masked=keys is not None)
        padded = not bool(weight.all())
        on_device = padded and not params.is_cpu
        if padded and engine == "summed" and not self.choice.separates(x):  # the module could mix padding with records
            nodes = list(range(len(params)))
        else:
            given = without_padding(x, y, weight, keys) if on_device else (x, y, keys)
            self._run(engine, params, *given[:2], weight, clip, out, before, given[2])
            nodes = _not_finite(out) if padded and not on_device else []  # 0 · ∞ is NaN
        for i in nodes:  # without padding
            one, used = slice(i, i + 1), weight[i].nonzero()[:, 0]
            earlier, drawn = None if before is None else before[one], used.to(x.device)
            bound, masks = clip and clip.for_nodes(one), None if keys is None else keys[one, drawn]
            self._sum(params[one], x[one, drawn], y[one, drawn], weight[one, used], bound, out[one], earlier, masks)
        if on_device:
            clear_empty(out, weight)

    def _run(
        self,
        engine: Engine,
        params: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip | None,
        out: Tensor,
        before: Tensor | None,
        keys: Tensor | None,
    ) -> None:
        """Compute the sums with one engine."""
        objective = self.objective
        if engine in ("vectorised", "looped"):
            run = vectorised if engine == "vectorised" else looped
            run.gradient_sum(objective, params, x, y, weight, clip, out, before, keys)
        elif engine == "summed":
            small = summed.is_small(objective, params, weight)
            vmap = small and (objective.per_record or self.choice.one_at_a_time(params, x, y) == "vectorised")
            summed.gradient_sum(objective, params, x, y, weight, out, keys, vmap=vmap)
        elif engine == "stacked":
            assert self.choice.chain is not None
            earlier = None if before is None else before[None]
            self.choice.chain.gradient_sums(params[None], x, y, weight, clip, out[None], earlier)
        else:
            assert isinstance(objective, ModuleObjective)
            if engine == "convolutional":
                assert self.choice.images is not None
                convolutional.gradient_sum(objective, self.choice.images, params, x, y, weight, clip, out, keys)
            else:
                ghost.gradient_sum(objective, params, x, y, weight, clip, out, self.choice.plan(x, y), keys)


def _not_finite(out: Tensor) -> list[int]:
    """Return the rows with a value that is not finite. The sum of a row is much cheaper than a test of all values."""
    suspects = (~out.sum(1).isfinite()).nonzero()[:, 0].tolist()
    return [i for i in suspects if not bool(out[i].isfinite().all())]
