"""Heads: every loss and engine compared with a loop over the records, and the meaning of outputs."""

import copy
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.privacy import Noise
from tacit.tasks import (
    Binary,
    Classification,
    Clip,
    Counts,
    Dataset,
    Head,
    Model,
    MultiLabel,
    Regression,
    Target,
    Task,
    default_head,
    heads,
)
from tacit.tasks.models.per_record import is_known_loss
from tests.tasks.oracles import module_loss, naive_gradient_sum

CLASSES, TWO = Target("class", ("a", "b", "c")), Target("class", ("no", "yes"))
LABELS = Target("labels", ("red", "round", "heavy"))
DAYS, VISITS = Target("number", range=(0.0, 60.0), name="days"), Target("count", range=(0.0, 20.0))
WEIGHTS = (0.5, 2.0, 7.0)


def softmax_loss(output, y, weights=(1.0, 1.0, 1.0)):
    """Losses of single records, written from their formulas; `output` is a vector."""
    return weights[int(y)] / max(weights) * (torch.logsumexp(output, 0) - output[int(y)])


def logistic_loss(output, y, weights=(1.0, 1.0)):
    return weights[int(y)] / max(weights) * F.softplus(output[0] * (1 - 2 * float(y)))


def label_loss(output, y, weights=(1.0, 1.0, 1.0)):
    return sum(
        w / max(weights) * (F.softplus(o) - float(label) * o) for w, o, label in zip(weights, output, y, strict=True)
    )


def huber(output, y, delta):
    e = (output[0] - y).abs()
    return 0.5 * e * e if e.item() <= delta else delta * (e - 0.5 * delta)


def poisson(output, y, largest=20.0):
    limit = 2 * largest
    if output[0].item() <= math.log(limit):
        return output[0].exp() - y * output[0]
    return limit + limit * (output[0] - math.log(limit)) - y * output[0]


HEADS = {
    "classes": (Classification(CLASSES), softmax_loss),
    "weighted classes": (Classification(CLASSES, WEIGHTS), lambda o, y: softmax_loss(o, y, WEIGHTS)),
    "binary": (Binary(TWO), logistic_loss),
    "weighted binary": (Binary(TWO, (0.3, 5.0)), lambda o, y: logistic_loss(o, y, (0.3, 5.0))),
    "labels": (MultiLabel(LABELS), label_loss),
    "weighted labels": (MultiLabel(LABELS, WEIGHTS), lambda o, y: label_loss(o, y, WEIGHTS)),
    "squared": (Regression(DAYS), lambda o, y: (o[0] - y) ** 2),
    "absolute": (Regression(DAYS, "absolute"), lambda o, y: (o[0] - y).abs()),
    "huber": (Regression(DAYS, "huber", 0.5), lambda o, y: huber(o, y, 0.5)),
    "counts": (Counts(VISITS), poisson),
}


def targets(target, *shape):
    """Random targets of every value, with the largest and the smallest among them."""
    if target.kind == "class":
        return torch.randint(0, target.classes, shape)
    if target.kind == "labels":
        return torch.randint(0, 2, (*shape, len(target.labels))).float()
    low, high = target.range
    return target.encode(torch.rand(shape) * 1.4 * (high - low) + low - 0.2 * (high - low))


def module(name, outputs):
    torch.manual_seed(3)
    if name == "linear":
        return nn.Linear(4, outputs)
    if name == "chain":
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs))
    return nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, outputs))  # not stackable


ENGINES = {"linear": ("auto", "stacked", "ghost", "vectorised"), "chain": ("auto", "stacked", "ghost", "vectorised")}


