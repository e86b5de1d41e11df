"""Refusals: where the answer for a record depends on other records, or on chance, no record is protected."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.errors import TacitError

_ROUNDING = 1e-3  # relative; real rounding is far below


def check_module(module: nn.Module) -> None:
    """Refuse batch statistics and dropout, by the layer's name.

    >>> check_module(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)))
    Traceback (most recent call last):
    tacit.errors.TacitError: layer "1" (BatchNorm2d) mixes the records of a batch; use GroupNorm instead
    """
    for name, layer in module.named_modules():
        kind = f'layer "{name}" ({type(layer).__name__})'
        if isinstance(layer, _InstanceNorm):
            if layer.track_running_stats:
                raise TacitError(
                    f"{kind} keeps running statistics of the records; "
                    "set track_running_stats=False or use GroupNorm instead"
                )
        elif isinstance(layer, _NormBase):
            raise TacitError(f"{kind} mixes the records of a batch; use GroupNorm instead")
        p = layer.p if isinstance(layer, _DropoutNd) else getattr(layer, "dropout", 0.0)
        if (isinstance(p, int | float) and p > 0) or isinstance(layer, nn.RReLU):
            raise TacitError(f"{kind} draws its own randomness, but every draw in a run must be keyed; take it out")


def check_loss(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> None:
    """Refuse, on two records, a loss that is not one number a record, each from its own output alone.

    >>> check_loss(nn.CrossEntropyLoss(), torch.eye(2), torch.tensor([0, 1]))
    Traceback (most recent call last):
    tacit.errors.TacitError: a loss must give one number a record, (2,) here and not (): use reduction="none"
    """
    with torch.no_grad():
        together = loss(outputs, y)
        if together.shape != (2,):
            raise TacitError(
                f'a loss must give one number a record, (2,) here and not {tuple(together.shape)}: use reduction="none"'
            )
        alone = torch.cat([loss(outputs[:1], y[:1]), loss(outputs[1:], y[1:])])
    if bool((together - alone).abs().max() > _ROUNDING * together.abs().max()):
        raise TacitError(
            "the loss of a record changes with the other records of the batch: use one that does not mix them"
        )


def check_independence(module: nn.Module, x: Tensor) -> None:
    """Refuse, on two records x (2, …), what only a run shows: buffers that change, records that mix.

    >>> class Centred(nn.Module):
    ...     def forward(self, x):
    ...         return x - x.mean(dim=0)
    >>> check_independence(Centred(), torch.eye(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tacit.errors.TacitError: the model's output for a record changes with the other records of the batch ...
    """
    module = copy.deepcopy(module)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        together, alone = module(x), torch.cat([module(x[:1]), module(x[1:])])
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer, before[name]):
            raise TacitError(f'the model\'s forward pass changes its buffer "{name}"; use GroupNorm or drop the buffer')
    # NaN compares as no difference, and shows up in the run itself.
    if together.shape != alone.shape or bool((together - alone).abs().max() > _ROUNDING * together.abs().max()):
        raise TacitError(
            "the model's output for a record changes with the other records of the batch or by chance; "
            "use layers that treat each record alone, such as GroupNorm"
        )
