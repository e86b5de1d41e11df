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


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        (name, engine)
        for name in ("logistic", "mlp", "cnn")
        for engine in [*ENGINES, "summed"]
        if applicable(engine, name, "l2")
    ],
)
def test_gradients_are_those_of_float32_up_to_the_rounding_of_passes(name, engine):
    """Every engine computes in bfloat16. In pooling, values become equal, and the first of them gets the gradient."""
    model, clip = Model(build(name)), None if engine == "summed" else Clip(0.5)
    data = batch(model, MODELS[name][0], 3, 8, torch.float32)
    exact, found = model.gradient_sum(*data, clip), in_bf16(name, engine).gradient_sum(*data, clip)
    assert 1e-4 * exact.norm() < (found - exact).norm() <= (0.1 if name == "cnn" else 0.02) * exact.norm()
    assert found.dtype == torch.float32


def test_the_convolutional_engine_rounds_as_torch_does():
    data = batch(Model(build("cnn")), MODELS["cnn"][0], 3, 8, torch.float32)
    one, other = (in_bf16("cnn", engine).gradient_sum(*data, Clip(0.5)) for engine in ("convolutional", "looped"))
    torch.testing.assert_close(one, other, rtol=0.01, atol=0.005)


def outcome(precision):
    config = {"algorithm": {"name": "dyn-d2p", "lr": 0.1}, "rounds": 4, "precision": precision}
    run = from_config(Config.parse(config | {"privacy": {"epsilon": 2.0, "delta": 1e-3}, "graph": {"nodes": 3}})).go()
    releases = [(r.step, r.purpose, r.mechanism.name, r.multipliers.tolist()) for r in run.task.ledger.releases()]
    return run.models, run.privacy.guaranteed, releases


def test_a_run_has_the_guarantee_and_the_releases_of_float32():
    (models, *facts), (exact, *expected) = outcome("bf16"), outcome("float32")
    assert facts == expected
    assert not torch.equal(models, exact)
    torch.testing.assert_close(models, exact, rtol=0.05, atol=0.05)


def gradients_of_mlp():
    model = Model(build("mlp"))
    params, x, y, weight = batch(model, MODELS["mlp"][0], 2, dtype=torch.float32)
    yield lambda: model.gradient_sum(params, x, y, weight, Clip(1.0))
    yield lambda: model.gradient_sums(params[None], x, y, weight, [Clip(1.0)])


@pytest.mark.parametrize("change", ["legacy", "backend"])
def test_products_with_fewer_digits_are_refused(change):
    """In sums, TF32 or bfloat16 would let a clipped gradient exceed its bound; several cells are no exception."""
    before = torch.backends.mkldnn.matmul.fp32_precision
    try:
        if change == "legacy":
            torch.set_float32_matmul_precision("high")
        else:
            torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        for gradient in gradients_of_mlp():
            with pytest.raises(TacitError, match='set it to "highest"'):
                gradient()
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.mkldnn.matmul.fp32_precision = before
    for gradient in gradients_of_mlp():
        assert gradient().isfinite().all()


def test_a_block_of_autocast_around_a_gradient_is_refused():
    """It would compute sums in bfloat16, with which clipped gradients exceed their bound by 0.2 %."""
    for gradient in gradients_of_mlp():
        with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(TacitError, match=r"torch\.autocast is active"):
            gradient()
    task = digits_task()
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(TacitError, match=r"torch\.autocast is active"):
        task.gradient(task.initial(), 0, Clip(1.0))


def test_a_loss_function_that_was_recorded_is_recorded_again_for_another_precision(monkeypatch):
    monkeypatch.setattr("tacit.tasks.gradients.traced._CALLS", 2)

    def squares(w, x, y):
        return ((x[None] @ w[:, None]) ** 2).sum()

    def gradients(*precisions):
        model, found = Model.from_loss(squares, torch.zeros(50)), []
        for precision in precisions:
            model.use_precision(precision)
            found = [model.gradient_sum(params, x, y, weight, None) for _ in range(4)]
        return found[-1]

    generator = torch.Generator().manual_seed(0)
    params, x = torch.randn(2, 50, generator=generator), torch.randn(2, 3, 50, generator=generator)
    y, weight = torch.zeros(2, 3), torch.ones(2, 3)
    coarse, exact = gradients("bf16"), gradients("float32")
    assert not torch.equal(coarse, exact)
    assert torch.equal(gradients("bf16", "float32"), exact)
    assert torch.equal(gradients("float32", "bf16"), coarse)


def test_invalid_precisions_are_refused():
    with pytest.raises(TacitError, match='precision must be "float32" or "bf16", got "fp16"'):
        digits_task(precision="fp16")
    with pytest.raises(TacitError, match=r'precision = "bf16" needs parameters in torch.float32, got torch.float64'):
        digits_task(precision="bf16", dtype=torch.float64)
