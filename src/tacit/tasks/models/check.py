"""Checks that the output for a record depends on that record only, without which no record is protected."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from tacit.device import as_double
from tacit.errors import TacitError
from tacit.tasks.models.adapter import tensor_output
from tacit.tasks.models.frozen_norm import is_frozen
from tacit.tasks.models.per_record import RecordLoss, cross_entropy, is_known_loss, is_per_record, separate_losses
from tacit.tasks.models.replacement import has_keyed_form
from tacit.tasks.models.state import differences
from tacit.tasks.models.synthetic import RecordForm, try_on_random_batches

_TOLERANCE = 1e-3  # relative; rounding errors are much smaller
_SIZES = 2, 3, 8, 32  # of the random batches
_FEW_SIZES = 2, 3  # enough for a known module: its layers either accept records of this form or they do not


def check_module(module: nn.Module) -> None:
    """Raise if a layer uses batch statistics, or draws random numbers that cannot be derived from the run's seed.

    >>> check_module(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)))
    Traceback (most recent call last):
    tacit.errors.TacitError: layer "1" (BatchNorm2d) mixes the records of a batch: call .eval() on it to freeze it, or \
replace it with Model.fix(module)
    >>> check_module(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)).eval())
    """
    for name, layer in module.named_modules():
        kind = f'layer "{name}" ({type(layer).__name__})'
        if isinstance(layer, _NormBase):
            _check_norm(layer, kind)
        is_random = isinstance(layer, _DropoutNd) and layer.p > 0 and not has_keyed_form(layer)
        if layer.training and (is_random or isinstance(layer, nn.RReLU)):
            raise TacitError(
                f"{kind} draws random numbers that are not derived from the run's seed: use nn.Dropout, call .eval() "
                "on the layer, or remove it"
            )
    check_initialised(module)


def check_initialised(module: nn.Module) -> None:
    """Raise if a lazy layer has no shape yet."""
    for name, layer in module.named_modules():
        tensors = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
        if any(map(is_lazy, tensors)):
            raise TacitError(
                f'layer "{name}" ({type(layer).__name__}) is lazy and has no shape yet: call the module once, on '
                "a batch of zeros"
            )


def _check_norm(layer: _NormBase, kind: str) -> None:
    """Raise if a normalisation uses or stores statistics of several records."""
    if isinstance(layer, _InstanceNorm):
        if layer.track_running_stats and not is_frozen(layer):
            raise TacitError(
                f"{kind} stores running statistics of the records: set track_running_stats=False, call .eval() on it "
                "to freeze it, or replace it with Model.fix(module)"
            )
    elif layer.training and layer.track_running_stats:
        raise TacitError(
            f"{kind} mixes the records of a batch: call .eval() on it to freeze it, or replace it with "
            "Model.fix(module)"
        )
    elif not is_frozen(layer):
        raise TacitError(
            f"{kind} mixes the records of a batch, as it has no running statistics: replace it with Model.fix(module)"
        )


def check_independence(module: nn.Module, form: RecordForm, loss: RecordLoss = cross_entropy) -> None:
    """Raise if the module or the loss mixes the records of random batches, or if the module keeps a state.

    Privacy:
        No private record is used, so a refusal reveals nothing. The check cannot find a module that mixes records only
        in other batches. Such a module is harmless for gradients, since only modules that `is_per_record` knows are
        differentiated in batches. It also cannot find a state that is kept outside the module, for example in a global
        variable.

    >>> class Centred(nn.Module):
    ...     def forward(self, x):
    ...         return x - x.mean(dim=0)
    >>> check_independence(Centred(), RecordForm((4,), torch.float32, (), torch.int64))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tacit.errors.TacitError: the model's output for a record depends on the other records of the batch ...
    """
    sizes = _FEW_SIZES if is_per_record(module) and is_known_loss(loss) else _SIZES
    module = _perturbed(module)
    before = copy.deepcopy(module)

    def check(x: Tensor, y: Tensor) -> None:
        with torch.random.fork_rng(devices=[]):
            with torch.enable_grad():  # as in training
                separate = torch.cat([_output(module, record) for record in x.unsqueeze(1)])
            with torch.no_grad():  # as in evaluation
                together = [_output(module, x[:size]) for size in sizes]
        for name in differences(before, module):
            raise TacitError(
                f'the model\'s forward pass changes its attribute "{name}", through which a record could influence '
                "later ones; set the attribute in __init__ or remove it"
            )
        if any(_differ(outputs, separate[: len(outputs)]) for outputs in together):
            raise TacitError(
                "the model's output for a record depends on the other records of the batch or is random; "
                "use layers that treat each record separately, such as GroupNorm, and nn.Dropout for random numbers"
            )
        _check_losses(loss, separate, y, sizes)

    try_on_random_batches(check, form, max(sizes), "the model or the loss fails")


def _perturbed(module: nn.Module) -> nn.Module:
    """Return a copy with parameters that are not zero, since zeros would hide a difference."""
    module = copy.deepcopy(module).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in filter(Tensor.is_floating_point, module.parameters()):
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.add_(0.05 * noise.to(parameter.dtype).to(parameter.device))
    return module


def _output(module: nn.Module, x: Tensor) -> Tensor:
    output = tensor_output(module(x))
    if output.shape[:1] != x.shape[:1]:
        raise TacitError(
            f"a model must return a tensor with one row per record, {len(x)} here, got shape {tuple(output.shape)}"
        )
    return output


def _check_losses(loss: RecordLoss, outputs: Tensor, y: Tensor, sizes: Sequence[int]) -> None:
    """Raise if a loss does not return one number per record that depends on its own output only."""
    for size in sizes:
        with torch.no_grad():
            together = loss(outputs[:size], y[:size])
        if together.shape != (size,):
            raise TacitError(
                f"a loss must return one number per record, shape ({size},) here, got {tuple(together.shape)}; "
                'use reduction="none"'
            )
        with torch.no_grad():
            try:
                separate = separate_losses(loss, outputs[:size], y[:size])
            except RuntimeError as error:
                raise TacitError(
                    "the loss cannot be evaluated separately for each record with torch.vmap; "
                    f"use tensor operations only: {error}"
                ) from error
        if _differ(together, separate):
            raise TacitError(
                "the loss of a record depends on the other records of the batch; use a loss that does not mix them"
            )


def _differ(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors differ by more than rounding errors."""
    if one.shape != other.shape:
        return True
    one, other = as_double(one), as_double(other)
    largest = one[one.isfinite()].abs().max() if bool(one.isfinite().any()) else 0.0
    return not torch.allclose(one, other, rtol=0, atol=_TOLERANCE * float(largest), equal_nan=True)
