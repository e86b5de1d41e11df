"""Clipped gradient sums of modules of many kinds, against plain autograd with one record at a time."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from tacit.tasks import Clip, Model
from tests.tasks.module_cases import CASES, Case

CASES = {
    **CASES,
    "GroupNorm after fix": Case(
        lambda: Model.fix(nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), nn.Linear(32, 3))), (4,)
    ),
}


def module_of(case, seed=0):
    torch.manual_seed(seed)
    return case.build().double()


def brute_force(module, forward, vector, layout, x, y, weight, bound):
    """Σ weight · min(1, bound/‖g‖) · g, with torch's own layers, one record and one backward pass at a time."""
    total = torch.zeros_like(vector)
    for record, label, factor in zip(x, y, weight, strict=True):
        leaf = vector.clone().requires_grad_()
        copied = copy.deepcopy(module).requires_grad_(False)
        parameters = layout.unflatten(leaf)
        if forward is None:
            output = functional_call(copied, parameters, (record[None],))
        else:
            named = {f"m.{name}": value for name, value in parameters.items()}
            wrapped = nn.Module()
            wrapped.m, wrapped.forward = copied, lambda x: forward(wrapped.m, x)  # noqa: B023
            output = functional_call(wrapped, named, (record[None],))
        (g,) = torch.autograd.grad(F.cross_entropy(output, label[None]), leaf)
        total += factor * min(1.0, bound / float(g.norm())) * g
    return total


