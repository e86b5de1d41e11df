"""Sums of clipped per-record gradients for all hosted nodes, by the fastest engine for the model.

`stacked`: chains of linear layers; batched products over nodes, norms from inputs and output gradients.
`ghost`: large models of supported layers; the same idea, node by node.
`vectorised`: any model; per-record gradients by torch.func.
`summed`: sums without per-record clipping.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from tacit.errors import TacitError, unknown
from tacit.tasks.clip import Clip
from tacit.tasks.gradients import ghost, stacked, summed, vectorised
from tacit.tasks.gradients.objective import FunctionObjective, ModuleObjective, Objective

__all__ = ["Engine", "FunctionObjective", "Gradients", "ModuleObjective", "Objective"]

Engine = Literal["auto", "stacked", "ghost", "vectorised", "summed"]


class Gradients:
    """The gradients of one objective. An `engine` other than "auto" is for tests and benchmarks."""

    def __init__(self, objective: Objective, engine: Engine = "auto") -> None:
        if engine not in get_args(Engine):
            raise unknown("engine", engine, get_args(Engine))
        self.objective, self.engine = objective, engine
        no_penalty = getattr(objective, "penalty", None) is None  # `stacked` and `ghost` differentiate outputs only
        self._chain = stacked.chain(objective) if no_penalty else None
        self._layers = ghost.layers(objective) if no_penalty else None
        self._plan: ghost.GhostPlan | None = (
            None  # None: not probed yet, or the ghost engine does not support the model
        )
        self._probed = self._layers is None

    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the losses (n, B)."""
        with torch.no_grad():
            if self._stackable(x):
                assert isinstance(self.objective, ModuleObjective)
                assert self._chain is not None
                return stacked.losses(self.objective, self._chain, params, x, y)
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
    ) -> Tensor:
        """Return Σ_b weight_b · factor_b · ∇ℓ_b (n, d); see `Model.gradient_sum`."""
        out = torch.empty_like(params) if out is None else out
        with torch.no_grad():
            record = clip if clip is not None and clip.per == "record" else None
            if before is None:
                self._sum(params, x, y, weight, record, out)
            else:
                vectorised.gradient_sum(self.objective, params, x, y, weight, record, out, before)
            if clip is not None and clip.per == "batch":
                bounded = out[:, : self.objective.layout.bounded]
                bounded.copy_(clip.clip_rows(bounded))
        return out

    def choose(self, params: Tensor, x: Tensor, y: Tensor, clip: Clip | None) -> Engine:
        """Return the engine for these nodes and this clip (per record, or None)."""
        if self.engine != "auto":
            self._check_engine(params, x, y, clip)
            return self.engine
        if self._stackable(x):
            return "stacked"
        if clip is None:
            return "summed"
        large = self.objective.layout.d * y.shape[1] > ghost.LARGE
        return "ghost" if large and clip.degree == 2 and self._ghostable(params, x, y) else "vectorised"

    def _sum(self, params: Tensor, x: Tensor, y: Tensor, weight: Tensor, clip: Clip | None, out: Tensor) -> None:
        if not weight.numel():
            out.zero_()
            return
        engine, objective = self.choose(params, x, y, clip), self.objective
        if engine == "vectorised":
            vectorised.gradient_sum(objective, params, x, y, weight, clip, out)
        elif engine == "summed":
            summed.gradient_sum(objective, params, x, y, weight, out)
        else:
            assert isinstance(objective, ModuleObjective)
            if engine == "stacked":
                assert self._chain is not None
                stacked.gradient_sum(objective, self._chain, params, x, y, weight, clip, out)
            else:
                assert self._plan is not None
                try:
                    ghost.gradient_sum(objective, params, x, y, weight, clip, out, self._plan)
                except ghost.UnsupportedModel:
                    self._plan = None
                    self._sum(params, x, y, weight, clip, out)

    def _stackable(self, x: Tensor) -> bool:
        return self.engine in ("auto", "stacked") and self._chain is not None and stacked.accepts(self._chain, x)

    def _ghostable(self, params: Tensor, x: Tensor, y: Tensor) -> bool:
        if not self._probed:
            assert isinstance(self.objective, ModuleObjective)
            assert self._layers is not None
            plan = ghost.probe(self.objective, self._layers, params[0], x[0, :1], y[0, :1])
            self._plan, self._probed = plan, True
        return self._plan is not None

    def _check_engine(self, params: Tensor, x: Tensor, y: Tensor, clip: Clip | None) -> None:
        supported = {
            "stacked": self._stackable(x),
            "ghost": self.engine == "ghost" and (clip is None or clip.degree == 2) and self._ghostable(params, x, y),
            "summed": clip is None,
        }
        if not supported.get(self.engine, True):
            raise TacitError(f'engine "{self.engine}" does not support this model with this clip; use engine "auto"')
