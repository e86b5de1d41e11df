import pytest
import torch
from torch import nn

from tacit.errors import TacitError
from tacit.tasks.models import check_independence, check_module, models
from tacit.tasks.models.synthetic import RecordForm

SMALL = {
    "logistic": {},
    "mlp": {},
    "cnn": {},
    "resnet10": {"width": 4},
    "resnet18": {"width": 4},
    "vit": {"width": 8, "depth": 1},
}
IMAGES = ["cnn", "resnet10", "resnet18", "vit"]


def size(module):
    return sum(p.numel() for p in module.parameters())


def test_all_models_are_registered_with_a_description():
    assert list(models) == sorted([*SMALL, "nonconvex-logistic"])
    assert all(models.describe().values())


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("inputs", [(1, 28, 28), (3, 32, 32), (1, 8, 8)])
def test_output_shapes_and_independence_of_records(name, inputs):
    torch.manual_seed(0)
    module = models.build(name, {"inputs": inputs, "classes": 7, **SMALL[name]})
    check_module(module)
    check_independence(module, RecordForm(inputs, torch.float32, (), torch.int64))
    assert module(torch.randn(3, *inputs)).shape == (3, 7)


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_flat_inputs(name):
    assert models.build(name, {"inputs": [12], "classes": 3})(torch.zeros(2, 12)).shape == (2, 3)


@pytest.mark.parametrize("name", IMAGES)
def test_image_models_refuse_flat_inputs(name):
    with pytest.raises(TacitError, match=rf"model {name} needs images .* got inputs of shape \(12,\)"):
        models.build(name, {"inputs": (12,), "classes": 3})


def test_partpsp_network():
    module = models.build("mlp", {"inputs": (1, 28, 28), "classes": 10, "hidden": (10, 784), "biases": False})
    assert [p.numel() for p in module.parameters()] == [7840, 7840, 7840]
    assert [type(layer) for layer in module[1:]] == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]


def test_sizes():
    assert size(models.build("logistic", {"inputs": (1, 28, 28), "classes": 10})) == 7850
    assert size(models.build("logistic", {"inputs": (784,), "classes": 10, "biases": False})) == 7840
    assert size(models.build("cnn", {"inputs": (1, 28, 28), "classes": 10})) == 26_010
    assert 11.1e6 < size(models.build("resnet18", {"inputs": (3, 32, 32), "classes": 10})) < 11.3e6
    assert size(models.build("vit", {"inputs": (3, 32, 32), "classes": 10})) < 200_000


@pytest.mark.parametrize(
    ("name", "params", "sentence"),
    [
        ("vit", {"patch": 5}, "patch must divide the image size 8×8, got 5"),
        ("vit", {"heads": 5}, "heads must divide width = 64, got 5"),
        ("cnn", {"inputs": (1, 5, 5)}, "at least 7×7 pixels, got 5×5"),
        ("mlp", {"activation": "tan"}, "activation = 'tan'"),
    ],
)
def test_invalid_parameters_are_refused(name, params, sentence):
    with pytest.raises(TacitError, match=sentence):
        models.build(name, {"inputs": (1, 8, 8), "classes": 2, **params})


@pytest.mark.parametrize(
    ("layer", "sentence"),
    [
        (
            nn.BatchNorm2d(4),
            r'layer "body.1" \(BatchNorm2d\) mixes the records of a batch: call .eval\(\) on it to freeze',
        ),
        (nn.BatchNorm1d(4, track_running_stats=False).eval(), r"BatchNorm1d.* no running statistics.*Model.fix"),
        (nn.SyncBatchNorm(4), "SyncBatchNorm"),
        (nn.LazyBatchNorm2d(), "LazyBatchNorm2d"),
        (
            nn.InstanceNorm2d(4, track_running_stats=True),
            "stores running statistics .* track_running_stats=False",
        ),
        (type("OwnDropout", (nn.Dropout,), {})(0.1), r'layer "body.1" \(OwnDropout\) draws random numbers'),
        (nn.LazyLinear(3), r'layer "body.1" \(LazyLinear\) is lazy and has no shape yet'),
        (nn.RReLU(), r'"body.1" \(RReLU\) draws random numbers'),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_layers_that_mix_records_or_draw_are_refused(layer, sentence):
    module = nn.Sequential()
    module.body = nn.Sequential(nn.Identity(), layer)
    with pytest.raises(TacitError, match=sentence):
        check_module(module)


def test_other_layers_are_accepted():
    layers = (nn.InstanceNorm2d(4), nn.GroupNorm(2, 4), nn.Dropout(0.5), nn.LayerNorm(4), nn.RReLU().eval())
    frozen = (nn.BatchNorm2d(4).eval(), nn.InstanceNorm2d(4, track_running_stats=True).eval(), nn.AlphaDropout(0.5))
    assert check_module(nn.Sequential(*layers, *frozen)) is None
