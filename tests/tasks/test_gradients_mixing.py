"""Modules and losses that mix records: a clipped sum still changes by at most 2C if one record is replaced."""

import copy

import pytest
import torch
from torch import nn

from tacit.errors import TacitError
from tacit.tasks.clip import Clip
from tacit.tasks.gradients import vectorised
from tacit.tasks.model import Model, cross_entropy
from tests.tasks.mixing import LOSSES, MODULES, above, attended, centred, loud, ordered, shifted
from tests.tasks.oracles import module_loss, naive_gradient_sum

BATCH, BOUND = 48, 1.0
HIDDEN = {name: make for name, make in MODULES.items() if name != "softmax over records"}


@pytest.fixture(autouse=True)
def _ghost_for_small_models(monkeypatch):
    monkeypatch.setattr("tacit.tasks.gradients.ghost.LARGE", 0)


def neighbours(n=1):
    """Two batches that differ in one record. The record of the second one is large."""
    torch.manual_seed(0)
    x, y = torch.randn(n, BATCH, 4, dtype=torch.float64), torch.randint(0, 3, (n, BATCH))
    other = x.clone()
    other[0, 5] = 1e4
    return x, other, y, torch.ones(n, BATCH, dtype=torch.float64)


def check_sum(module, loss, clip):
    """The clipped sum agrees with a loop over the records and changes by at most 2C."""
    x, other, y, weight = neighbours()
    model = Model(copy.deepcopy(module), loss)
    torch.manual_seed(1)
    params = model.initial()[None].double() + torch.randn(1, model.d, dtype=torch.float64)
    sums = [model.gradient_sum(params, values, y, weight, clip) for values in (x, other)]
    order = 1 if clip.norm == "l1" else 2
    assert float(torch.linalg.vector_norm(sums[0] - sums[1], ord=order)) <= 2 * BOUND
    record = module_loss(module.double(), model.layout, loss)
    for values, found in zip((x, other), sums, strict=True):
        wanted = naive_gradient_sum(record, params, values, y, weight, model.shared, clip.bound, clip.norm)
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("norm", ["l2", "l1", "smooth"])
def test_a_module_that_mixes_records_cannot_exceed_the_sensitivity(name, norm):
    torch.manual_seed(0)
    check_sum(MODULES[name](), cross_entropy, Clip(BOUND, norm))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("norm", ["l2", "l1", "smooth"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Linear(4, 3),
        lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 3)),
        lambda: nn.Sequential(nn.Linear(4, 3), nn.PReLU()),
    ],
    ids=["stacked", "ghost", "vectorised"],
)
def test_a_loss_that_mixes_records_cannot_exceed_the_sensitivity(name, norm, make):
    torch.manual_seed(0)
    check_sum(make(), LOSSES[name], Clip(BOUND, norm))


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize("engine", ["stacked", "ghost"])
def test_batch_engines_are_refused_for_modules_that_may_mix_records(name, engine):
    x, _, y, weight = neighbours()
    model = Model(MODULES[name](), engine=engine)
    with pytest.raises(TacitError, match=f'engine "{engine}" does not support this model'):
        model.gradient_sum(model.initial()[None].double(), x, y, weight, Clip(BOUND))


@pytest.mark.parametrize("mix", [centred, ordered, attended, shifted])
@pytest.mark.parametrize("size", [1, 2, 3, 16])
def test_visible_mixing_is_refused(mix, size):
    """Two records are not enough: mixing may begin with three."""
    x, _, y, weight = neighbours()
    module = nn.Sequential(nn.Linear(4, 3), nn.Identity())
    module[1].forward = above(size, mix)
    for model, words in (
        (Model(module), "output for a record depends on the other records of the batch"),
        (Model(nn.Linear(4, 3), lambda out, y: cross_entropy(above(size, mix)(out), y)), "loss of a record depends"),
    ):
        for clip in (Clip(BOUND), Clip(BOUND, per="batch"), None):
            with pytest.raises(TacitError, match=words):
                model.gradient_sum(model.initial()[None].double(), x, y, weight, clip)


def test_a_softmax_over_the_records_is_refused():
    x, _, y, weight = neighbours()
    model = Model(MODULES["softmax over records"]())
    with pytest.raises(TacitError, match="depends on the other records of the batch"):
        model.gradient_sum(model.initial()[None].double(), x, y, weight, Clip(BOUND))


def test_a_refusal_does_not_depend_on_the_records():
    """The check uses random batches of the same form."""
    x, other, y, weight = neighbours()
    other[0, :2] = 1e4  # also the first two
    module = nn.Sequential(nn.Linear(4, 3), nn.Identity())
    module[1].forward = loud
    params = Model(module).initial()[None].double()
    for values in (x, other, torch.full_like(x, torch.nan)):
        Model(module).gradient_sum(params, values, y, weight, Clip(BOUND))


@pytest.mark.parametrize("per", ["record", "batch"])
@pytest.mark.parametrize("content", [1e4, 1e200, float("inf"), float("nan")])
@pytest.mark.parametrize("make", [*HIDDEN.values(), lambda: nn.Linear(4, 3), lambda: nn.LayerNorm(4)])
@pytest.mark.parametrize("before", [False, True])
def test_padding_has_no_influence(make, content, per, before):
    """Padding repeats a record that was not drawn. If it had an influence, sampling would amplify nothing."""
    torch.manual_seed(0)
    model = Model(make(), lambda out, y: cross_entropy(loud(out), y))
    x, _, y, weight = neighbours(n=2)
    weight[0, 20:] = weight[1, ::2] = 0
    padded = torch.where(weight[..., None] == 0, content, x)
    params = model.initial().double().repeat(2, 1)
    earlier = 0.9 * params if before else None
    clip = Clip(torch.tensor([0.5, 1.0]), per=per)
    found = model.gradient_sum(params, padded, y, weight, clip, before=earlier)
    for i in range(2):
        one, drawn = slice(i, i + 1), weight[i] > 0
        rows = (values[one, drawn] for values in (x, y, weight))
        alone = model.gradient_sum(
            params[one], *rows, clip.for_nodes(one), before=None if earlier is None else earlier[one]
        )
        torch.testing.assert_close(found[one], alone, rtol=1e-9, atol=1e-12)


def test_records_with_one_number_use_the_vectorised_engine():
    """A batch of numbers (B,) looks like one record to a linear layer."""
    model = Model(nn.Sequential(nn.Embedding(2, 2)))
    params, x, y = torch.randn(1, model.d), torch.tensor([[0, 1, 1, 0, 1]]), torch.randint(0, 2, (1, 5))
    found = model.gradient_sum(params, x, y, torch.ones(1, 5), Clip(BOUND))
    wanted = torch.empty_like(found)
    vectorised.gradient_sum(model._objective, params, x, y, torch.ones(1, 5), Clip(BOUND), wanted)
    assert found.equal(wanted)
