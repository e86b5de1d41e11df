"""The list of modules that are known to treat each record separately."""

import copy
import math

import pytest
import torch
from torch import nn

from tacit.tasks import Clip, Model, models
from tacit.tasks.models.per_record import _KNOWN, is_per_record

BUILT_IN = {
    "logistic": ((1, 8, 8), {}, "stacked", "stacked", "stacked"),
    "mlp": ((1, 8, 8), {}, "stacked", "stacked", "stacked"),
    "cnn": ((1, 8, 8), {}, "convolutional", "convolutional", "convolutional"),
    "resnet10": ((1, 8, 8), {"width": 8}, "ghost", "vectorised", "summed"),
    "resnet18": ((1, 8, 8), {"width": 8}, "ghost", "vectorised", "summed"),
    "vit": ((1, 8, 8), {"width": 8}, "ghost", "vectorised", "summed"),
    "nonconvex-logistic": ((64,), {}, "vectorised", "vectorised", "summed"),
}


def build(name):
    inputs, params = BUILT_IN[name][:2]
    return models.build(name, {"inputs": inputs, "classes": 2, **params})


@pytest.mark.parametrize("name", list(models))
def test_built_in_models_are_known_and_use_the_fastest_engine(name):
    module = build(name)
    assert is_per_record(module)
    model, inputs = Model(module), BUILT_IN[name][0]
    size = max(1, 1_100_000 // model.d)
    params, x, y = (
        model.initial()[None],
        torch.zeros(1, 1, *inputs).expand(1, size, *inputs),
        torch.zeros(1, size).long(),
    )
    chosen = [model._gradients.choice.choose(params, x, y, clip) for clip in (Clip(1.0), Clip(1.0, "l1"), None)]
    assert chosen == list(BUILT_IN[name][2:])


# One layer of every known type, with the shape of a record.
EXAMPLES = {
    **{
        kind: (kind(), (4,))
        for kind in _KNOWN
        if kind.__module__ == "torch.nn.modules.activation"
        and kind not in (nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.GLU)
    },
    nn.Identity: (nn.Identity(), (4,)),
    nn.Sequential: (nn.Sequential(nn.Tanh(), nn.Linear(4, 2)), (4,)),
    nn.Linear: (nn.Linear(4, 2), (3, 4)),
    nn.Conv1d: (nn.Conv1d(2, 3, 2, padding_mode="circular", padding=1), (2, 5)),
    nn.Conv2d: (nn.Conv2d(2, 2, 2, groups=2), (2, 4, 4)),
    nn.Conv3d: (nn.Conv3d(1, 2, 2), (1, 3, 3, 3)),
    nn.MaxPool1d: (nn.MaxPool1d(2), (4,)),
    nn.MaxPool2d: (nn.MaxPool2d(2), (4, 4)),
    nn.MaxPool3d: (nn.MaxPool3d(2), (4, 4, 4)),
    nn.AvgPool1d: (nn.AvgPool1d(2), (4,)),
    nn.AvgPool2d: (nn.AvgPool2d(2), (4, 4)),
    nn.AvgPool3d: (nn.AvgPool3d(2), (4, 4, 4)),
    nn.AdaptiveAvgPool1d: (nn.AdaptiveAvgPool1d(1), (4,)),
    nn.AdaptiveAvgPool2d: (nn.AdaptiveAvgPool2d(1), (4, 4)),
    nn.AdaptiveMaxPool1d: (nn.AdaptiveMaxPool1d(1), (4,)),
    nn.AdaptiveMaxPool2d: (nn.AdaptiveMaxPool2d(1), (4, 4)),
    nn.GroupNorm: (nn.GroupNorm(2, 4), (4,)),
    nn.LayerNorm: (nn.LayerNorm(4), (3, 4)),
    nn.RMSNorm: (nn.RMSNorm(4), (3, 4)),
    nn.PReLU: (nn.PReLU(4), (4, 2)),
    **{kind: (kind(dim=-1), (4,)) for kind in (nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.GLU)},
    nn.Flatten: (nn.Flatten(), (2, 3)),
    nn.Embedding: (nn.Embedding(2, 3, padding_idx=1), (4,)),
    nn.InstanceNorm1d: (nn.InstanceNorm1d(3), (3, 4)),
    nn.InstanceNorm2d: (nn.InstanceNorm2d(3), (3, 4, 4)),
    nn.InstanceNorm3d: (nn.InstanceNorm3d(3), (3, 4, 4, 4)),
    **{kind: (kind(0.0), (3, 4, 4)) for kind in (nn.Dropout, nn.Dropout2d)},
    nn.Dropout1d: (nn.Dropout1d(0.0), (3, 4)),
    nn.Dropout3d: (nn.Dropout3d(0.0), (3, 4, 4, 4)),
}
PACKAGE = {kind for kind in _KNOWN if kind.__module__.startswith("tacit")}


def test_every_known_layer_has_an_example():
    assert set(EXAMPLES) == set(_KNOWN) - PACKAGE
    assert {kind.__name__ for kind in PACKAGE} == {
        *("NonconvexLogistic", "ResNet", "ResidualBlock", "ViT", "TransformerBlock", "Attention", "PositionEmbedding"),
        *(f"KeyedDropout{dimensions}" for dimensions in ("", "1d", "2d", "3d")),
        *("KeyedAlphaDropout", "KeyedFeatureAlphaDropout"),
        *(f"FrozenBatchNorm{dimensions}" for dimensions in ("1d", "2d", "3d")),
    }


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_change_of_one_record_changes_no_other_output_of_a_known_layer(kind):
    layer, shape = EXAMPLES[kind]
    assert is_per_record(layer)
    torch.manual_seed(0)
    x = torch.randint(0, 2, (6, *shape)) if kind is nn.Embedding else torch.randn(6, *shape, dtype=torch.float64)
    layer = copy.deepcopy(layer).double()
    changes = 0
    for size in range(1, 7):
        other = x[:size].clone()
        other[-1] = 1 - other[-1] if kind is nn.Embedding else 1e6 * other[-1].flip(-1)
        one, two = layer(x[:size]), layer(other)
        assert len(one) == size
        assert one[:-1].equal(two[:-1])
        changes += not one[-1].equal(two[-1])
    assert changes


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Parameter(nn.Parameter):
    """A subclass of tensors can redefine every operation."""


def changed(change):
    module = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    change(module)
    return module


def noop(*_):
    return None


UNKNOWN = {
    "subclass": lambda: nn.Sequential(Doubled(4, 3)),
    "subclass of Sequential": lambda: type("Chain", (nn.Sequential,), {})(nn.Linear(4, 3)),
    "other layer": lambda: nn.Sequential(nn.LSTM(4, 3, batch_first=True)),
    "attention over records": lambda: nn.MultiheadAttention(4, 2),
    "softmax over records": lambda: nn.Softmax(0),
    "softmax over an axis that may be the records": lambda: nn.Softmax(-2),
    "softmax without axis": lambda: nn.Softmax(),
    "flattened records": lambda: nn.Flatten(0),
    "last axes flattened": lambda: nn.Flatten(-2),
    "frequencies in the batch": lambda: nn.Embedding(4, 3, scale_grad_by_freq=True),
    "weights changed in the forward pass": lambda: nn.Embedding(4, 3, max_norm=1.0),
    "running statistics": lambda: nn.InstanceNorm1d(4, track_running_stats=True),
    "dropout": lambda: nn.Dropout(0.5),
    "parametrisation": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)),
    "forward hook": lambda: changed(lambda m: m[0].register_forward_hook(noop)),
    "forward hook of the chain": lambda: changed(lambda m: m.register_forward_hook(noop)),
    "forward pre-hook": lambda: changed(lambda m: m[1].register_forward_pre_hook(noop)),
    "backward hook": lambda: changed(lambda m: m[1].register_full_backward_hook(noop)),
    "backward pre-hook": lambda: changed(lambda m: m[1].register_full_backward_pre_hook(noop)),
    "own forward": lambda: changed(lambda m: setattr(m[1], "forward", torch.tanh)),
    "own call": lambda: changed(lambda m: setattr(m[1], "_call_impl", torch.tanh)),
    "own convolution": lambda: changed(lambda m: setattr(m.append(nn.Conv2d(1, 1, 1))[2], "_conv_forward", noop)),
    "own tensor": lambda: changed(lambda m: setattr(m[0], "bias", Parameter(torch.zeros(3)))),
    "unknown part that is not called": lambda: changed(lambda m: setattr(m[1], "part", Doubled(4, 3))),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_modules(name):
    module = UNKNOWN[name]()
    assert not is_per_record(module)
    assert not is_per_record(nn.Sequential(nn.Identity(), module))
    assert not is_per_record(copy.deepcopy(module))


