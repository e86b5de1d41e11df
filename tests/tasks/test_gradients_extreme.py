"""The clipped gradient of one record has norm at most C for all finite records, in every engine."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from tacit.tasks import Clip, Model, models
from tacit.tasks.clipping import vector_norms

BOUNDS = [1e-6, 1e-4, 1e-2, 1.0, 1e3]
SIZES = [1e-44, 1e-38, 1e-30, 1e-20, 1e-10, 1.0, 52.0, 1e6, 1e12, 1e18, 1.5e19, 1e25, 1e36, 3e38]


def cancelling_words(scale):
    """Word vectors whose gradients at the first three positions add up to rounding errors."""
    net = nn.Sequential(nn.Embedding(5, 16), nn.Flatten(), nn.Linear(64, 10))
    with torch.no_grad():
        net[0].weight.mul_(1e-3 / scale)
        parts = net[2].weight.view(10, 4, 16)
        parts[:, :3] *= scale
        parts[:, 2] = -parts[:, 0] - parts[:, 1]
    return net


def mean_pooling(inputs):
    return nn.Sequential(nn.Linear(inputs[1], 32), nn.AvgPool2d((inputs[0], 1)), nn.Flatten(), nn.Linear(32, 10))


def pointwise_convolution():
    return nn.Sequential(nn.Conv2d(2, 8, 1), nn.AvgPool2d((2, 1)), nn.Flatten(), nn.Linear(8, 10))


def saturated(inputs, outputs):
    """One linear layer whose output gradient is tiny for a record (gap, …)."""
    layer = nn.Linear(math.prod(inputs), outputs, bias=False)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 0] = 1.0
    return layer


def tiny_hidden():
    net = nn.Sequential(nn.Linear(1, 4096, bias=False), nn.Linear(4096, 2, bias=False))
    with torch.no_grad():
        net[0].weight.fill_(1e-21)
        net[1].weight.copy_(torch.tensor([[2.5e-23], [-2.5e-23]]).expand(2, 4096))
    return net


def build(name, inputs):
    return models.build(name, {"inputs": inputs, "classes": 10})


MODELS = {
    "logistic": ((6,), lambda: build("logistic", (6,)), ("stacked", "ghost", "vectorised")),
    "mlp": ((6,), lambda: build("mlp", (6,)), ("stacked", "ghost", "vectorised")),
    "saturated": ((3,), lambda: saturated((3,), 100), ("stacked", "ghost", "vectorised")),
    "tiny hidden": ((1,), tiny_hidden, ("stacked", "ghost", "vectorised")),
    "cnn": ((1, 8, 8), lambda: build("cnn", (1, 8, 8)), ("convolutional", "ghost", "vectorised")),
    "mean pooling": ((2, 32), lambda: mean_pooling((2, 32)), ("ghost", "vectorised")),
    "pointwise convolution": ((2, 2, 1), pointwise_convolution, ("convolutional", "ghost", "vectorised")),
}


def records(shape):
    """Yield records with equal, growing, mixed and cancelling entries of every size."""
    rng = np.random.default_rng(0)
    count = math.prod(shape)
    for size in SIZES:
        yield torch.full(shape, size)
        a = torch.from_numpy(rng.normal(size=count)).clamp(-1, 1).double() * size
        yield a.float().reshape(shape)
        half = a[: (count + 1) // 2].reshape(-1)
        yield torch.cat([half, -half])[:count].float().reshape(shape)  # (a, −a)
        for gap in (51.0, 52.0, 53.0, 100.0):
            mixed = torch.zeros(count)
            mixed[0], mixed[1:2] = gap, size
            yield mixed.reshape(shape)


def clipped_norms(model, x, y, clip):
    """Return the norm of the clipped sum of each record, the only one with a weight in its batch."""
    n = len(x)
    batch = torch.stack([x, torch.ones_like(x)], 1)
    weight = torch.tensor([1.0, 0.0]).repeat(n, 1)
    labels = torch.stack([y, torch.zeros_like(y)], 1)
    g = model.gradient_sum(model.initial().repeat(n, 1), batch, labels, weight, clip)
    return torch.linalg.vector_norm(g.double(), clip.degree, dim=1)


def check(model, x, clip):
    for label in (0, 1):
        found = clipped_norms(model, x, torch.full((len(x),), label), clip)
        found = found[found.isfinite()]  # a contribution that is not finite counts as 0 in a task
        assert len(found)
        assert float(found.max()) <= clip.bound * (1 + 1e-5)


@pytest.mark.parametrize(
    ("name", "engine", "norm"),
    [
        (name, engine, norm)
        for name, (_, _, engines) in MODELS.items()
        for engine in engines
        for norm in ("l2", "l1", "smooth")
        if (engine, norm) != ("ghost", "l1")
    ],
)
def test_the_clipped_gradient_of_any_finite_record_is_within_the_bound(name, engine, norm):
    shape, make, _ = MODELS[name]
    torch.manual_seed(0)
    model = Model(make(), engine=engine)
    x = torch.stack(list(records(shape)))
    for bound in BOUNDS:
        check(model, x, Clip(bound, norm))


@pytest.mark.parametrize("engine", ["ghost", "vectorised"])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e12, 1e18])
def test_equal_words_whose_gradients_cancel_are_within_the_bound(engine, scale):
    torch.manual_seed(0)
    x = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], [4, 4, 4, 2], [1, 2, 3, 4]])
    model = Model(cancelling_words(scale), engine=engine)
    for bound in BOUNDS:
        for norm in ("l2", "smooth"):
            check(model, x, Clip(bound, norm))


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_batch_of_any_size_is_within_its_bound(bound):
    for norm in ("l2", "l1", "smooth"):
        clip = Clip(bound, norm, per="batch")
        g = torch.stack(list(records((70,))))
        clipped = clip.clip_rows(g)
        assert clipped.dtype == g.dtype
        assert float(torch.linalg.vector_norm(clipped.double(), clip.degree, dim=1).max()) <= bound * (1 + 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [3, 64, 1000])
@pytest.mark.parametrize("degree", [1, 2])
def test_norms_are_never_too_small(dtype, length, degree):
    smallest = torch.finfo(dtype).smallest_normal
    sizes = [smallest * 1e-5, smallest, smallest**0.5, 1e-16, 1.0, 1e15, torch.finfo(dtype).max / 2]
    g = torch.stack([torch.full((length,), size, dtype=dtype) for size in sizes])
    exact = torch.tensor([float(row[0]) * length ** (1 / degree) for row in g], dtype=torch.float64)
    found = vector_norms(g, degree)
    assert (found >= exact * (1 - 1e-6)).all()
    assert torch.allclose(found[:-1], exact[:-1], rtol=1e-6, atol=0)
    assert vector_norms(torch.zeros(2, length, dtype=dtype), degree).tolist() == [0.0, 0.0]
    assert vector_norms(torch.full((1, length), torch.nan, dtype=dtype), degree).isnan().all()
