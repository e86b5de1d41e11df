"""Every built-in model, engine and clip, compared with a loop over the records."""

import copy

import pytest
import torch

from tacit.errors import TacitError
from tacit.tasks.clip import Clip
from tacit.tasks.gradients.terms import DirectTerm, OuterProductTerm, embedding
from tacit.tasks.model import Model, cross_entropy
from tacit.tasks.models import models
from tests.tasks.oracles import module_loss, naive_gradient_sum

MODELS = {
    "logistic": ((1, 8, 8), {}, ["0.weight"]),
    "mlp": ((6,), {"hidden": (5, 7)}, ["0.*", "4.bias"]),
    "cnn": ((1, 8, 8), {"width": 2, "hidden": 5}, ["0.*", "7.weight"]),
    "resnet10": ((3, 16, 16), {"width": 4}, ["stem.*", "*norm*"]),
    "resnet18": ((1, 16, 16), {"width": 4}, ["blocks.0.*"]),
    "vit": ((1, 8, 8), {"width": 8, "depth": 2, "heads": 2}, ["position.*", "blocks.1.*"]),
}
ENGINES = ["auto", "stacked", "convolutional", "ghost", "vectorised", "looped"]
MODELS_OF = {"stacked": {"logistic", "mlp"}, "convolutional": {"cnn"}, "looped": {"logistic", "mlp", "cnn"}}
CLIPS = [None, "l2", "l1", "smooth", "automatic", "automatic-l1"]


def build(name, classes=4):
    torch.manual_seed(1)
    inputs, params, _ = MODELS[name]
    return models.build(name, {"inputs": inputs, "classes": classes, **params})


def batch(model, inputs, n, size=3, dtype=torch.float64, classes=4):
    """Return different parameters for each node, and records with padding (weight 0)."""
    params = model.initial().to(dtype) + 0.1 * torch.randn(n, model.d, dtype=dtype)
    x, y = torch.randn(n, size, *inputs, dtype=dtype), torch.randint(0, classes, (n, size))
    weight = torch.ones(n, size, dtype=dtype)
    weight[:, -1] = 0
    return params, x, y, weight


def expected(module, model, params, x, y, weight, bound, norm):
    """Return the reference sum in float64."""
    loss = module_loss(copy.deepcopy(module).double(), model.layout, cross_entropy)
    return naive_gradient_sum(loss, params.double(), x.double(), y, weight.double(), model.shared, bound, norm)


def close(found, wanted, tolerance):
    assert found.dtype in (torch.float32, torch.float64)
    assert (found.double() - wanted).norm() <= tolerance * wanted.norm()


def applicable(engine, name, norm):
    return name in MODELS_OF.get(engine, MODELS) and (engine != "ghost" or not str(norm).endswith("l1"))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("partial", [False, True])
