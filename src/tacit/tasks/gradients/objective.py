"""The function to differentiate: the loss of a record as a function of one node's named parameters."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tacit.tasks.layout import Layout

Parameters = dict[str, Tensor]
RecordLoss = Callable[[Tensor, Tensor], Tensor]
"""Maps outputs (B, …) and targets (B, …) to losses (B,), each from its own record only."""
FlatLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps a parameter vector (d,) and one record (x, y) to its loss, a scalar."""


class Objective(Protocol):
    """The loss that every engine differentiates."""

    layout: Layout

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

    def losses_of_outputs(self, p: Parameters, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the losses (B,) of outputs (B, …)."""
        losses = self.loss(outputs, y)
        return losses if self.penalty is None else losses + self.penalty(p)

    def record(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        return self.losses(p, x.unsqueeze(0), y.unsqueeze(0)).squeeze(0)


class FunctionObjective:
    """A user's loss function of a flat vector with at most two parts: shared and local."""

    def __init__(self, loss: FlatLoss, layout: Layout) -> None:
        self.loss, self.layout = loss, layout

    def record(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.layout.flatten(p), x, y)

    def losses(self, p: Parameters, x: Tensor, y: Tensor) -> Tensor:
        return torch.vmap(self.record, in_dims=(None, 0, 0))(p, x, y)