@pytest.mark.parametrize("layers", ["linear", "chain", "normed"])
@pytest.mark.parametrize("name", HEADS)
def test_every_loss_and_engine_agrees_with_a_loop_over_records(name, layers):
    head, formula = HEADS[name]
    net = module(layers, head.outputs)
    model = Model(net, head)
    torch.manual_seed(0)
    params = model.initial().double() + torch.randn(3, model.d).double()
    x, y, weight = torch.randn(3, 7, 4).double(), targets(head.target, 3, 7), torch.ones(3, 7).double()
    weight[:, -1] = 0  # padding
    loss = module_loss(copy.deepcopy(net).double(), model.layout, lambda out, y: formula(out[0], y[0])[None])
    for norm in (None, "l2", "l1", "smooth"):
        bound = None if norm is None else torch.tensor([0.3, 1.0, 4.0])
        wanted = naive_gradient_sum(loss, params, x, y, weight, model.shared, bound, norm)
        clip = None if bound is None else Clip(bound, norm)
        for engine in (*ENGINES.get(layers, ("auto", "ghost", "vectorised")), *(["summed"] if clip is None else [])):
            if engine == "ghost" and norm == "l1":
                continue
            found = Model(net, head, engine=engine).gradient_sum(params, x, y, weight, clip)
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", HEADS)
def test_losses_are_known_to_treat_each_record_separately(name):
    head, formula = HEADS[name]
    assert is_known_loss(head.record_loss)
    assert default_head(head.target) == ("classification" if name.endswith("binary") else head.name)
    outputs, y = 3 * torch.randn(9, head.outputs).double(), targets(head.target, 9)
    wanted = torch.stack([formula(o, label) for o, label in zip(outputs, y, strict=True)])
    torch.testing.assert_close(head.record_loss(outputs, y), wanted)
    torch.testing.assert_close(head(outputs, y), wanted)


def dataset(target, x, y):
    return Dataset("heads", x, y, x[:0], y[:0], target)


@pytest.mark.parametrize("engine", ["stacked", "ghost", "vectorised"])
@pytest.mark.parametrize("name", HEADS)
def test_a_record_with_extreme_outputs_moves_the_gradient_by_at_most_the_sensitivity(name, engine):
    """Whatever its features are: outputs overflow in single precision, and a gradient that is not finite is 0."""
    head, _ = HEADS[name]
    model = Model(nn.Linear(3, head.outputs), head, engine=engine)
    clip = Clip(0.5)
    torch.manual_seed(0)
    x, y = torch.randn(6, 3), targets(head.target, 6)

    def gradient(x):
        noise = Noise.from_seed(0)
        task = Task(model, dataset(head.target, x, y), [np.arange(6)], batch=None, relation="replace-one", noise=noise)
        return task.gradient(task.initial() + 1.0, 0, clip), task.sensitivity(clip)[0]

    reference, sensitivity = gradient(x)
    for size in (40.0, 90.0, 1e4, 1e20, 3e38):
        for direction in (torch.ones(3), -torch.ones(3), torch.tensor([1.0, -1.0, 0.5])):
            other = x.clone()
            other[2] = size * direction
            value = gradient(other)[0]._value
            assert value.isfinite().all()
            assert float((value - reference._value).double().norm()) <= sensitivity * (1 + 1e-5)


def test_the_poisson_loss_has_a_finite_gradient_for_every_finite_output():
    outputs = torch.tensor([[-200.0], [0.0], [math.log(40.0)], [89.0], [1e30]], requires_grad=True)
    y = torch.tensor([3.0, 3.0, 3.0, 20.0, 0.0])
    (gradient,) = torch.autograd.grad(Counts(VISITS)(outputs, y).sum(), outputs)
    torch.testing.assert_close(gradient[:, 0], torch.tensor([-3.0, -2.0, 37.0, 20.0, 40.0]))


@pytest.mark.parametrize("name", HEADS)
def test_link_is_the_inverse_of_predict(name):
    head, _ = HEADS[name]
    outputs = torch.randn(20, head.outputs).double().clamp(-1, 1)
    predictions = head.predict(outputs)
    assert predictions.shape == ((20, len(head.target.labels)) if head.classifies else (20,))
    torch.testing.assert_close(head.predict(head.link(predictions)), predictions, rtol=1e-6, atol=1e-6)


