"""The task of the LT-ADMM-DP paper, compared with its formula."""

import pytest
import torch

from tacit.errors import TacitError
from tacit.tasks import Clip, Model, models
from tacit.tasks.clipping import clip_norms
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


@pytest.mark.parametrize("engine", ["auto", "vectorised", "looped", "summed"])
@pytest.mark.parametrize("clip", [None, *(Clip(0.4, norm) for norm in clip_norms), Clip(0.4, per="batch")])
def test_gradients_follow_the_formula(drawn, clip, engine):
    per_record = clip is not None and clip.per == "record"
    if engine == "summed" and per_record:
        pytest.skip("this engine does not clip records")
    module = models.build("nonconvex-logistic", {"inputs": (5,), "classes": 2, "reg": REG})
    bound, norm = (clip.bound, clip.norm) if per_record else (None, "l2")
    expected = naive_gradient_sum(formula, *drawn, 5, bound, norm)
    if clip is not None and clip.per == "batch":
        expected = expected * (clip.bound / expected.norm(dim=1, keepdim=True)).clamp(max=1)
    found = Model(module, engine=engine).gradient_sum(*drawn, clip)
    assert torch.allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("engine", ["stacked", "convolutional", "ghost"])
def test_engines_that_differentiate_outputs_refuse_a_loss_with_a_penalty(drawn, engine):
    module = models.build("nonconvex-logistic", {"inputs": (5,), "classes": 2, "reg": REG})
    with pytest.raises(TacitError, match=f'engine "{engine}" does not support this model'):
        Model(module, engine=engine).gradient_sum(*drawn, Clip(0.4))


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
