"""A module together with the user's function that calls it: for several inputs, and for outputs that are no tensor."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from tacit.errors import TacitError

Forward = Callable[[Any, Tensor], Tensor]
"""Maps a module and records x (B, …) to outputs (B, …)."""

_HINT = 'choose one with Model(module, head, forward=lambda module, x: module(x)["logits"])'


class AdaptedModule(nn.Module):
    """Calls `forward(module, x)`. It is on no list of known modules, so it gets one record at a time in training."""

    def __init__(self, module: nn.Module, adapter: Forward) -> None:
        super().__init__()
        self.module, self.adapter = module, adapter

    def forward(self, x: Tensor) -> Tensor:
        return self.adapter(self.module, x)


def tensor_output(output: object) -> Tensor:
    """Return the output of a module; raise if it is not one tensor."""
    if isinstance(output, Tensor):
        return output
    raise TacitError(f"a model must return one tensor, got {type(output).__name__}: {_HINT}")
