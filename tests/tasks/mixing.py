"""Modules and losses that mix the records of a batch, in ways that a look at a few small batches does not show."""

import torch
from torch import nn

from tacit.tasks.model import cross_entropy

LARGE_BATCH = 40  # larger than every batch on which modules are checked


def above(size, mix):
    """Mixes the rows of batches with more than `size` records only."""
    return lambda h: mix(h) if len(h) > size else h


def centred(h):
    return h - h.mean(0)


def ordered(h):
    return h.sort(0).values


def attended(h):
    return torch.softmax(h @ h.mT, 1) @ h


def shifted(h):
    return h + 9 * h.roll(1, 0)


def loud(h):
    """A record with a large value changes all others. Ordinary records change nothing."""
    return h * (1 + (h.detach().abs() - 100).relu().sum())


MIXES = {
    "centred": above(LARGE_BATCH, centred),
    "ordered": above(LARGE_BATCH, ordered),
    "attended": above(LARGE_BATCH, attended),
    "shifted": above(LARGE_BATCH, shifted),
    "loud": loud,
}


class Mixing(nn.Module):
    """Two layers with a mix of the records between them."""

    def __init__(self, mix):
        super().__init__()
        self.a, self.b, self.mix = nn.Linear(4, 5), nn.Linear(5, 3), mix

    def forward(self, x):
        return self.b(torch.tanh(self.mix(self.a(x))))


class MixingLinear(nn.Linear):
    """A subclass of a layer that all batch engines support."""

    def forward(self, x):
        return super().forward(loud(x))


def hooked():
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    module[0].register_forward_hook(lambda layer, args, output: loud(output))
    return module


def replaced_forward():
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    module[1].forward = lambda h: torch.tanh(loud(h))
    return module


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrised():
    """The weight depends on parameters only, but it is not what the batch engines differentiate."""
    linear = nn.utils.parametrize.register_parametrization(nn.Linear(4, 5), "weight", Doubled())
    return nn.Sequential(linear, nn.Tanh(), nn.Linear(5, 3))


MODULES = {
    **{name: lambda mix=mix: Mixing(mix) for name, mix in MIXES.items()},
    "subclass": lambda: nn.Sequential(MixingLinear(4, 5), nn.Tanh(), nn.Linear(5, 3)),
    "hook": hooked,
    "replaced forward": replaced_forward,
    "parametrised": parametrised,
    "softmax over records": lambda: nn.Sequential(nn.Linear(4, 3), nn.Softmax(0)),
}
LOSSES = {name: lambda out, y, mix=mix: cross_entropy(mix(out), y) for name, mix in MIXES.items()}