def test_a_hook_for_all_modules_makes_every_module_unknown():
    module = nn.Linear(4, 3)
    model = Model(module)
    params, x, y = model.initial()[None], torch.zeros(1, 5, 4), torch.zeros(1, 5).long()
    assert model._gradients.choice.choose(params, x, y, Clip(1.0)) == "stacked"
    for register in (
        nn.modules.module.register_module_forward_hook,
        nn.modules.module.register_module_forward_pre_hook,
        nn.modules.module.register_module_full_backward_hook,
    ):
        handle = register(noop)
        try:
            assert not is_per_record(module)
            assert model._gradients.choice.choose(params, x, y, Clip(1.0)) == "vectorised"
        finally:
            handle.remove()
    assert is_per_record(module)


def test_attention_of_the_built_in_transformer_does_not_accept_records_as_positions():
    attention = next(m for m in build("vit").modules() if type(m).__name__ == "Attention")
    with pytest.raises(IndexError):
        attention(torch.zeros(5, 8))


@pytest.mark.parametrize(
    "make",
    [
        lambda linear: nn.Sequential(linear, linear),
        lambda linear: type("Chain", (nn.Sequential,), {"forward": lambda m, x: 9 * m[0](x)})(linear),
        lambda linear: changed(lambda m: setattr(m[0], "forward", lambda x: 9 * x)),
        lambda linear: nn.Sequential(linear, nn.Tanh()),
        lambda linear: nn.Sequential(Doubled(4, 4)),
    ],
    ids=["used twice", "subclass", "own forward", "activation", "subclass of Linear"],
)
def test_smoothness_is_known_for_exactly_one_linear_layer(make):
    """Böhning's bound is part of a guarantee, so it must not be used for another function."""
    assert Model(make(nn.Linear(4, 4))).longest_input(2.0) is None
    assert Model(nn.Sequential(nn.Flatten(), nn.Linear(4, 4))).longest_input(2.0) == math.sqrt(3)
    assert Model(nn.Linear(4, 4, bias=False)).longest_input(1.5) == math.sqrt(3)
    penalised = nn.Sequential(nn.Linear(4, 4))
    penalised.penalty = lambda parameters: parameters["0.weight"].square().sum()
    assert Model(penalised).longest_input(2.0) is None
