import pytest
import torch
from torch import nn

from tacit.errors import TacitError
from tacit.tasks.layout import Layout


@pytest.fixture
def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def test_all_parameters_are_shared_by_default(module):
    layout = Layout.of(module)
    assert layout.names == ("0.weight", "0.bias", "2.weight", "2.bias")
    assert layout.shared == layout.d == 23


def test_shared_parameters_come_first(module):
    layout = Layout.of(module, share=["2.*", "0.bias"])
    assert layout.names == ("0.bias", "2.weight", "2.bias", "0.weight")
    assert layout.shared == 3 + 6 + 2
    assert [layout.is_bounded(name) for name in layout.names] == [True, True, True, False]
    torch.testing.assert_close(layout.initial(module)[:3], module[0].bias)


def test_flatten_undoes_unflatten(module):
    layout = Layout.of(module, share=["2.*"])
    for lead in [(), (5,), (2, 3)]:
        params = torch.randn(*lead, layout.d)
        torch.testing.assert_close(layout.flatten(layout.unflatten(params)), params, rtol=0, atol=0)


def test_unflatten_gives_views(module):
    layout = Layout.of(module)
    params = torch.zeros(2, layout.d)
    layout.unflatten(params)["0.weight"][1] = 7
    assert params.sum() == 7 * 12
    assert params[0].sum() == 0


def test_scalar_parameters():
    module = nn.Linear(2, 1)
    module.scale = nn.Parameter(torch.tensor(3.0))
    layout = Layout.of(module)
    assert layout.d == 4
    assert layout.unflatten(torch.zeros(5, 4))["scale"].shape == (5,)
    torch.testing.assert_close(layout.flatten(layout.unflatten(torch.arange(4.0))), torch.arange(4.0))


def test_frozen_parameters_are_excluded(module):
    module[0].requires_grad_(False)
    assert Layout.of(module).names == ("2.weight", "2.bias")


def test_initial_is_a_copy(module):
    layout = Layout.of(module)
    vector = layout.initial(module)
    with torch.no_grad():
        module[0].weight.zero_()
    assert vector[:12].abs().min() > 0


@pytest.mark.parametrize(
    ("share", "sentence"),
    [
        (
            ["head.*"],
            r'share pattern "head.\*" matches no parameter; the parameters are: 0.weight, 0.bias, 2.weight, 2.bias',
        ),
        ([], "share is empty"),
    ],
)
def test_invalid_patterns_are_refused(module, share, sentence):
    with pytest.raises(TacitError, match=sentence):
        Layout.of(module, share)


def test_module_without_trainable_parameters_is_refused():
    with pytest.raises(TacitError, match="no trainable parameters"):
        Layout.of(nn.Tanh())
