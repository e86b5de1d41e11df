"""A model as the rest of Tacit sees it: a loss of one flat parameter vector, with per-record gradients."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.tasks.clip import Clip
from tacit.tasks.gradients import Engine, FunctionObjective, Gradients, ModuleObjective
from tacit.tasks.gradients.objective import FlatLoss, RecordLoss
from tacit.tasks.layout import Layout
from tacit.tasks.models.check import check_independence, check_loss, check_module


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """The default loss: −log softmax(output)[target], one a record."""
    return F.cross_entropy(output, target, reduction="none")


class Model:
    """A module with a per-record loss, or a loss of a flat vector, for n nodes at once: params (n, d).

    The first `shared` columns of the vector are the parameters that `share` picks (all, when None); a clip bounds
    the gradient of these, or of `all` parameters (`bounds`). The dtype of `params` decides that of the computation.
    `weight_decay` · ‖params‖²/2 is part of what is minimised, but of no record's loss: it is not clipped.

    >>> model = Model(nn.Linear(3, 2))
    >>> params = model.initial().repeat(5, 1)
    >>> x, y, weight = torch.ones(5, 4, 3), torch.zeros(5, 4, dtype=torch.long), torch.ones(5, 4)
    >>> model.gradient_sum(params, x, y, weight, Clip(0.1)).norm(dim=1)
    tensor([0.4000, 0.4000, 0.4000, 0.4000, 0.4000])
    """

    def __init__(
        self,
        module: nn.Module,
        loss: RecordLoss = cross_entropy,
        share: Sequence[str] | None = None,
        engine: Engine = "auto",
        bounds: Literal["all", "shared"] = "shared",
        weight_decay: float = 0.0,
    ) -> None:
        check_module(module)
        layout = Layout.of(module, share, bounds)
        module = copy.deepcopy(module).requires_grad_(False)
        for layer in module.modules():
            if getattr(layer, "inplace", False) is True:
                layer.inplace = False  # type: ignore[assignment]  # the ghost engine keeps what it would overwrite
        self._start(ModuleObjective(module, loss, layout), layout.initial(module), engine, weight_decay)

    @classmethod
    def from_loss(
        cls,
        loss: FlatLoss,
        initial: Tensor,
        shared: int | None = None,
        engine: Engine = "auto",
        bounds: Literal["all", "shared"] = "shared",
        weight_decay: float = 0.0,
    ) -> Model:
        """The model whose loss on one record is `loss(params (d,), x, y)`, differentiable by torch.func.

        >>> mean = Model.from_loss(lambda w, x, y: ((w - x) ** 2).sum() / 2, torch.zeros(2))
        >>> x, y, weight = torch.ones(1, 3, 2), torch.zeros(1, 3), torch.ones(1, 3)
        >>> mean.gradient_sum(torch.zeros(1, 2), x, y, weight, None)
        tensor([[-3., -3.]])
        """
        d = initial.numel()
        shared = d if shared is None else shared
        if initial.dim() != 1 or not 1 <= shared <= d:
            raise TacitError(f"a loss needs an initial vector (d,) and 1 to d shared entries, not {shared} of {d}")
        parts = {"shared": (shared,)} | ({"local": (d - shared,)} if shared < d else {})
        layout = Layout(tuple(parts), tuple(parts.values()), shared, d if bounds == "all" else shared)
        model = cls.__new__(cls)
        model._start(FunctionObjective(loss, layout), initial.detach().clone(), engine, weight_decay)
        return model

    def _start(
        self, objective: ModuleObjective | FunctionObjective, initial: Tensor, engine: Engine, weight_decay: float
    ) -> None:
        if not 0 <= weight_decay < math.inf:
            raise TacitError(f"weight_decay must be 0 or more and finite, not {weight_decay}")
        self.weight_decay = weight_decay
        self.layout = layout = objective.layout
        self.d, self.shared, self.bounded = layout.d, layout.shared, layout.bounded
        self._objective, self._initial, self._dtype = objective, initial, initial.dtype
        self._gradients = Gradients(objective, engine)
        self._checked = isinstance(objective, FunctionObjective)

    @property
    def classifies(self) -> bool:
        """Whether there are outputs to compare with the labels; a bare loss function has none."""
        return isinstance(self._objective, ModuleObjective)

    def smoothness(self, square: float) -> float | None:
        """The L of the losses of records with ‖x‖² up to `square`, where it is known: one linear layer's outputs into
        the default loss, whose Hessian is (diag p − ppᵀ) ⊗ xxᵀ, biases counting as an input of 1; else None."""
        objective = self._objective
        if not isinstance(objective, ModuleObjective) or objective.loss is not cross_entropy:
            return None
        layers = [layer for layer in objective.module.modules() if not isinstance(layer, nn.Sequential | nn.Flatten)]
        if len(layers) != 1 or type(layers[0]) is not nn.Linear:
            return None
        return (square + (layers[0].bias is not None)) / 2

    def initial(self) -> Tensor:
        """The parameters (d,) the model came with."""
        return self._initial.clone()

    def outputs(self, params: Tensor, x: Tensor) -> Tensor:
        """What the module says, (B, …), for one parameter vector (d,) and records x (B, …)."""
        if not isinstance(self._objective, ModuleObjective):
            raise TacitError("this model is a loss function: it has losses but no outputs")
        with torch.no_grad():
            return self._objective.outputs(self.layout.unflatten(params), self._like(params, x))

    def scores(self, params: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Each record's loss (B,), and whether it is classified rightly (NaN where there are no classes), for one
        parameter vector (d,)."""
        if not isinstance(self._objective, ModuleObjective):
            losses = self.losses(params[None], x[None], y[None])[0]
            return losses, torch.full_like(losses, torch.nan)
        output = self.outputs(params, x)
        losses = self._objective.compared(self.layout.unflatten(params), output, y)
        return losses, (output.argmax(1) == y).to(params.dtype)

    def losses(self, params: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Each record's loss (n, B), for params (n, d), x (n, B, …), y (n, B)."""
        self._fits(params)
        return self._gradients.losses(params, self._like(params, x), y)

    def gradient_sum(
        self,
        params: Tensor,
        x: Tensor,
        y: Tensor,
        weight: Tensor,
        clip: Clip | None,
        out: Tensor | None = None,
        before: Tensor | None = None,
    ) -> Tensor:
        """Σ_b weight_b · factor(‖∇_bounded ℓ_b‖) · ∇ℓ_b, (n, d); weight (n, B) is 0 where a record is padding.

        The factor applies to the bounded columns only; the others are a plain weighted sum. A clip per
        batch applies to the bounded part of the weighted sum instead (with weights 1/B, to the mean). `out`
        (n, d), if given, is written and returned. With `before` (n, d), ∇ℓ_b is the gradient less that at `before`.
        """
        self._fits(params)
        x, weight = self._like(params, x), weight.to(params.dtype)
        self._check(x, y)
        return self._gradients.sum(params, x, y, weight, clip, out, before)

    def _fits(self, params: Tensor) -> None:
        if params.dim() != 2 or params.shape[1] != self.d:
            raise TacitError(f"parameters have shape {tuple(params.shape)}; this model takes (nodes, {self.d})")

    def _like(self, params: Tensor, x: Tensor) -> Tensor:
        """Records in the dtype of the parameters, and the module's frozen parameters and buffers too."""
        if isinstance(self._objective, ModuleObjective) and params.dtype != self._dtype:
            self._objective.module.to(params.dtype)
            self._dtype = params.dtype
        return x.to(params.dtype) if x.is_floating_point() else x

    def _check(self, x: Tensor, y: Tensor) -> None:
        """Once, on the first two records seen: that module and loss treat each record alone."""
        x, y = x.flatten(0, 1)[:2], y.flatten(0, 1)[:2]
        if not self._checked and len(x) == 2:
            assert isinstance(self._objective, ModuleObjective)
            module = self._objective.module
            check_independence(module, x)
            check_loss(self._objective.loss, copy.deepcopy(module)(x), y)
            self._checked = True
