"""The task of the LT-ADMM-DP paper, compared with its formula."""

import pytest
import torch

from tacit.errors import TacitError
from tacit.tasks import Clip, Model, models
from tests.tasks.oracles import naive_gradient_sum

REG = 0.3


def formula(w, a, y):
    """log(1 + exp(−b aᵀw)) + reg Σ w²/(1 + w²)."""
    b = 2.0 * y - 1
    return torch.log1p(torch.exp(-b * (a @ w))) + REG * (w**2 / (1 + w**2)).sum()


@pytest.fixture
def drawn():
    generator = torch.Generator().manual_seed(0)
    params, a = (torch.randn(3, *shape, generator=generator, dtype=torch.float64) for shape in ((5,), (4, 5)))
    return params, a, torch.randint(0, 2, (3, 4), generator=generator), torch.rand(3, 4, dtype=torch.float64)


@pytest.mark.parametrize("clip", [None, Clip(0.4), Clip(0.4, "smooth"), Clip(0.4, "l1")])
def test_gradients_follow_the_formula(drawn, clip):
    model = Model(models.build("nonconvex-logistic", {"inputs": (5,), "classes": 2, "reg": REG}))
    bound, norm = (None, "l2") if clip is None else (clip.bound, clip.norm)
    expected = naive_gradient_sum(formula, *drawn, 5, bound, norm)
    assert torch.allclose(model.gradient_sum(*drawn, clip), expected, atol=1e-12)


def test_loss_and_accuracy(drawn):
    params, a, y, _ = drawn
    model = Model(models.build("nonconvex-logistic", {"inputs": (5,), "classes": 2, "reg": REG}))
    assert torch.allclose(model.losses(params, a, y)[1, 2], formula(params[1], a[1, 2], y[1, 2]))
    losses, outputs = model.losses_and_outputs(params[0], a[0], y[0])
    assert torch.allclose(losses, model.losses(params, a, y)[0])
    assert outputs.argmax(1).tolist() == (a[0] @ params[0] > 0).long().tolist()


def test_data_with_more_than_two_classes_are_refused():
    with pytest.raises(TacitError, match="needs data with 2 classes, got 10"):
        models.build("nonconvex-logistic", {"inputs": (64,), "classes": 10})