def test_predictions():
    torch.testing.assert_close(Binary(TWO).predict(torch.tensor([[math.log(3.0)]])), torch.tensor([[0.25, 0.75]]))
    two = Classification(TWO).predict(torch.tensor([[0.0, math.log(3.0)]]))
    torch.testing.assert_close(two, torch.tensor([[0.25, 0.75]]))
    assert Binary(TWO).decide(torch.tensor([[0.25, 0.75], [0.6, 0.4]])).tolist() == [1, 0]
    assert MultiLabel(LABELS).decide(torch.tensor([[0.2, 0.5, 0.9]])).tolist() == [[0, 1, 1]]
    assert Regression(DAYS).predict(torch.tensor([[-1.0], [0.5], [7.0]])).tolist() == [0.0, 45.0, 60.0]  # clamped
    assert Counts(VISITS).predict(torch.tensor([[0.0], [99.0]])).tolist() == [1.0, 20.0]


@pytest.mark.parametrize("name", HEADS)
def test_only_unweighted_classification_has_a_known_smoothness(name):
    """DP-Norm scales records by it. Another bound would be wrong for another loss."""
    head, _ = HEADS[name]
    known = Model(nn.Linear(3, head.outputs), head).longest_input(2.0)
    assert known == (pytest.approx(math.sqrt(3.0)) if name == "classes" else None)


def test_smoothness_of_losses_of_the_users_own_is_unknown():
    assert Model(nn.Linear(3, 3), lambda out, y: out[:, 0] ** 2).longest_input(2.0) is None
    assert Model(nn.Linear(3, 3), OwnClassification(CLASSES)).longest_input(2.0) is None


class OwnClassification(Classification):
    """A head whose loss replaces that of its base class."""

    def __call__(self, outputs, y):
        return 3 * F.cross_entropy(outputs, y, reduction="none")


@dataclass(frozen=True)
class Quantile(Head):
    """A quantile of a number."""

    kinds = ("number",)
    level: float = 0.9

    def __call__(self, outputs, y):
        error = y - outputs[:, 0]
        return torch.maximum(self.level * error, (self.level - 1) * error)

    def predict(self, outputs):
        return self.target.decode(outputs[:, 0])


def test_a_subclass_computes_its_own_loss_one_record_at_a_time():
    head = OwnClassification(CLASSES)
    assert head.record_loss is head
    assert not is_known_loss(head.record_loss)
    net = nn.Linear(4, 3)
    x, y, weight = torch.randn(2, 5, 4), torch.randint(0, 3, (2, 5)), torch.ones(2, 5)
    plain, own = (Model(net, each) for each in (Classification(CLASSES), head))
    params = plain.initial().repeat(2, 1)
    torch.testing.assert_close(
        own.gradient_sum(params, x, y, weight, None), 3 * plain.gradient_sum(params, x, y, weight, None)
    )


def test_a_head_that_mixes_records_is_refused():
    class Mixing(Regression):
        def __call__(self, outputs, y):
            return (outputs[:, 0] - outputs.mean() - y).square()

    model = Model(nn.Linear(2, 1), Mixing(DAYS))
    with pytest.raises(TacitError, match="the loss of a record depends on the other records"):
        model.gradient_sum(model.initial()[None], torch.randn(1, 4, 2), torch.zeros(1, 4), torch.ones(1, 4), Clip(1.0))


