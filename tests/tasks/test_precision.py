"""Forward and backward passes in bfloat16: the bound of every record holds exactly, and the guarantee is the same."""

import pytest
import torch

from tacit.errors import TacitError
from tacit.runs import Config, from_config
from tacit.tasks import Clip
from tacit.tasks.clipping import vector_norms
from tacit.tasks.model import Model
from tests.helpers import digits_task
from tests.tasks.test_gradients import CLIPS, ENGINES, MODELS, applicable, batch, build

CASES = [
    (name, engine, norm)
    for name in ("logistic", "mlp", "cnn", "resnet10", "vit")
    for engine in ENGINES[1:]
    for norm in CLIPS[1:]
    if applicable(engine, name, norm) and (name in ("logistic", "mlp", "cnn") or norm == "l2")
]


def in_bf16(name, engine="auto"):
    model = Model(build(name), engine=engine)
    model.use_precision("bf16")
    return model


@pytest.mark.parametrize(("name", "engine", "norm"), CASES)
def test_the_clipped_gradient_of_a_record_is_within_the_bound(name, engine, norm):
    """One record per node: the sum is its contribution. Norms of coarse gradients would exceed the bound by 0.4 %."""
    model = in_bf16(name, engine)
    nodes = 20 if name in ("logistic", "mlp", "cnn") else 3
    params, x, y, _ = batch(model, MODELS[name][0], nodes, 1, torch.float32)
    bound = torch.linspace(0.001, 0.2, nodes, dtype=torch.float64)
    clip = Clip(bound, norm)
    found = model.gradient_sum(params, 30 * x, y, torch.ones(nodes, 1), clip)
    size = vector_norms(found.double(), clip.degree) / bound
    assert (size <= 1).all()
    if norm in ("l1", "l2"):
        assert (size > 1 - 1e-4).any()  # some are clipped, and no further than the margin


@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn"])
def test_a_record_moves_the_sum_by_at_most_the_bound(name):
    model = in_bf16(name)
    params, x, y, weight = batch(model, MODELS[name][0], 4, 17, torch.float32)
    weight[:] = 1
    with_it = model.gradient_sum(params, x, y, weight, Clip(0.1))
    without = model.gradient_sum(params, x[:, 1:], y[:, 1:], weight[:, 1:], Clip(0.1))
    assert (with_it - without).double().norm(dim=1).max() <= 0.1 * (1 + 1e-5)


@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn"])
def test_gradients_are_those_of_float32_up_to_the_rounding_of_passes(name):
    model = Model(build(name))
    data = batch(model, MODELS[name][0], 3, 8, torch.float32)
    exact, found = model.gradient_sum(*data, Clip(0.5)), in_bf16(name).gradient_sum(*data, Clip(0.5))
    assert 0 < (found - exact).norm() <= 0.02 * exact.norm()
    assert found.dtype == torch.float32


def outcome(precision):
    config = {"algorithm": {"name": "dyn-d2p", "lr": 0.1}, "rounds": 4, "precision": precision}
    run = from_config(Config.parse(config | {"privacy": {"epsilon": 2.0, "delta": 1e-3}, "graph": {"nodes": 3}})).go()
    releases = [(r.step, r.purpose, r.mechanism.name, r.mechanism.multipliers(3).tolist()) for r in run.releases]
    return run.models, run.privacy.epsilon, releases


def test_a_run_has_the_guarantee_and_the_releases_of_float32():
    (models, *facts), (exact, *expected) = outcome("bf16"), outcome("float32")
    assert facts == expected
    assert not torch.equal(models, exact)
    torch.testing.assert_close(models, exact, rtol=0.05, atol=0.05)


def test_products_with_fewer_digits_are_refused(monkeypatch):
    """In sums, TF32 or bfloat16 would let a clipped gradient exceed its bound; several cells are no exception."""
    model = Model(build("mlp"))
    params, x, y, weight = batch(model, MODELS["mlp"][0], 2, dtype=torch.float32)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    with pytest.raises(TacitError, match='set it to "highest"'):
        model.gradient_sum(params, x, y, weight, Clip(1.0))
    with pytest.raises(TacitError, match='set it to "highest"'):
        model.gradient_sums(params[None], x, y, weight, [Clip(1.0)])


def test_invalid_precisions_are_refused():
    with pytest.raises(TacitError, match='precision must be "float32" or "bf16", got "fp16"'):
        digits_task(precision="fp16")
    with pytest.raises(TacitError, match=r'precision = "bf16" needs parameters in torch.float32, got torch.float64'):
        digits_task(precision="bf16", dtype=torch.float64)
