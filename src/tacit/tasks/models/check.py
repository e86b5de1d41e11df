"""Checks that the output for a record depends on that record only, without which no record is protected."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.errors import TacitError

_TOLERANCE = 1e-3  # relative; rounding errors are much smaller


def check_module(module: nn.Module) -> None:
    """Raise if a layer uses batch statistics or draws random numbers.

    >>> check_module(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)))
    Traceback (most recent call last):
    tacit.errors.TacitError: layer "1" (BatchNorm2d) mixes the records of a batch; use GroupNorm instead
    """
    for name, layer in module.named_modules():
        kind = f'layer "{name}" ({type(layer).__name__})'
        if isinstance(layer, _InstanceNorm):
            if layer.track_running_stats:
                raise TacitError(
                    f"{kind} stores running statistics of the records; "
                    "set track_running_stats=False or use GroupNorm instead"
                )
        elif isinstance(layer, _NormBase):
            raise TacitError(f"{kind} mixes the records of a batch; use GroupNorm instead")
        p = layer.p if isinstance(layer, _DropoutNd) else getattr(layer, "dropout", 0.0)
        if (isinstance(p, int | float) and p > 0) or isinstance(layer, nn.RReLU):
            raise TacitError(f"{kind} draws random numbers that are not derived from the run's seed; remove it")


def check_loss(loss: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> None:
    """Raise if, for two records, a loss does not return one number per record that depends on its output only.

    >>> check_loss(nn.CrossEntropyLoss(), torch.eye(2), torch.tensor([0, 1]))
    Traceback (most recent call last):
    tacit.errors.TacitError: a loss must return one number per record, shape (2,) here, got (); use reduction="none"
    """
    with torch.no_grad():
        together = loss(outputs, y)
        if together.shape != (2,):
            raise TacitError(
                "a loss must return one number per record, "
                f'shape (2,) here, got {tuple(together.shape)}; use reduction="none"'
            )
        separate = torch.cat([loss(outputs[:1], y[:1]), loss(outputs[1:], y[1:])])
    if bool((together - separate).abs().max() > _TOLERANCE * together.abs().max()):
        raise TacitError(
            "the loss of a record depends on the other records of the batch; use a loss that does not mix them"
        )


def check_independence(module: nn.Module, x: Tensor) -> None:
    """Raise if a forward pass on two records x (2, …) changes buffers or mixes the records.

    >>> class Centred(nn.Module):
    ...     def forward(self, x):
    ...         return x - x.mean(dim=0)
    >>> check_independence(Centred(), torch.eye(2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tacit.errors.TacitError: the model's output for a record depends on the other records of the batch ...
    """
    module = copy.deepcopy(module)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        together, separate = module(x), torch.cat([module(x[:1]), module(x[1:])])
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer, before[name]):
            raise TacitError(
                f'the model\'s forward pass changes its buffer "{name}"; use GroupNorm or remove the buffer'
            )
    # NaN passes this check; the run reports it.
    if together.shape != separate.shape or bool((together - separate).abs().max() > _TOLERANCE * together.abs().max()):
        raise TacitError(
            "the model's output for a record depends on the other records of the batch or is random; "
            "use layers that treat each record separately, such as GroupNorm"
        )
