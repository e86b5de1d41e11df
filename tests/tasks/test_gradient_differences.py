"""Differences of a record's gradients at two points, as PriSMA uses them: every engine against autograd."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tacit.tasks import Clip, Model
from tests.tasks.oracles import module_loss

BOUND = 0.05
MODELS = {
    "linear": lambda: nn.Linear(6, 3),
    "linear without biases": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 3, bias=False)),
    "two layers": lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3)),
}


def naive_difference_sum(record_loss, params, before, x, y, weight, clip):
    """Σ_b weight_b · clip(∇ℓ_b(params) − ∇ℓ_b(before)), record by record."""
    out = torch.zeros_like(params)
    for i, b in torch.cartesian_prod(torch.arange(len(params)), torch.arange(x.shape[1])).tolist():
        found = []
        for point in (params[i], before[i]):
            vector = point.clone().requires_grad_()
            found.append(torch.autograd.grad(record_loss(vector, x[i, b], y[i, b]), vector)[0])
        difference = found[0] - found[1]
        if clip is not None:
            size = float(difference.abs().sum() if clip.degree == 1 else difference.norm())
            difference = difference * min(1.0, clip.bound / size)
        out[i] += weight[i, b] * difference
    return out


@pytest.mark.parametrize("clip", [None, Clip(BOUND), Clip(BOUND, "l1")], ids=["none", "l2", "l1"])
@pytest.mark.parametrize("name", list(MODELS))
def test_equals_autograd(name, clip):
    torch.manual_seed(0)
    module = MODELS[name]()
    model = Model(module)
    params = model.initial().double() + torch.randn(3, model.d, dtype=torch.float64)
    before = params + 0.3 * torch.randn(3, model.d, dtype=torch.float64)
    x, y = torch.randn(3, 5, 6, dtype=torch.float64), torch.randint(0, 3, (3, 5))
    weight = torch.tensor([[1.0, 1, 1, 1, 1], [1, 0, 2, 0, 1], [1, 1, 0, 0, 0]], dtype=torch.float64)
    loss = module_loss(module.double(), model.layout, lambda out, y: cross_entropy(out, y, reduction="none"))
    wanted = naive_difference_sum(loss, params, before, x, y, weight, clip)
    found = model.gradient_sum(params, x, y, weight, clip, before=before)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    assert wanted.abs().max() > 1e-3


def test_a_clipped_difference_is_never_longer_than_the_bound():
    """Also in single precision, where the two gradients can nearly cancel."""
    torch.manual_seed(1)
    model = Model(nn.Linear(6, 3))
    params = torch.randn(1, model.d)
    x, y = 1e3 * torch.randn(1, 1, 6), torch.zeros(1, 1, dtype=torch.int64)
    for step in (1e-6, 1e-3, 1.0, 1e3):
        found = model.gradient_sum(params, x, y, torch.ones(1, 1), Clip(BOUND), before=params + step)
        assert float(found.double().norm()) <= BOUND * (1 + 1e-6)
