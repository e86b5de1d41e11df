"""Modules and losses that are known to treat each record of a batch separately.

A clipped sum is bounded only if the gradient of a record depends on that record only. An engine that runs a module on
whole batches is therefore used only if every part of the module is on the list below. No test can replace the list: a
module may mix records only in large batches, or only if some record has an unusual value.
"""

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module

RecordLoss = Callable[[Tensor, Tensor], Tensor]
"""Maps outputs (B, …) and targets (B, …) to losses (B,), each from its own record only."""

Kind = TypeVar("Kind", bound=nn.Module)
Loss = TypeVar("Loss", bound=RecordLoss)

ELEMENTWISE: tuple[type[nn.Module], ...] = (
    *(nn.Tanh, nn.ReLU, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.CELU, nn.SELU, nn.LeakyReLU, nn.ReLU6, nn.Mish),
    *(nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid, nn.Tanhshrink, nn.Identity),
)
"""Layers that treat each number separately."""

_OTHERS: tuple[type[nn.Module], ...] = (
    *(nn.Sequential, nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
    *(nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.PReLU),
)


def _always(_: nn.Module) -> bool:
    return True


def _not_over_records(layer: Any) -> bool:
    """The first axis contains the records. It may also be −2, and without a value it depends on the input."""
    return layer.dim is not None and (layer.dim >= 1 or layer.dim == -1)


_KNOWN: dict[type[nn.Module], Callable[[Any], bool]] = {
    **dict.fromkeys((*ELEMENTWISE, *_OTHERS), _always),
    **dict.fromkeys((nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.GLU), _not_over_records),
    nn.Flatten: lambda layer: layer.start_dim >= 1,
    # The others change the weights in the forward pass, or divide gradients by the frequency in the batch.
    nn.Embedding: lambda layer: layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse,
    **dict.fromkeys(
        (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d), lambda layer: not layer.track_running_stats
    ),
    **dict.fromkeys(
        (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d), lambda layer: layer.p == 0 or not layer.training
    ),
}
"""Exact types, since a subclass may compute anything, each with the condition under which it is known."""

_PLAIN_TENSORS: set[type] = {Tensor, nn.Parameter}  # a subclass may redefine operations


def per_record(kind: type[Kind]) -> type[Kind]:
    """Add a class of this package to the list. Its `forward` must treat each record separately."""
    _KNOWN[kind] = _always
    return kind


def is_per_record(module: nn.Module) -> bool:
    """Return whether every part of a module is known to treat each record separately.

    >>> is_per_record(nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=1)))
    True
    >>> is_per_record(nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=0)))
    False
    """
    return not _global_hooks() and all(map(_is_known, module.modules()))


def _is_known(layer: nn.Module) -> bool:
    kind: type = type(layer)
    condition = _KNOWN.get(kind)
    if condition is None or not condition(layer) or _has_hook(layer):
        return False
    if not _names(kind).isdisjoint(vars(layer)):
        return False  # an attribute replaces a method of the class, such as `forward`
    tensors = itertools.chain(layer.parameters(recurse=False), layer.buffers(recurse=False))
    return all(type(tensor) in _PLAIN_TENSORS for tensor in tensors)


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(dir(kind))


def _global_hooks() -> bool:
    """Return whether something runs before or after the forward or backward pass of every module."""
    names = "forward_hooks", "forward_pre_hooks", "backward_hooks", "backward_pre_hooks"
    return any(getattr(torch_module, f"_global_{name}") for name in names)


def _has_hook(layer: nn.Module) -> bool:
    """Return whether something runs before or after the layer's forward or backward pass."""
    hooks = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks
    return any(hooks)


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Return the default loss −log softmax(output)[target], one value per record."""
    return F.cross_entropy(output, target, reduction="none")


_KNOWN_LOSSES: set[type] = set()
"""Exact types of losses of this package, since a subclass may compute anything."""


def per_record_loss(kind: type[Loss]) -> type[Loss]:
    """Add a class of this package to the known losses. Its `__call__` must treat each record separately."""
    _KNOWN_LOSSES.add(kind)
    return kind


def is_known_loss(loss: RecordLoss) -> bool:
    """Return whether a loss is known to treat each record of a batch separately."""
    return loss is cross_entropy or type(loss) in _KNOWN_LOSSES


def separate_losses(loss: RecordLoss, outputs: Tensor, y: Tensor) -> Tensor:
    """Return the losses (B,) of outputs (B, …) and labels (B, …), each from its own record only.

    A loss that is not part of this package is evaluated with torch.vmap, so that it cannot mix records.

    >>> def centred(outputs, y):
    ...     return (outputs - outputs.mean()).square() + y
    >>> separate_losses(centred, torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([3., 4.])
    """
    if is_known_loss(loss):
        return loss(outputs, y)
    if not len(y):
        return outputs.new_empty(0)

    def record(output: Tensor, label: Tensor) -> Tensor:
        return loss(output.unsqueeze(0), label.unsqueeze(0)).squeeze(0)

    return torch.vmap(record)(outputs, y)