@pytest.mark.parametrize("name", CASES)
def test_clipped_sums_are_those_of_autograd_record_by_record(name):
    case, bound = CASES[name], 0.3
    module = module_of(case)
    model = Model(module, forward=case.forward)
    torch.manual_seed(1)
    params = model.initial() + 0.1 * torch.randn(2, model.d, dtype=torch.float64)
    x, y = torch.stack([case.records(4, seed) for seed in (0, 1)]), torch.randint(0, 3, (2, 4))
    weight = torch.tensor([[1.0, 0.5, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    expected = torch.stack(
        [brute_force(module, case.forward, params[i], model.layout, x[i], y[i], weight[i], bound) for i in (0, 1)]
    )
    found = model.gradient_sum(params, x, y, weight, Clip(bound))
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    assert found.norm(dim=1).min() > 1e-3
    plain = torch.stack(
        [brute_force(module, case.forward, params[i], model.layout, x[i], y[i], weight[i], 1e9) for i in (0, 1)]
    )
    torch.testing.assert_close(model.gradient_sum(params, x, y, weight, None), plain, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_record_does_not_depend_on_the_others(name):
    case = CASES[name]
    model = Model(module_of(case), forward=case.forward)
    params, x, y = model.initial()[None], case.records(3)[None], torch.tensor([[0, 1, 2]])
    others = case.records(3, seed=5)[None]
    others[:, 0] = x[:, 0]
    weight = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    ones = torch.ones_like(weight)
    alone = model.gradient_sum(params, x[:, :1], y[:, :1], weight[:, :1], Clip(0.3))
    for records in (x, others):
        together = model.gradient_sum(params, records, y, ones, Clip(0.3))
        rest = model.gradient_sum(params, records[:, 1:], y[:, 1:], ones[:, 1:], Clip(0.3))
        torch.testing.assert_close(together - rest, alone, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_trained_module_has_torchs_own_layers_and_the_same_outputs(name):
    case = CASES[name]
    module = module_of(case)
    model = Model(module, forward=case.forward)
    trained = model.trained_module(model.initial())
    assert [type(layer) for layer in trained.modules()] == [type(layer) for layer in module.modules()]
    assert trained.state_dict().keys() == module.state_dict().keys()
    x = case.records(3)
    with torch.no_grad():
        outputs = trained(x) if case.forward is None else case.forward(trained, x)
    torch.testing.assert_close(outputs, model.outputs(model.initial(), x), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["frozen backbone", "low-rank adapter"])
def test_fixed_parameters_are_not_trained(name):
    module = module_of(CASES[name])
    model = Model(module)
    trainable = sum(p.numel() for p in module.parameters() if p.requires_grad)
    assert model.d == trainable < sum(p.numel() for p in module.parameters())
    trained = dict(model.trained_module(torch.zeros(model.d, dtype=torch.float64)).named_parameters())
    for key, value in module.named_parameters():
        assert torch.equal(trained[key], value if not value.requires_grad else torch.zeros_like(value))


@pytest.mark.parametrize("trainable", [True, False])
def test_frozen_batch_norm_in_batches(trainable):
    """The engine that runs whole batches gives the gradients of the one that runs single records."""
    module = module_of(CASES["frozen BatchNorm"])
    module[1].requires_grad_(trainable)
    x, y = CASES["frozen BatchNorm"].records(6)[None], torch.arange(6)[None] % 3
    sums = []
    for engine in ("ghost", "vectorised", "looped"):
        model = Model(module, engine=engine)
        sums.append(model.gradient_sum(model.initial()[None], x, y, torch.ones(1, 6), Clip(0.3)))
    torch.testing.assert_close(sums[0], sums[1], rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(sums[2], sums[1], rtol=1e-8, atol=1e-10)


def test_the_statistics_of_a_frozen_batch_norm_never_change():
    module = module_of(CASES["frozen BatchNorm"])
    model = Model(module)
    model._objective.module.train()  # not even then
    before = {key: value.clone() for key, value in model._objective.module.named_buffers()}
    x, y = CASES["frozen BatchNorm"].records(6)[None], torch.arange(6)[None] % 3
    found = model.gradient_sum(model.initial()[None], x, y, torch.ones(1, 6), Clip(0.3))
    assert all(torch.equal(before[key], value) for key, value in model._objective.module.named_buffers())
    same = Model(module).gradient_sum(model.initial()[None], x, y, torch.ones(1, 6), Clip(0.3))
    torch.testing.assert_close(found, same)


def test_a_module_with_forward_is_never_run_on_a_batch():
    """A function could mix the records of a batch with an unusual value, on a module of known layers."""
    module = nn.Linear(4, 3).double()
    model = Model(module, forward=lambda m, x: m(x) + torch.where(x.abs().max() > 50, x.sum(), 0.0))
    x, y = torch.randn(1, 4, 4).double(), torch.arange(4)[None] % 3
    weight, clip = torch.ones(1, 4).double(), Clip(0.3)
    extreme = x.clone()
    extreme[0, 3] = 100.0
    params = model.initial()[None]
    assert model._gradients.choice.choose(params, x, y, clip) == "vectorised"
    before, after = (model.gradient_sum(params, records, y, weight, clip) for records in (x, extreme))
    assert (after - before).norm() <= 2 * clip.bound
    torch.testing.assert_close(
        model.gradient_sum(params, extreme[:, :3], y[:, :3], weight[:, :3], clip),
        model.gradient_sum(params, x[:, :3], y[:, :3], weight[:, :3], clip),
    )


class Remembers(nn.Module):
    """A branch on values, and state that changes only for an unusual record."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(1))
        self.seen, self.last = [], 1.0

    def forward(self, x):
        if bool(x.abs().max() > 10 * self.scale):
            self.scale.copy_(-x.abs().max() / 10)
            self.seen.append(x)
            self.last = -5.0
        return self.linear(x / self.scale) * self.last / (1 + len(self.seen))


def test_what_one_record_stores_in_the_module_changes_no_other_record():
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    y, weight = torch.zeros(1, 6, dtype=torch.long), torch.ones(1, 6)
    model = Model(Remembers(), engine="looped")
    params, clip = model.initial()[None], Clip(1.0)
    sums = []
    for unusual in (x[2], torch.full((3,), 1e4)):
        records = x.clone()
        records[2] = unusual
        without = weight.clone()
        without[0, 2] = 0
        whole = model.gradient_sum(params, records[None], y, weight, clip)
        sums.append((whole, model.gradient_sum(params, records[None], y, without, clip)))
    assert torch.equal(sums[0][1], sums[1][1])
    for whole, rest in sums:
        assert float((whole - rest).norm()) <= 1.0 + 1e-6