def test_heads_of_the_users_own():
    head = Quantile(DAYS, 0.75)
    assert head.name == "Quantile"
    assert heads.build("counts", {"target": VISITS}).name == "counts"
    model = Model(nn.Linear(2, 1), head)
    assert model.head((2,), DAYS) is head
    params, x, y = model.initial()[None], torch.randn(1, 6, 2), torch.rand(1, 6)
    error = y - model.outputs(params[0], x[0])[:, 0]
    torch.testing.assert_close(model.losses(params, x, y), torch.maximum(0.75 * error, -0.25 * error))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Classification(DAYS), "task classification needs targets of kind class, got kind number"),
        (lambda: Regression(TWO), 'targets of kind number, got kind class: set task = "auto"'),
        (lambda: Binary(CLASSES), "task binary needs 2 classes, got 3"),
        (lambda: Classification(CLASSES, (1.0, 2.0)), r"class_weights must be 3 finite numbers .* got \[1.0, 2.0\]"),
        (lambda: Binary(TWO, (1.0, -1.0)), "class_weights must be 2 finite numbers of at least 0"),
        (lambda: Binary(TWO, (0.0, 0.0)), "not all 0"),
        (lambda: MultiLabel(LABELS, (1.0, math.nan, 1.0)), "class_weights must be 3 finite"),
        (lambda: Regression(DAYS, "hubert"), 'unknown task.loss "hubert"; did you mean "huber"'),
        (lambda: Regression(DAYS, "huber", 0.0), "task.delta must be a finite number above 0, got 0"),
        (lambda: heads.build("regression", {"target": DAYS, "los": "huber"}), 'did you mean "loss"'),
    ],
)
def test_refusals(make, words):
    with pytest.raises(TacitError, match=words):
        make()


@pytest.mark.parametrize(
    ("model", "target", "words"),
    [
        (
            lambda: Model(nn.Linear(2, 2)),
            CLASSES,
            r"needs a model with 3 outputs .*, shape \(1, 3\) .* \(1, 2\)",
        ),
        (lambda: Model(nn.Linear(2, 4)), CLASSES, r"needs a model with 3 outputs per record.* got \(1, 4\)"),
        (lambda: Model(nn.Linear(2, 1)), TWO, r"needs a model with 2 outputs per record.* got \(1, 1\)"),
        (lambda: Model(nn.Linear(2, 2), Binary(TWO)), TWO, r"task binary needs a model with 1 output per record"),
        (lambda: Model(nn.Linear(2, 3), Regression(DAYS)), DAYS, r"task regression needs a model with 1 output per"),
        (lambda: Model(nn.Linear(2, 1)), DAYS, "loss of a classification, but the targets are of kind number"),
        (lambda: Model(nn.Linear(2, 1), Regression(DAYS)), VISITS, r"made for another target .*number and count"),
        (lambda: Model(nn.Linear(3, 1), Regression(DAYS)), DAYS, r"does not accept records of shape \(2,\)"),
        (lambda: Model(nn.Linear(2, 1), Silent(DAYS)), DAYS, "Silent defines no predictions"),
        (lambda: Model(nn.Linear(2, 1), Wide(DAYS)), DAYS, r"Wide.predict must return shape \(B,\), got \(1, 1\)"),
    ],
)
def test_outputs_that_do_not_fit_are_refused_in_one_sentence(model, target, words):
    with pytest.raises(TacitError, match=words):
        model().head((2,), target)


class Silent(Head):
    """A head without predictions."""

    def __call__(self, outputs, y):
        return outputs[:, 0]


class Wide(Silent):
    """A head with predictions of a wrong shape."""

    def predict(self, outputs):
        return outputs


def test_the_meaning_of_outputs_without_a_head():
    own = Model(nn.Linear(2, 3), lambda out, y: out[:, 0]).head((2,), CLASSES)
    assert own.name == "own loss"
    assert own.classifies
    assert not own.has_probabilities
    assert Model(nn.Linear(2, 1), lambda out, y: out[:, 0]).head((2,), TWO) is None  # never an accuracy
    assert Model(nn.Linear(2, 3), lambda out, y: out[:, 0]).head((2,), DAYS) is None
    assert Model.from_loss(lambda w, x, y: w.sum(), torch.zeros(2)).head((2,), TWO) is None
    assert Model(nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)), Binary(TWO)).head((2,), TWO).name == "binary"


def test_targets_at_the_ends_of_a_range_are_valid_after_rounding():
    """A record must not be refused because 0.7 has no exact form in single precision."""
    target = Target("count", range=(0.7, 1.7))
    assert target.first_invalid(target.encode(torch.tensor([0.0, 0.7, 1.7, 9.0]))) is None
    assert target.first_invalid(torch.tensor([0.69])) == 0