def test_engines_agree_with_a_loop_over_records(name, partial):
    module = build(name)
    inputs, _, share = MODELS[name]
    for norm in CLIPS:
        for n, dtype in [(1, torch.float32), (3, torch.float64)]:
            some = share if partial else None
            model = Model(module, share=some)
            data = batch(model, inputs, n, dtype=dtype)
            # With these bounds, some records are clipped and others are not.
            bound = None if norm is None else torch.linspace(0.5, 2, n) * (8 if norm.endswith("l1") else 1)
            wanted = expected(module, model, *data, bound, norm)
            clip = None if bound is None else Clip(bound, norm)
            for engine in ENGINES:
                if applicable(engine, name, norm):
                    found = Model(module, share=some, engine=engine).gradient_sum(*data, clip)
                    close(found, wanted, 1e-5 if dtype == torch.float32 else 1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_summed_engine(name):
    module = build(name)
    model = Model(module, engine="summed")
    data = batch(model, MODELS[name][0], 2)
    close(model.gradient_sum(*data, None), expected(module, model, *data, None, None), 1e-9)


@pytest.mark.parametrize(
    ("name", "engine"),
    [(name, engine) for name in MODELS for engine in [*ENGINES, "summed"] if applicable(engine, name, "l2")],
)
def test_nodes_give_the_same_result_together_and_separately(name, engine):
    clip = None if engine == "summed" else Clip(torch.tensor([0.5, 1.0, 2.0]))
    model = Model(build(name), engine=engine)
    data = batch(model, MODELS[name][0], 3)
    together = model.gradient_sum(*data, clip)
    for i in range(3):
        one = slice(i, i + 1)
        alone = model.gradient_sum(*(part[one] for part in data), clip and clip.for_nodes(one))
        torch.testing.assert_close(alone, together[one], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_losses_and_outputs(name):
    module = build(name).double()
    model = Model(module)
    params, x, y, _ = batch(model, MODELS[name][0], 3)
    found = model.losses(params, x, y)
    assert found.shape == (3, 3)
    for i in range(3):
        outputs = model.outputs(params[i], x[i])
        torch.testing.assert_close(cross_entropy(outputs, y[i]), found[i])
    torch.testing.assert_close(model.outputs(model.initial(), x[0]), module(x[0]).detach())
    assert not found.requires_grad


@pytest.mark.parametrize("name", ["mlp", "cnn"])
@pytest.mark.parametrize("norm", CLIPS[1:])
def test_batch_clip_applies_to_the_shared_part_of_the_sum(name, norm):
    model = Model(build(name), share=MODELS[name][2])
    data = batch(model, MODELS[name][0], 3)
    plain, clip = model.gradient_sum(*data, None), Clip(torch.tensor([0.1, 0.5, 1.0]), norm, "batch")
    found = model.gradient_sum(*data, clip)
    torch.testing.assert_close(found[:, : model.shared], clip.clip_rows(plain[:, : model.shared]))
    torch.testing.assert_close(found[:, model.shared :], plain[:, model.shared :])


@pytest.mark.parametrize("engine", ["convolutional", "ghost", "vectorised"])
def test_block_sizes_do_not_change_the_result(monkeypatch, engine):
    module = build("cnn")
    data = batch(Model(module), (1, 8, 8), 3, size=20)
    for clip in (Clip(0.7), None):
        whole = Model(module, engine=engine).gradient_sum(*data, clip)
        monkeypatch.setattr("tacit.tasks.gradients.vectorised.BYTES", 8 * 7 * Model(module).d)
        monkeypatch.setattr("tacit.tasks.gradients.ghost.BYTES", 1)
        monkeypatch.setattr("tacit.tasks.gradients.convolutional.RECORDS", 7)
        monkeypatch.setattr("tacit.tasks.gradients.summed.RECORDS", 7)
        monkeypatch.setattr("tacit.tasks.gradients.summed.NUMBERS", 1)
        torch.testing.assert_close(Model(module, engine=engine).gradient_sum(*data, clip), whole)
    monkeypatch.setattr("tacit.tasks.gradients.stacked.NUMBERS", 300)
    mlp = build("mlp")
    data = batch(Model(mlp), (6,), 5, size=20)
    alone = torch.cat([Model(mlp).gradient_sum(*(p[i : i + 1] for p in data), Clip(0.7)) for i in range(5)])
    torch.testing.assert_close(Model(mlp).gradient_sum(*data, Clip(0.7)), alone)


def test_empty_batches_and_out_argument():
    for name in ("mlp", "cnn"):
        model = Model(build(name))
        params, x, y, weight = batch(model, MODELS[name][0], 2)
        assert torch.equal(
            model.gradient_sum(params, x[:, :0], y[:, :0], weight[:, :0], Clip(1.0)), torch.zeros_like(params)
        )
        assert model.losses(params, x[:, :0], y[:, :0]).shape == (2, 0)
        out = torch.full_like(params, 7.0)
        assert model.gradient_sum(params, x, y, weight, Clip(1.0), out) is out
        torch.testing.assert_close(out, model.gradient_sum(params, x, y, weight, Clip(1.0)))
        zero = model.gradient_sum(params, x, y, 0 * weight, Clip(1.0))
        assert torch.equal(zero, torch.zeros_like(params))


def test_nan_stays_visible():
    for name, engine in [("mlp", "stacked"), ("cnn", "convolutional"), ("cnn", "vectorised"), ("cnn", "ghost")]:
        model = Model(build(name), engine=engine)
        params, x, y, weight = batch(model, MODELS[name][0], 2)
        x[0, 0] = float("nan")
        found = model.gradient_sum(params, x, y, weight, Clip(1.0))
        assert found[0].isnan().any()
        assert found[1].isfinite().all()


def test_auto_engine_choice():
    def choice(name, norm="l2", size=3, **params):
        model = Model(models.build(name, {"inputs": (1, 8, 8), "classes": 4, **params}))
        params, x, y, _ = batch(model, (1, 8, 8), 1, size)
        return model._gradients.choice.choose(params, x, y, None if norm is None else Clip(1.0, norm))

    assert choice("mlp") == choice("logistic", "l1") == choice("mlp", None) == "stacked"
    assert choice("cnn") == choice("cnn", "l1") == choice("cnn", None) == "convolutional"
    assert choice("vit", width=8, depth=1, heads=2) == "vectorised"
    assert choice("vit", None, width=8, depth=1, heads=2) == "summed"
    assert choice("resnet10", width=8, size=64) == "ghost"
    assert choice("resnet10", "l1", width=8, size=64) == "vectorised"


def test_refusals():
    model = Model(build("cnn"), engine="stacked")
    data = batch(model, (1, 8, 8), 1)
    with pytest.raises(TacitError, match='engine "stacked" does not support this model'):
        model.gradient_sum(*data, Clip(1.0))
    with pytest.raises(TacitError, match='engine "ghost" does not support'):
        Model(build("cnn"), engine="ghost").gradient_sum(*data, Clip(1.0, "l1"))
    with pytest.raises(TacitError, match='engine "summed" does not support'):
        Model(build("cnn"), engine="summed").gradient_sum(*data, Clip(1.0))
    with pytest.raises(TacitError, match='unknown engine "gost"; did you mean "ghost"'):
        Model(build("cnn"), engine="gost")
    with pytest.raises(TacitError, match=r"parameters must have shape \(nodes, \d+\), got \(3,\)"):
        model.gradient_sum(torch.zeros(3), *data[1:], None)


@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn"])
@pytest.mark.parametrize("per", ["record", "batch"])
def test_rounding_does_not_exceed_the_bound_of_a_record(name, per):
    module = build(name)
    bound = torch.rand(40) + 0.001
    for norm in ("l2", "l1"):
        for engine in ENGINES:
            if applicable(engine, name, norm):
                model = Model(module, engine=engine)
                params, x, y, _ = batch(model, MODELS[name][0], 40, 1, torch.float32)
                found = model.gradient_sum(params, 100 * x, y, torch.ones(40, 1), Clip(bound, norm, per)).double()
                size = torch.linalg.vector_norm(found, ord=1 if norm == "l1" else 2, dim=1) / bound.double()
                assert (size <= 1).all()
                assert (size > 1 - 1e-4).any()


def test_norms_of_products_that_cancel_are_accurate():
    """In single precision the norm could be computed as 0, and the record would not be clipped."""
    g = torch.ones(1, 2, 4) * torch.tensor([1.0, -1.0])[:, None]
    a = torch.full((1, 2, 8), 1e4)
    a[0, 1] += 0.5
    exact = float(DirectTerm(g.double().mT @ a.double()).norms())
    found = float(OuterProductTerm(a, g).norms())
    assert exact <= found <= exact + 0.1  # it includes the rounding of the sum, whose terms are 20,000 times larger
    assert OuterProductTerm(a, g).sum(torch.ones(1)).norm() <= found
    rows = torch.full((1, 2, 8), 1e4) * torch.tensor([1.0, -1.0])[:, None]
    rows[0, 1] += 0.5  # the same row of the embedding, used twice
    norms = embedding(torch.zeros(1, 2, dtype=torch.long), rows, 3).norms()
    torch.testing.assert_close(norms, DirectTerm(rows.double().sum(1)).norms(), rtol=1e-5, atol=0)
