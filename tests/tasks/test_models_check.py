"""The checks of modules and losses on random batches."""

import collections
import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.tasks.clip import Clip
from tacit.tasks.model import Model, cross_entropy
from tacit.tasks.models import check_independence
from tacit.tasks.models.synthetic import RecordForm

FORM = RecordForm((4,), torch.float32, (), torch.int64)
TOKENS = RecordForm((5,), torch.int64, (), torch.int64)


class Stateful(nn.Module):
    """A linear layer whose forward pass calls `write(module, x)`."""

    def __init__(self, write):
        super().__init__()
        self.write, self.layer = write, nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(()))
        self.last, self.calls, self.history, self.table = None, 0, [], {}
        self.recent, self.array = collections.deque([torch.zeros(4)], maxlen=1), np.zeros(4)

    def forward(self, x):
        self.write(self, x.detach())
        return self.layer(x)


def write_only_in_training(module, x):
    if torch.is_grad_enabled():
        module.last = x


def write_in_large_batches(module, x):
    if len(x) > 20:
        module.last = x


WRITES = {
    "seen": lambda m, x: m.seen.add_(len(x)),
    "last": lambda m, x: setattr(m, "last", x),
    "calls": lambda m, x: setattr(m, "calls", m.calls + 1),
    "history.0": lambda m, x: m.history.append(x),
    "table.mean": lambda m, x: m.table.update(mean=x.mean()),
    "recent.0": lambda m, x: m.recent.append(x[0]),
    "array": lambda m, x: np.copyto(m.array, x[0].numpy()),
    "layer.bias": lambda m, x: m.layer.bias.data.add_(x.mean()),
    "layer.in_features": lambda m, x: setattr(m.layer, "in_features", float(x.mean())),
    "new": lambda m, x: setattr(m, "new", x),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_forward_pass_that_changes_an_attribute_is_refused(name):
    module = Stateful(WRITES[name])
    before = copy.deepcopy(module.state_dict())
    with pytest.raises(TacitError, match=rf'forward pass changes its attribute "{name}"'):
        check_independence(module, FORM)
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


@pytest.mark.parametrize("write", [write_only_in_training, write_in_large_batches])
def test_an_attribute_that_changes_only_sometimes_is_found(write):
    with pytest.raises(TacitError, match='forward pass changes its attribute "last"'):
        check_independence(Stateful(write), FORM)


def test_a_module_without_state_is_accepted():
    module = Stateful(lambda m, x: None)
    module.register_buffer("unset", torch.tensor([torch.nan, 1.0]))  # NaN is equal to itself here
    module.rate = float("nan")
    check_independence(module, FORM)


def test_a_stateful_module_is_refused_before_the_first_gradient():
    """The vectorised engine cannot separate the records of different batches if the module stores them."""

    class Remembering(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.last = nn.Linear(4, 3), None

        def forward(self, x):
            h = self.layer(x) if self.last is None else self.layer(x) * self.last.mean()
            self.last = x.detach()
            return h

    model = Model(Remembering())
    data = torch.randn(1, 6, 4), torch.randint(0, 3, (1, 6)), torch.ones(1, 6)
    with pytest.raises(TacitError, match='forward pass changes its attribute "last"'):
        model.gradient_sum(model.initial()[None], *data, Clip(1.0))
    with pytest.raises(TacitError, match='forward pass changes its attribute "last"'):
        model.losses(model.initial()[None], *data[:2])


class Centred(nn.Module):
    def forward(self, x):
        return x - x.mean(dim=0)


class Noisy(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5)


class Previous(nn.Module):
    """A state outside the module, which changes the output visibly."""

    def forward(self, x, memory=[]):  # noqa: B006
        memory.append(x.detach().mean())
        return x + sum(memory[-2:])


class Chaotic(nn.Module):
    """NaN for single records only."""

    def forward(self, x):
        return x if len(x) > 1 else x * torch.nan


@pytest.mark.parametrize("module", [Centred(), Noisy(), Previous(), Chaotic(), nn.LSTM(4, 4)], ids=str)
def test_visible_mixing_and_randomness_are_refused(module):
    if isinstance(module, nn.LSTM):  # without batch_first, a batch is one sequence
        module.register_forward_hook(lambda layer, args, output: output[0])
    before = torch.get_rng_state()
    with pytest.raises(TacitError, match="depends on the other records of the batch or is random"):
        check_independence(module, FORM)
    assert torch.equal(torch.get_rng_state(), before)


def test_parameters_that_are_zero_hide_nothing():
    module = nn.Sequential(nn.Linear(4, 3), Centred())
    with torch.no_grad():
        module[0].weight.zero_()
        module[0].bias.zero_()
    with pytest.raises(TacitError, match="depends on the other records"):
        check_independence(module, FORM)


def test_models_of_indices_are_checked_with_zeros_and_ones():
    check_independence(nn.Sequential(nn.Embedding(2, 3), nn.Flatten()), TOKENS)
    mixing = nn.Sequential(nn.Embedding(2, 3), nn.Flatten(), Centred())
    with pytest.raises(TacitError, match="depends on the other records"):
        check_independence(mixing, TOKENS)

    class Words(nn.Module):  # indices as floating-point numbers
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(2, 3)

        def forward(self, x):
            return self.words(x.long()).flatten(1)

    check_independence(Words(), FORM)
    with pytest.raises(TacitError, match="depends on the other records"):
        check_independence(nn.Sequential(Words(), Centred()), FORM)


def test_a_model_that_fails_on_random_records_is_refused_with_the_reason():
    with pytest.raises(TacitError, match=r"fails on random records of shape \(4,\) and type torch.float32: mat1"):
        check_independence(nn.Linear(3, 2), FORM)
    squeezed = nn.Linear(4, 1)
    squeezed.register_forward_hook(lambda layer, args, output: output.squeeze())
    with pytest.raises(TacitError, match=r"one row per record, 1 here, got shape \(\)"):
        check_independence(squeezed, FORM)
    with pytest.raises(TacitError, match=r"must return one tensor, got tuple: .*forward="):
        check_independence(nn.LSTM(4, 4, batch_first=True), FORM)


@pytest.mark.parametrize("shape", [(3, 4), (3,)])
def test_a_layer_that_fits_one_batch_size_only_is_refused(shape):
    """A convolution takes a batch of three records (H, W) for one image with three channels."""
    layer = nn.LayerNorm((3, 4)) if shape == (3,) else nn.Conv2d(3, 3, 1)
    form = RecordForm(shape[-1:] if shape == (3,) else (3, 4), torch.float32, (), torch.int64)
    with pytest.raises(TacitError, match="fails on random records"):
        check_independence(layer, form)


def test_losses_are_checked():
    def branch(out, y):
        return out[:, 0] if out.sum() > 0 else out[:, 1]

    for loss, words in (
        (nn.CrossEntropyLoss(), r"one number per record, shape \(2,\) here, got \(\); use reduction"),
        (lambda out, y: cross_entropy(out - out.mean(0), y), "the loss of a record depends on the other records"),
        (lambda out, y: cross_entropy(out, y) * (1 + len(y) // 30), "the loss of a record depends"),
        (branch, "the loss cannot be evaluated separately for each record with torch.vmap"),
    ):
        with pytest.raises(TacitError, match=words):
            check_independence(nn.Linear(4, 3), FORM, loss)
    check_independence(nn.Linear(4, 3), FORM, nn.CrossEntropyLoss(reduction="none"))
    real = RecordForm((4,), torch.float32, (3,), torch.float32)
    check_independence(
        nn.Linear(4, 3), real, lambda out, y: F.binary_cross_entropy(out.sigmoid(), y, reduction="none").sum(1)
    )


def test_a_branch_on_values_is_differentiated_one_record_at_a_time():
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            h = self.layer(x)
            return h if float(h.sum()) < 1e6 else 2 * h

    model = Model(Branch())
    params = model.initial()[None]
    x, y, weight = torch.randn(1, 6, 4), torch.randint(0, 3, (1, 6)), torch.ones(1, 6)
    assert model._gradients.choice.choose(params, x, y, Clip(1.0)) == "looped"
    for clip in (Clip(1.0), Clip(1.0, per="batch"), None):
        plain = Model(nn.Linear(4, 3)).gradient_sum(params, x, y, weight, clip)
        torch.testing.assert_close(model.gradient_sum(params, x, y, weight, clip), plain)
    with pytest.raises(TacitError, match='engine "vectorised" does not support this model'):
        Model(Branch(), engine="vectorised").gradient_sum(params, x, y, weight, Clip(1.0))
