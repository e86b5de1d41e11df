"""The positions of a model's parameters in the flat vector that nodes update and send."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from tacit.errors import TacitError


@dataclass(frozen=True)
class Layout:
    """Names and shapes of the parameters in the order of the vector; the first `shared` columns are shared.

    The first `bounded` columns are those whose gradients a clip bounds: the shared ones, or all.

    >>> layout = Layout.of(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), share=["1.*"])
    >>> layout.names, layout.d, layout.shared
    (('1.weight', '1.bias', '0.weight', '0.bias'), 23, 8)
    >>> layout.unflatten(torch.zeros(5, 23))["0.weight"].shape
    torch.Size([5, 3, 4])
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    shared: int
    bounded: int

    @classmethod
    def of(
        cls, module: nn.Module, share: Sequence[str] | None = None, bounds: Literal["all", "shared"] = "shared"
    ) -> Layout:
        """Return the layout of a module's trainable parameters.

        Args:
            module: The module.
            share: Patterns of the names of the shared parameters, such as `"head.*"`; None: all.
            bounds: Whether a clip bounds the gradients of the "shared" parameters only, or of "all".
        """
        shapes = {name: tuple(p.shape) for name, p in module.named_parameters() if p.requires_grad}
        if not shapes:
            raise TacitError("the model has no trainable parameters")
        patterns = ["*"] if share is None else share
        if not patterns:
            raise TacitError("share is empty; name at least one parameter, or omit share to share all of them")
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in shapes):
                raise TacitError(
                    f'share pattern "{pattern}" matches no parameter; the parameters are: {", ".join(shapes)}'
                )
        shared = [name for name in shapes if any(fnmatchcase(name, pattern) for pattern in patterns)]
        names = shared + [name for name in shapes if name not in shared]
        shared_size = sum(math.prod(shapes[k]) for k in shared)
        total = sum(math.prod(shape) for shape in shapes.values())
        return cls(
            tuple(names), tuple(shapes[k] for k in names), shared_size, total if bounds == "all" else shared_size
        )

    @cached_property
    def d(self) -> int:
        """The length of the vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    @cached_property
    def columns(self) -> dict[str, slice]:
        """The columns of each parameter in the vector."""
        ends = [0]
        for shape in self.shapes:
            ends.append(ends[-1] + math.prod(shape))
        return {name: slice(*ends[i : i + 2]) for i, name in enumerate(self.names)}

    def is_bounded(self, name: str) -> bool:
        return bool(self.columns[name].stop <= self.bounded)

    def flatten(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Join named parameters (…, *shape) to vectors (…, d)."""
        parts = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            value = parameters[name]
            parts.append(value.reshape(*value.shape[: value.dim() - len(shape)], -1))
        return torch.cat(parts, dim=-1)

    def unflatten(self, params: Tensor) -> dict[str, Tensor]:
        """Return named views (…, *shape) of vectors (…, d). Writing to a view changes the vector."""
        return {
            name: params[..., self.columns[name]].view((*params.shape[:-1], *shape))
            for name, shape in zip(self.names, self.shapes, strict=True)
        }

    def initial(self, module: nn.Module) -> Tensor:
        """Return a copy of the module's current parameters as one vector (d,)."""
        values = dict(module.named_parameters())
        return self.flatten({name: values[name].detach() for name in self.names})


def join(shared: Tensor, local: Tensor | None) -> Tensor:
    """Join shared and local parameters to models (n, d). Without local parameters, nothing is copied."""
    return shared if local is None or not local.shape[1] else torch.cat([shared, local], 1)
