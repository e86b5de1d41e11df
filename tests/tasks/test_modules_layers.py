"""Replaced layers against torch's own, and `Model.fix`."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from tacit.errors import TacitError
from tacit.tasks import Clip, Model
from tacit.tasks.models.fix import group_count
from tacit.tasks.models.replacement import replace_layers, restore_layers
from tests.tasks.module_cases import Called

RECURRENT = {
    f"{kind.__name__} {options}": (kind, options)
    for kind, options in [
        (nn.RNN, {"num_layers": 2, "bias": False}),
        (nn.RNN, {"nonlinearity": "relu", "bidirectional": True, "batch_first": True}),
        (nn.GRU, {"num_layers": 2, "bidirectional": True}),
        (nn.GRU, {"batch_first": True, "bias": False}),
        (nn.LSTM, {"num_layers": 3, "bidirectional": True, "batch_first": True}),
        (nn.LSTM, {"num_layers": 2, "proj_size": 2, "bidirectional": True}),
    ]
}


def flat(result):
    """All tensors of nested tuples."""
    return [result] if isinstance(result, torch.Tensor) else [each for part in result for each in flat(part)]


def replaced(layer):
    other = copy.deepcopy(layer)
    replace_layers(other)
    assert type(other) is not type(layer)
    return other


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_have_torchs_values(name):
    torch.manual_seed(0)
    kind, options = RECURRENT[name]
    layer = kind(3, 4, **options).double()
    other, x = replaced(layer), torch.randn(5, 6, 3).double()
    expected, found = layer(x), other(x)
    for one, two in zip(flat(found), flat(expected), strict=True):
        torch.testing.assert_close(one, two)
    state = expected[1]  # as the next first state
    for one, two in zip(flat(other(x, state)), flat(layer(x, state)), strict=True):
        torch.testing.assert_close(one, two)
    for one, two in zip(flat(other(x[0])), flat(layer(x[0])), strict=True):  # without a batch axis
        torch.testing.assert_close(one, two)
    restore_layers(other)
    assert type(other) is kind
    assert vars(other).keys() == vars(layer).keys()


ATTENTION = [
    {"batch_first": True},
    {"bias": False},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
    {"kdim": 3, "vdim": 5, "batch_first": True},
]


@pytest.mark.parametrize("options", ATTENTION, ids=str)
@pytest.mark.parametrize("masks", ["none", "boolean", "additive"])
def test_attention_has_torchs_values(options, masks):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, **options).double()
    other = replaced(layer)
    q, k = torch.randn(3, 6, 4).double(), torch.randn(3, 6, options.get("kdim", 4)).double()
    v = torch.randn(3, 6, options.get("vdim", 4)).double()
    batch, length = (3, 6) if options.get("batch_first") else (6, 3)
    given = {}
    if masks != "none":
        causal = torch.ones(length, length).triu(1).bool()
        padding = torch.zeros(batch, length, dtype=torch.bool)
        padding[0, -1] = True
        as_numbers = [torch.where(mask, -torch.inf, 0.0).double() for mask in (causal, padding)]
        chosen = as_numbers if masks == "additive" else [causal, padding]
        given = {"attn_mask": chosen[0], "key_padding_mask": chosen[1]}
    for more in ({}, {"average_attn_weights": False}, {"need_weights": False}):
        expected, found = layer(q, k, v, **given, **more), other(q, k, v, **given, **more)
        torch.testing.assert_close(found[0], expected[0])
        assert (found[1] is None) == (expected[1] is None)
        if found[1] is not None:
            torch.testing.assert_close(found[1], expected[1])


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("options", [{}, {"norm_first": True, "activation": "gelu"}], ids=str)
def test_transformer_encoders_have_torchs_values(mode, options):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True, **options)
    stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not options).double().train(mode)
    other = copy.deepcopy(stack)
    replace_layers(other)
    x, padding = torch.randn(3, 5, 4).double(), torch.zeros(3, 5, dtype=torch.bool)
    padding[1, 3:] = True
    for given in ({}, {"src_key_padding_mask": padding}, {"mask": nn.Transformer.generate_square_subsequent_mask(5)}):
        expected, found = stack(x, **given), other(x, **given)
        real = ~padding if "src_key_padding_mask" in given else slice(None)  # nested tensors set padding to 0
        torch.testing.assert_close(found[real], expected[real])


def test_packed_sequences_are_differentiated_one_record_at_a_time():
    def call(m, x):
        lengths = (x[:, :, 0] != 0).sum(1).clamp(min=1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return m.out(m.layer(packed)[1][-1])

    torch.manual_seed(0)
    module = Called(call, layer=nn.GRU(3, 4, batch_first=True), out=nn.Linear(4, 3)).double()
    model, x, y = Model(module), torch.randn(1, 3, 5, 3).double(), torch.tensor([[0, 1, 2]])
    x[0, 1, 3:] = 0
    params, ones = model.initial()[None], torch.ones(1, 3).double()
    assert model._gradients.choice.choose(params, x, y, Clip(1.0)) == "looped"
    outputs = torch.stack([module.out(module.layer(each[:n])[0][-1]) for each, n in zip(x[0], (5, 3, 5), strict=True)])
    loss = nn.functional.cross_entropy(outputs, y[0], reduction="sum")
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
    torch.testing.assert_close(model.gradient_sum(params, x, y, ones, Clip(1e6))[0], expected)


def test_fix_replaces_batch_norm_and_keeps_everything_else():
    module = nn.Sequential(
        nn.Conv2d(1, 64, 2),
        nn.Sequential(nn.BatchNorm2d(64, eps=1e-3), nn.ReLU(), nn.InstanceNorm2d(64, track_running_stats=True)),
        nn.Flatten(),
        nn.Linear(256, 10),
        nn.BatchNorm1d(10, affine=False),
    )
    module[1][0].weight.data.uniform_(1, 2)
    before = str(module)
    fixed = Model.fix(module)
    assert str(module) == before
    norm = fixed[1][0]
    assert (norm.num_groups, norm.num_channels, norm.eps, norm.affine) == (4, 64, 1e-3, True)
    assert torch.equal(norm.weight, module[1][0].weight)
    assert norm.weight is not module[1][0].weight
    assert not fixed[1][2].track_running_stats
    assert fixed[1][2].running_mean is None
    assert type(fixed[4]) is nn.GroupNorm
    assert fixed[4].weight is None
    assert torch.equal(fixed[0].weight, module[0].weight)
    outputs = fixed(torch.randn(3, 1, 3, 3))
    assert outputs.isfinite().all()
    assert outputs.std(1).min() > 0.5
    assert Model(fixed).d == sum(p.numel() for p in fixed.parameters())
    assert type(Model.fix(nn.BatchNorm3d(4))) is nn.GroupNorm


def test_fix_keeps_a_shared_layer_shared_and_frozen_parameters_frozen():
    norm = nn.BatchNorm1d(4).requires_grad_(False)
    fixed = Model.fix(nn.Sequential(nn.Linear(4, 4), norm, nn.Linear(4, 4), norm))
    assert fixed[1] is fixed[3]
    assert not fixed[1].weight.requires_grad


def test_groups_divide_the_channels():
    for channels in range(1, 600):
        count = group_count(channels)
        assert channels % count == 0
        assert count <= 32
        assert count == 1 or channels // count >= 16


def test_refusals_name_what_to_do():
    with pytest.raises(TacitError, match=r"call .eval\(\) on it to freeze it, or replace it with Model.fix\(module\)"):
        Model(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    with pytest.raises(TacitError, match=r"must return one tensor, got dict: choose one with .*forward=lambda"):
        Model(Called(lambda m, x: {"logits": m.out(x)}, out=nn.Linear(4, 3))).trial_outputs((4,))
    pair = nn.Bilinear(2, 2, 3)
    with pytest.raises(TacitError, match=r"missing 1 required positional argument.*Model\(module, head, forward="):
        Model(pair).trial_outputs((4,))
    adapted = Model(pair, forward=lambda m, x: m(x[..., :2], x[..., 2:]))
    assert adapted.trial_outputs((4,)).shape == (1, 3)
