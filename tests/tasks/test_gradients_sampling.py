"""Gradients of every built-in model, clip and sampling kind, compared with a loop over the drawn records."""

import copy

import numpy as np
import pytest
import torch

from tacit.privacy import Noise, sampling_kinds
from tacit.tasks import Clip, Dataset, Model, Target, Task
from tacit.tasks.clipping import clip_norms
from tacit.tasks.model import cross_entropy
from tacit.tasks.models import models
from tests.tasks.oracles import module_loss, naive_clipped_sum, naive_gradients
from tests.tasks.test_gradients import MODELS, build, close

RECORDS, BATCH, CLASSES = 6, 3, 4


def test_every_built_in_model_is_here():
    assert set(models) - {"nonconvex-logistic"} == set(MODELS)  # test_nonconvex compares that one with its formula


def task_of(name, kind):
    inputs = MODELS[name][0]
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2 * RECORDS, *inputs, generator=generator)
    y = torch.randint(CLASSES, (2 * RECORDS,), generator=generator)
    data = Dataset("random", x, y, x, y, Target.of_classes(CLASSES))
    batch = None if kind == "none" else BATCH
    parts = np.split(np.arange(2 * RECORDS), 2)
    return Task(Model(build(name)), data, parts, batch=batch, sampling=kind, noise=Noise.from_seed(1))


def drawn(task, step):
    """The drawn records of every node, and their weights."""
    draw = task.sampler.draw(step)
    index = torch.stack([torch.from_numpy(shard)[row] for shard, row in zip(task.shards, draw.records, strict=True)])
    weight = draw.weight.double() / torch.from_numpy(task.sampler.batch)[:, None]
    return task.data.x[index].double(), task.data.y[index], weight


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", list(sampling_kinds))
def test_gradients_equal_the_mean_over_the_drawn_records(name, kind):
    task = task_of(name, kind)
    model = task.model
    record = module_loss(copy.deepcopy(build(name)).double(), model.layout, cross_entropy)
    generator = torch.Generator().manual_seed(3)
    params = task.initial() + 0.1 * torch.randn(task.n, model.d, generator=generator)
    x, y, weight = drawn(task, 0)
    gradients = naive_gradients(record, params.double(), x, y)

    def check(wanted, clip):
        close(task.gradient(params, 0, clip).use_locally(), wanted, 1e-5)

    plain = naive_clipped_sum(gradients, weight, model.shared)
    check(plain, None)
    bound = 0.7 * float(plain.norm(dim=1).mean())
    for norm in clip_norms:
        scale = bound * (model.d**0.5 if norm.endswith("l1") else 1)
        check(naive_clipped_sum(gradients, weight, model.shared, scale, norm), Clip(scale, norm))
    check(plain * (bound / plain.norm(dim=1, keepdim=True)).clamp(max=1), Clip(bound, per="batch"))
