"""Small finished runs of every head and of several models, and modules as users write them."""

import numpy as np
import torch
from torch import nn

from tacit.runs import Config, UserParts, from_config
from tacit.tasks import Dataset, Target
from tests.runs.cases import SMALL

TARGETS = {
    "classification": Target("class", ("low", "middle", "high"), name="risk"),
    "binary": Target("class", ("no", "yes"), name="outcome"),
    "multi-label": Target("labels", ("cough", "fever")),
    "regression": Target("number", range=(0.0, 60.0), name="days"),
    "counts": Target("count", range=(0.0, 20.0), name="visits"),
}


class Net(nn.Module):
    """A module with a frozen parameter, a buffer, and one parameter under two names."""

    def __init__(self, inputs=4, outputs=3):
        super().__init__()
        self.first = nn.Linear(inputs, inputs, bias=False)
        self.second = nn.Linear(inputs, inputs)
        self.second.weight = self.first.weight
        self.last = nn.Linear(inputs, outputs)
        self.scale = nn.Parameter(torch.full((inputs,), 2.0), requires_grad=False)
        self.register_buffer("shift", torch.full((inputs,), 0.5))

    def forward(self, x):
        return self.last(torch.tanh(self.second(torch.tanh(self.first(x * self.scale + self.shift)))))


def net(inputs, classes):
    """The same module, for a config: `model.name = "trained.py:net"`."""
    return Net(inputs[0], classes)


def records(target, count=60, inputs=(4,), seed=0):
    """A data set with random records."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *inputs, generator=draw)
    score = x.flatten(1).sum(1)
    if target.kind == "class":
        y = (score > 0).long() + (score > 1).long() * (target.classes > 2)
    elif target.kind == "labels":
        y = torch.stack([score > 0, score < 1], 1).float()
    else:
        y = target.encode(10 + 2 * score)
    return Dataset("records", x[20:], y[20:], x[:20], y[:20], target=target)


def trained(task="classification", model="logistic", *, data=None, out=None, parts=None, observers=(), **changes):
    """A finished run of a task on random records."""
    data = records(TARGETS[task]) if data is None else data
    table = {"task": task, "model": model, "data": "python: Dataset", "sharding": "python: list", "rounds": 6}
    table |= {"batch": {"size": 8}, **changes}
    given = UserParts(data=data, sharding=np.array_split(np.arange(len(data.y)), 5), **(parts or {}))
    return from_config(Config.parse(SMALL | table), given, out=out, observers=observers).go()
