"""Dropout with masks that are a function of seed, node, step and record."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks import Clip, Dataset, Model, Task
from tacit.tasks.models.dropout import MaskStream, mask_keys
from tests.tasks.module_cases import Called

RATE = 0.4
KINDS = {
    "Dropout": (nn.Dropout(RATE), (4, 3)),
    "Dropout1d": (nn.Dropout1d(RATE), (4, 3)),
    "Dropout2d": (nn.Dropout2d(RATE), (4, 3, 2)),
    "Dropout3d": (nn.Dropout3d(RATE), (4, 3, 2, 2)),
    "AlphaDropout": (nn.AlphaDropout(RATE), (4, 3)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout(RATE), (4, 3)),
}


def mlp():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(RATE), nn.Linear(8, 3)).double()


def records(count=6):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(1, count, 4, generator=generator, dtype=torch.float64)
    return x, torch.arange(count)[None] % 3, torch.ones(1, count, dtype=torch.float64)


def keys(step=0, count=6, nodes=(0,)):
    return mask_keys(Noise.from_seed(0), np.array(nodes), step, torch.arange(count).repeat(len(nodes), 1))


def test_gradients_are_those_of_autograd_with_the_same_masks():
    module, bound = mlp(), 0.2
    (x, y, weight), drawn = records(), keys()
    expected = torch.zeros(1, sum(p.numel() for p in module.parameters()), dtype=torch.float64)
    for b in range(6):
        stream = MaskStream()
        with stream.using(drawn[0, b : b + 1]):
            kept = stream.kept((1, 8), RATE)
        h = torch.tanh(module[0](x[0, b : b + 1]))
        loss = F.cross_entropy(module[3](h * kept / (1 - RATE)), y[0, b : b + 1])
        g = torch.cat([each.flatten() for each in torch.autograd.grad(loss, list(module.parameters()))])
        expected += min(1.0, bound / float(g.norm())) * g
    for engine in ("vectorised", "looped", "ghost", "auto"):
        model = Model(module, engine=engine)
        found = model.gradient_sum(model.initial()[None], x, y, weight, Clip(bound), keys=drawn)
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    without = Model(module).gradient_sum(model.initial()[None], x, y, weight, Clip(bound))
    assert not torch.allclose(without, expected, rtol=1e-2)


def test_sums_without_a_clip_have_the_same_masks():
    model = Model(mlp())
    (x, y, weight), drawn = records(), keys()
    looped = Model(mlp(), engine="looped").gradient_sum(model.initial()[None], x, y, weight, None, keys=drawn)
    found = model.gradient_sum(model.initial()[None], x, y, weight, None, keys=drawn)
    torch.testing.assert_close(found, looped, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_a_layer_drops_at_its_rate_and_in_its_shape(name):
    layer, shape = KINDS[name]
    model = Model(nn.Sequential(nn.Linear(shape[-1], shape[-1]), layer))
    replaced = model._objective.module[1]
    x, drawn = torch.ones(4000, *shape, dtype=torch.float64), keys(count=4000)[0]
    with model._objective.stream.using(drawn):
        outputs = replaced(x)
    dropped = outputs != outputs.max()
    rate = float(dropped.double().mean())
    assert abs(rate - RATE) < 0.02
    if "Alpha" in name:
        normal = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        with model._objective.stream.using(drawn):
            values = replaced(normal)
        assert abs(float(values.mean())) < 0.05
        assert abs(float(values.var()) - 1) < 0.1
    else:
        assert abs(float(outputs.mean()) - 1) < 0.05
    if name not in ("Dropout", "AlphaDropout"):
        channels = dropped.flatten(3) if name == "Dropout3d" else dropped
        axes = tuple(range(2, channels.dim()))
        assert torch.equal(channels.all(axes), channels.any(axes))
    with model._objective.stream.using(drawn[5:6]):
        assert torch.equal(replaced(x[5:6]), outputs[5:6])
    assert torch.equal(replaced(x), x)  # without keys there is no dropout


def test_masks_are_those_of_the_record_whatever_is_drawn_with_it():
    noise, nodes = Noise.from_seed(1), np.array([4, 9])
    drawn = mask_keys(noise, nodes, 3, torch.tensor([[5, 7], [5, 2]]))
    assert torch.equal(drawn[1, 1:], mask_keys(noise, nodes[1:], 3, torch.tensor([[2]]))[0])
    others = [mask_keys(noise, nodes, 4, torch.tensor([[5], [5]])), mask_keys(Noise.from_seed(2), nodes, 3, drawn)]
    assert len({*drawn.flatten().tolist(), *(key for each in others for key in each.flatten().tolist())}) == 10


SEQUENCES = {
    "LSTM": lambda: Called(
        lambda m, x: m.out(m.layer(x)[0][:, -1]),
        layer=nn.LSTM(4, 6, num_layers=2, dropout=0.5, batch_first=True),
        out=nn.Linear(6, 3),
    ),
    "attention": lambda: Called(
        lambda m, x: m.out(m.layer(x, x, x)[0].mean(1)),
        layer=nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True),
        out=nn.Linear(4, 3),
    ),
    "transformer": lambda: Called(
        lambda m, x: m.out(m.layer(x).mean(1)),
        layer=nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True),
        out=nn.Linear(4, 3),
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_dropout_inside_sequence_layers(name):
    torch.manual_seed(0)
    module = SEQUENCES[name]().double()
    model, looped = Model(module), Model(module, engine="looped")
    params = model.initial()[None]
    x, y, weight = torch.randn(1, 5, 6, 4).double(), torch.arange(5)[None] % 3, torch.ones(1, 5).double()
    assert model._gradients.choice.choose(params, x, y, Clip(0.3)) == "vectorised"
    found = model.gradient_sum(params, x, y, weight, Clip(0.3), keys=keys(count=5))
    alone = [
        looped.gradient_sum(
            params, *(part[:, b : b + 1] for part in (x, y, weight)), Clip(0.3), keys=keys(count=5)[:, b : b + 1]
        )
        for b in range(5)
    ]
    torch.testing.assert_close(found, torch.stack(alone).sum(0), rtol=1e-8, atol=1e-10)
    assert not torch.allclose(found, model.gradient_sum(params, x, y, weight, Clip(0.3), keys=keys(1, 5)))
    outputs = model.outputs(model.initial(), x[0])
    torch.testing.assert_close(outputs, model.trained_module(model.initial())(x[0]), rtol=1e-8, atol=1e-10)


def task(noise=0, rows=None):
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(rng.normal(size=(60, 4)), rng.integers(0, 3, 60), test=0.0, labels=[0, 1, 2])
    shards = np.split(np.arange(60), 3)
    whole = Task(Model(mlp()), data, shards, batch=8, noise=Noise.from_seed(noise))
    return whole if rows is None else whole.host(rows)


def test_masks_of_a_node_do_not_depend_on_where_it_is_hosted():
    whole = task()
    gradients = whole.gradient(whole.initial(), 2, Clip(1.0)).value
    for node in range(3):
        alone = task(rows=[node])
        one = alone.gradient(alone.initial(), 2, Clip(1.0)).value
        torch.testing.assert_close(one, gradients[node : node + 1], rtol=1e-5, atol=1e-7)
    assert torch.equal(gradients, task().gradient(whole.initial(), 2, Clip(1.0)).value)
    other = task(noise=1)
    assert not torch.allclose(gradients, other.gradient(other.initial(), 2, Clip(1.0)).value)


def test_a_batch_with_other_axes_is_refused_and_never_given_wrong_masks():
    stream = MaskStream()
    with stream.using(keys()[0]), pytest.raises(TacitError, match="records on the first axis"):
        stream.kept((5, 6, 2), RATE)
    assert stream.keys is None
