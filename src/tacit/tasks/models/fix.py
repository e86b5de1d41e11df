"""Replaces layers that mix the records of a batch by layers that treat each record separately."""

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.errors import TacitError
from tacit.tasks.models.check import check_initialised

_MAX_GROUPS = 32
_CHANNELS_PER_GROUP = 16  # a group of one channel and one position has no variance


def fixed_module(module: nn.Module) -> nn.Module:
    """Return a copy in which GroupNorm replaces BatchNorm; see `Model.fix`.

    >>> [type(layer).__name__ for layer in fixed_module(nn.Sequential(nn.Linear(3, 48), nn.BatchNorm1d(48)))]
    ['Linear', 'GroupNorm']
    """
    check_initialised(module)
    module = copy.deepcopy(module)
    done: dict[nn.Module, nn.Module] = {}
    for parent in list(module.modules()):
        for name, child in parent._modules.items():
            if child is not None:
                parent._modules[name] = done.setdefault(child, _fixed(child))
    return _fixed(module)


def group_count(channels: int) -> int:
    """Return the largest divisor of `channels` up to 32 that leaves at least 16 channels per group; 1 if none does.

    >>> [group_count(channels) for channels in (8, 48, 64, 100, 1024)]
    [1, 3, 4, 5, 32]
    """
    most = max(1, min(_MAX_GROUPS, channels // _CHANNELS_PER_GROUP))
    return next(count for count in range(most, 0, -1) if channels % count == 0)


def _fixed(layer: nn.Module) -> nn.Module:
    if isinstance(layer, _InstanceNorm):
        if layer.track_running_stats:
            layer.track_running_stats = False
            layer.running_mean = layer.running_var = layer.num_batches_tracked = None
        return layer
    if not isinstance(layer, _BatchNorm):
        return layer
    if layer.num_features < 1:
        raise TacitError(f"{type(layer).__name__} has no channels, so GroupNorm cannot replace it")
    like = next(layer.parameters(), torch.empty(0))
    norm = nn.GroupNorm(
        group_count(layer.num_features), layer.num_features, layer.eps, layer.affine, like.device, like.dtype
    )
    if layer.affine:
        norm.weight, norm.bias = layer.weight, layer.bias
    return norm.train(layer.training)
