"""The function to differentiate: the loss of a record as a function of one node's named parameters."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tacit.tasks.layout import Layout
from tacit.tasks.models.per_record import RecordLoss, is_per_record, separate_losses

Parameters = dict[str, Tensor]
FlatLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps a parameter vector (d,) and one record (x, y) to its loss, a scalar."""


class Objective(Protocol):
    """The loss that every engine differentiates."""

    layout: Layout

    @property
    def per_record(self) -> bool:
        """Whether `losses` is known to compute the loss of each record of a batch from that record only."""

    def losses(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        """Return the losses (B,) of a batch for one node's parameters."""

    def record(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        """Return the loss of one record, a scalar."""


class ModuleObjective:
    """The loss of a module's outputs. If the module defines `penalty(parameters)`, it is added to each loss."""

    def __init__(self, module: nn.Module, loss: RecordLoss, layout: Layout) -> None:
        self.module, self.loss, self.layout = module, loss, layout
        self.penalty: Callable[[Parameters], Tensor] | None = getattr(module, "penalty", None)

    def outputs(self, p: Parameters, x: Tensor) -> Tensor:
        result: Tensor = functional_call(self.module, p, (x,))
        return result

    def losses(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        return self.losses_of_outputs(p, self.outputs(p, x), y)

    @property
    def per_record(self) -> bool:
        return is_per_record(self.module)  # not stored: a hook can be added at any time

    def losses_of_outputs(self, p: Parameters, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the losses (B,) of outputs (B, …)."""
        losses = separate_losses(self.loss, outputs, y)
        return losses if self.penalty is None else losses + self.penalty(p)

    def record(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        loss = self.loss(self.outputs(p, x.unsqueeze(0)), y.unsqueeze(0)).squeeze(0)
        return loss if self.penalty is None else loss + self.penalty(p)


class FunctionObjective:
    """A user's loss function of a flat vector with at most two parts: shared and local."""

    per_record = True  # by vmap

    def __init__(self, loss: FlatLoss, layout: Layout) -> None:
        self.loss, self.layout = loss, layout

    def record(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.layout.flatten(p), x, y)

    def losses(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        return torch.vmap(self.record, in_dims=(None, 0, 0))(p, x, y)
