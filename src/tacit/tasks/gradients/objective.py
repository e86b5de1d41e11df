"""The function to differentiate: the loss of a record as a function of one node's named parameters."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tacit.tasks.gradients.traced import Traced
from tacit.tasks.layout import Layout
from tacit.tasks.models.adapter import AdaptedModule, Forward, tensor_output
from tacit.tasks.models.dropout import MaskStream
from tacit.tasks.models.per_record import RecordLoss, is_per_record, separate_losses
from tacit.tasks.precision import Precision, copied, passes

Parameters = dict[str, Tensor]
FlatLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Maps a parameter vector (d,) and one record (x, y) to its loss, a scalar."""


class Objective(Protocol):
    """The loss that every engine differentiates.

    `keys` (B,) determine the dropout masks of the records; without keys there is no dropout.
    """

    layout: Layout

    @property
    def precision(self) -> Precision:
        """The precision of the forward and backward passes of gradients."""

    @property
    def per_record(self) -> bool:
        """Whether `losses` is known to compute the loss of each record of a batch from that record only."""

    def losses(self, p: Parameters, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        """Return the losses (B,) of a batch for one node's parameters."""

    def record(self, p: Parameters, x: Tensor, y: Tensor, key: Tensor | None = None) -> Tensor:
        """Return the loss of one record, a scalar."""

    def repeat(self, what: str, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        """Return function(*values), for a `function` of these losses. `what` distinguishes the functions."""


class ModuleObjective:
    """The loss of a module's outputs. If the module defines `penalty(parameters)`, it is added to each loss.

    Attributes:
        module: The module whose parameters are trained.
        called: The module that is called: the same one, or one that calls the user's `forward`.
        stream: The dropout masks; None without dropout.
        precision: That of the forward and backward passes of gradients.
    """

    precision: Precision = "float32"

    def __init__(
        self,
        module: nn.Module,
        loss: RecordLoss,
        layout: Layout,
        forward: Forward | None = None,
        stream: MaskStream | None = None,
    ) -> None:
        self.module, self.loss, self.layout, self.forward, self.stream = module, loss, layout, forward, stream
        self.called = module if forward is None else AdaptedModule(module, forward)
        self.penalty: Callable[[Parameters], Tensor] | None = getattr(module, "penalty", None)

    def outputs(self, p: Parameters, x: Tensor, keys: Tensor | None = None) -> Tensor:
        """Return the outputs (B, …)."""
        named = p if self.forward is None else {f"module.{name}": value for name, value in p.items()}
        with nullcontext() if self.stream is None else self.stream.using(keys):
            return tensor_output(functional_call(self.called, named, (x,)))

    def losses(self, p: Parameters, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        with passes(self.precision, y.device):
            outputs = self.outputs(p, x, keys)
        return self.losses_of_outputs(p, copied(outputs, like=p[self.layout.names[0]]), y)

    @property
    def per_record(self) -> bool:
        return is_per_record(self.called)  # not stored: a hook can be added at any time

    def losses_of_outputs(self, p: Parameters, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the losses (B,) of outputs (B, …)."""
        losses = separate_losses(self.loss, outputs, y)
        return losses if self.penalty is None else losses + self.penalty(p)

    def record(self, p: Parameters, x: Tensor, y: Tensor, key: Tensor | None = None) -> Tensor:
        with passes(self.precision, y.device):
            outputs = self.outputs(p, x.unsqueeze(0), None if key is None else key.unsqueeze(0))
        loss = self.loss(copied(outputs, like=p[self.layout.names[0]]), y.unsqueeze(0)).squeeze(0)
        return loss if self.penalty is None else loss + self.penalty(p)

    def repeat(self, what: str, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        return function(*values)  # modules can change from call to call


class FunctionObjective:
    """A user's loss function of a flat vector with at most two parts: shared and local."""

    per_record = True  # by vmap
    precision: Precision = "float32"

    def __init__(self, loss: FlatLoss, layout: Layout) -> None:
        self.loss, self.layout, self._traced = loss, layout, Traced()

    def record(self, p: Parameters, x: Tensor, y: Tensor, key: Tensor | None = None) -> Tensor:
        flat = self.layout.flatten(p)
        with passes(self.precision, flat.device):
            return copied(self.loss(flat, x, y), like=flat)

    def losses(self, p: Parameters, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        return torch.vmap(self.record, in_dims=(None, 0, 0))(p, x, y)

    def repeat(self, what: str, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        return self._traced(f"{what} in {self.precision}", self.loss, function, *values)
