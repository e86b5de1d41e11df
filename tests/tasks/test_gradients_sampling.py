"""Gradients of every engine, built-in model, clip and sampling kind, compared with a loop over the drawn records."""

import copy
from typing import get_args

import numpy as np
import pytest
import torch

from tacit.privacy import Noise, sampling_kinds
from tacit.tasks import Clip, Dataset, Model, Target, Task
from tacit.tasks.clipping import clip_norms
from tacit.tasks.gradients import Gradients
from tacit.tasks.gradients.engine_choice import Engine
from tacit.tasks.model import cross_entropy
from tacit.tasks.models import models
from tests.tasks.oracles import module_loss, naive_clipped_sum, naive_gradients
from tests.tasks.test_gradients import ENGINES, MODELS, applicable, build, close

RECORDS, BATCH, CLASSES = 6, 3, 4
FAMILIES = [("mlp", ["stacked", "vectorised", "looped", "summed"]), ("cnn", ["convolutional", "ghost"])]


def test_every_built_in_model_is_here():
    assert set(models) - {"nonconvex-logistic"} == set(MODELS)  # test_nonconvex compares that one with its formula


def test_every_engine_is_here():
    assert set(get_args(Engine)) == {*ENGINES, "summed"}
    assert {engine for _, engines in FAMILIES for engine in engines} == set(get_args(Engine)) - {"auto"}


def task_of(name, kind, engine):
    inputs = MODELS[name][0]
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2 * RECORDS, *inputs, generator=generator)
    y = torch.randint(CLASSES, (2 * RECORDS,), generator=generator)
    data = Dataset("random", x, y, x, y, Target.of_classes(CLASSES))
    batch = None if kind == "none" else BATCH
    parts = np.split(np.arange(2 * RECORDS), 2)
    return Task(Model(build(name), engine=engine), data, parts, batch=batch, sampling=kind, noise=Noise.from_seed(1))


def drawn(task, step):
    """The drawn records of every node, and their weights."""
    draw = task.sampler.draw(step)
    index = torch.stack([torch.from_numpy(shard)[row] for shard, row in zip(task.shards, draw.records, strict=True)])
    weight = draw.weight.double() / torch.from_numpy(task.sampler.batch)[:, None]
    return task.data.x[index].double(), task.data.y[index], weight


def sums(name, kind, norms):
    """Yield every clip with the sum that it gives: None, each norm per record, and a clip per batch."""
    task = task_of(name, kind, "auto")
    model = task.model
    record = module_loss(copy.deepcopy(build(name)).double(), model.layout, cross_entropy)
    x, y, weight = drawn(task, 0)
    gradients = naive_gradients(record, parameters(task).double(), x, y)
    plain = naive_clipped_sum(gradients, weight, model.shared)
    bound = 0.7 * float(plain.norm(dim=1).mean())
    yield None, plain
    for norm in norms:
        scale = bound * (model.d**0.5 if norm.endswith("l1") else 1)
        yield Clip(scale, norm), naive_clipped_sum(gradients, weight, model.shared, scale, norm)
    yield Clip(bound, per="batch"), plain * (bound / plain.norm(dim=1, keepdim=True)).clamp(max=1)


def parameters(task):
    return task.initial() + 0.1 * torch.randn(task.n, task.d, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def used(monkeypatch):
    """The engines that have computed a sum."""
    found, run = [], Gradients._run
    monkeypatch.setattr(Gradients, "_run", lambda self, *given: [found.append(given[0]), run(self, *given)][1])
    return found


def check(name, kind, engines, norms, used):
    expected = list(sums(name, kind, norms))
    for engine in engines:
        task = task_of(name, kind, engine)
        for clip, wanted in expected:
            per_record = clip is not None and clip.per == "record"
            if per_record and (engine == "summed" or not applicable(engine, name, clip.norm)):
                continue
            used.clear()
            close(task.gradient(parameters(task), 0, clip).use_locally(), wanted, 1e-5)
            assert engine == "auto" or set(used) == {engine}


@pytest.mark.parametrize("name", MODELS)
def test_every_engine_and_clip_equals_the_mean_over_the_drawn_records(name, used):
    """With Poisson sampling, which pads batches."""
    engines = [each for each in [*ENGINES, "summed"] if each == "looped" or applicable(each, name, "l2")]
    check(name, "poisson", engines, list(clip_norms), used)


@pytest.mark.parametrize(("name", "engines"), FAMILIES)
@pytest.mark.parametrize("kind", [kind for kind in sampling_kinds if kind != "poisson"])
def test_every_sampling_kind_gives_the_mean_over_the_drawn_records(name, engines, kind, used):
    check(name, kind, engines, ["l2", "l1"], used)
