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
    A record with weight 0 is padding and has no influence, even if its gradient is not finite.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from tacit.errors import TacitError, unknown
from tacit.tasks.clip import Clip
from tacit.tasks.gradients import cells, convolutional, ghost, looped, stacked, summed, vectorised
from tacit.tasks.gradients.averaged import AveragedObjective
from tacit.tasks.gradients.objective import FunctionObjective, ModuleObjective, Objective
from tacit.tasks.models.synthetic import RecordForm

__all__ = ["Engine", "FunctionObjective", "Gradients", "ModuleObjective", "Objective"]

Engine = Literal["auto", "stacked", "convolutional", "ghost", "vectorised", "looped", "summed"]


class Gradients:
    """The gradients of one objective. An `engine` other than "auto" is for tests and benchmarks."""

    def __init__(self, objective: Objective, engine: Engine = "auto") -> None:
        if engine not in get_args(Engine):
            raise unknown("engine", engine, get_args(Engine))
        self.objective, self.engine = objective, engine
        no_penalty = getattr(objective, "penalty", None) is None  # the first three differentiate outputs only
        self._chain = stacked.Chain.of(objective) if no_penalty else None
        self._images = convolutional.chain(objective) if no_penalty else None
        self._layers = ghost.layers(objective) if no_penalty else None
        # None: the ghost engine does not support records of this form
        self._plans: dict[RecordForm, ghost.GhostPlan | None] = {}
        self._vmap_support: dict[RecordForm, bool] = {}
        self._averaged: Gradients | None = None  # of the mean over copies of a record; made when it is needed

    @property
    def only_linear_layer(self) -> nn.Linear | None:
        """The layer of a model that is one linear layer on flat records; None for any other model."""
        return None if self._chain is None or not self.objective.per_record else self._chain.only_linear_layer

    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the losses (n, B)."""
        with torch.no_grad():
            if self._stackable(x):
                assert self._chain is not None
                return self._chain.losses(params, x, y)
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
        out = torch.empty_like(params) if out is None else out
        with torch.no_grad():
            record = clip if clip is not None and clip.per == "record" else None
            self._sum(params, x, y, weight, record, out, before, keys)
            if clip is not None and clip.per == "batch":
                cells.clip_batches(out[None], [clip], self.objective.layout.bounded)
        return out

    def stacks_cells(self, x: Tensor) -> bool:
        """Whether `sum_cells` computes several cells in one pass over the records."""
        return self._stackable(x)

    def sum_cells(self, params: Tensor, x: Tensor, y: Tensor, weight: Tensor, clips: Sequence[Clip | None]) -> Tensor:
        """Return the sums (S, n, d) of S cells, with parameters (S, n, d) and one clip each, on the same records.

        Cell s has the result of `sum` with params[s] and clips[s], up to rounding.
        """
        out, alone = torch.empty_like(params), list(range(len(clips)))
        if self._stackable(x) and weight.numel() and cells.together(clips):
            assert self._chain is not None
            with torch.no_grad():
                self._chain.gradient_sums(params, x, y, weight, cells.merged(clips, params), out)
                cells.clip_batches(out, clips, self.objective.layout.bounded)
            alone = [] if bool(weight.all()) else _not_finite(out.flatten(1))  # 0 · ∞ is NaN
        for s in alone:
            self.sum(params[s], x, y, weight, clips[s], out[s])
        return out

    def choose(self, params: Tensor, x: Tensor, y: Tensor, clip: Clip | None, *, masked: bool = False) -> Engine:
        """Return the engine for these nodes and this clip (per record, or None).

        `masked` is whether there are dropout masks. A batch of records has masks only if the module is known.
        """
        if self.engine != "auto":
            self._check_engine(params, x, y, clip, masked)
            return self.engine
        if self._stackable(x):
            return "stacked"
        if self._convolvable(x):
            return "convolutional"
        if clip is None and (not masked or self._separates(x)):
            return "summed"
        large = self.objective.layout.d * y.shape[1] > ghost.LARGE
        if large and clip is not None and clip.degree == 2 and self._ghostable(params, x, y):
            return "ghost"
        return self._one_at_a_time(params, x, y)

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
            engine = self._engine_of_differences(params, x, y)
        else:
            engine = self.choose(params, x, y, clip, masked=keys is not None)
        padded = not bool(weight.all())
        if padded and engine == "summed" and not self._separates(x):  # the module could mix padding with records
            nodes = list(range(len(params)))
        else:
            self._run(engine, params, x, y, weight, clip, out, before, keys)
            nodes = _not_finite(out) if padded else []  # 0 · ∞ is NaN
        for i in nodes:  # without padding
            one, drawn = slice(i, i + 1), weight[i] != 0
            earlier = None if before is None else before[one]
            bound, masks = clip and clip.for_nodes(one), None if keys is None else keys[one, drawn]
            self._sum(params[one], x[one, drawn], y[one, drawn], weight[one, drawn], bound, out[one], earlier, masks)

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
            vmap = small and (objective.per_record or self._one_at_a_time(params, x, y) == "vectorised")
            summed.gradient_sum(objective, params, x, y, weight, out, keys, vmap=vmap)
        elif engine == "stacked":
            assert self._chain is not None
            earlier = None if before is None else before[None]
            self._chain.gradient_sums(params[None], x, y, weight, clip, out[None], earlier)
        else:
            assert isinstance(objective, ModuleObjective)
            if engine == "convolutional":
                assert self._images is not None
                convolutional.gradient_sum(objective, self._images, params, x, y, weight, clip, out, keys)
            else:
                plan = self._plans[RecordForm.of(x, y)]
                assert plan is not None
                ghost.gradient_sum(objective, params, x, y, weight, clip, out, plan, keys)

    def _separates(self, x: Tensor) -> bool:
        """Return whether a batch of x (n, B, …) gives each record's loss from that record only.

        Layers interpret a batch of plain numbers (B,) as one record.
        """
        objective = self.objective
        return objective.per_record and (x.dim() > 2 or not isinstance(objective, ModuleObjective))

    def _stackable(self, x: Tensor) -> bool:
        return (
            self.engine in ("auto", "stacked")
            and self._chain is not None
            and self._chain.accepts(x)
            and self._separates(x)
        )

    def _convolvable(self, x: Tensor) -> bool:
        images = self._images is not None and x.dim() == 5  # (n, B, C, H, W)
        return images and self.engine in ("auto", "convolutional") and self._separates(x)

    def _ghostable(self, params: Tensor, x: Tensor, y: Tensor) -> bool:
        if self._layers is None or not self._separates(x):
            return False
        form = RecordForm.of(x, y)
        if form not in self._plans:
            assert isinstance(self.objective, ModuleObjective)
            self._plans[form] = ghost.probe(self.objective, self._layers, form, params.dtype)
        return self._plans[form] is not None

    def _engine_of_differences(self, params: Tensor, x: Tensor, y: Tensor) -> Engine:
        """Return the engine for differences of a record's gradients at two points."""
        if self.only_linear_layer is not None and self._stackable(x):
            return "stacked"
        return self._one_at_a_time(params, x, y)

    def _one_at_a_time(self, params: Tensor, x: Tensor, y: Tensor) -> Engine:
        """Return the engine that gives the module one record at a time, after a trial on random records.

        Raises:
            TacitError: If the model has no gradients, before the first private record is used.
        """
        if isinstance(self.objective, FunctionObjective):
            return "vectorised"
        form = RecordForm.of(x, y)
        if form not in self._vmap_support:
            try:
                vectorised.check(self.objective, form, params.dtype)
                self._vmap_support[form] = True
            except TacitError:
                looped.check(self.objective, form, params.dtype)
                self._vmap_support[form] = False
        return "vectorised" if self._vmap_support[form] else "looped"

    def _check_engine(self, params: Tensor, x: Tensor, y: Tensor, clip: Clip | None, masked: bool) -> None:
        supported = {
            "stacked": self._stackable(x),
            "convolutional": self._convolvable(x),
            "ghost": self.engine == "ghost" and (clip is None or clip.degree == 2) and self._ghostable(params, x, y),
            "summed": clip is None and (not masked or self._separates(x)),
            "vectorised": self.engine == "vectorised" and self._one_at_a_time(params, x, y) == "vectorised",
        }
        if not supported.get(self.engine, True):
            raise TacitError(f'engine "{self.engine}" does not support this model with this clip; use engine "auto"')


def _not_finite(out: Tensor) -> list[int]:
    """Return the rows with a value that is not finite. The sum of a row is much cheaper than a test of all values."""
    suspects = (~out.sum(1).isfinite()).nonzero()[:, 0].tolist()
    return [i for i in suspects if not bool(out[i].isfinite().all())]
