"""Dataset: accepted arrays, conversions and errors."""

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.tasks import Target
from tacit.tasks.data import Dataset, datasets
from tacit.tasks.data.published import limited
from tests.helpers import content_digest

X = np.arange(40.0).reshape(20, 2)
Y = np.repeat([3, 7], 10)


def refused(match: str):
    return pytest.raises(TacitError, match=match)


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_all_array_types_give_the_same_data(kind):
    data = Dataset.from_arrays(kind(X), kind(Y))
    assert data.x.dtype == torch.float32
    assert data.y.dtype == torch.int64
    assert (data.inputs, data.classes, len(data.x), len(data.test_x)) == ((2,), 2, 16, 4)
    assert data.x.tolist() == Dataset.from_arrays(X, Y).x.tolist()
    # each record keeps its own label
    assert torch.equal(data.y, (data.x[:, 0] >= 20).long())


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [0.5, 2.5]])
def test_labels_are_numbered_in_sorted_order(labels):
    data = Dataset.from_arrays(X, np.repeat(labels, 10), test=(X, np.repeat(labels[::-1], 10)))
    assert data.y.tolist() == [0] * 10 + [1] * 10
    assert data.test_y.tolist() == [1] * 10 + [0] * 10


def test_labels_fix_the_class_numbers_of_a_site_without_some_class():
    data = Dataset.from_arrays(X, np.repeat(["c", "a"], 10), labels=["c", "b", "a"], test=(X, ["b"] * 20))
    assert data.classes == 3
    assert set(data.y.tolist()) == {0, 2}
    assert set(data.test_y.tolist()) == {1}
    assert Dataset.from_arrays(X, Y, labels=[3, 5, 7]).classes == 3


def test_data_set_copies_the_array():
    x = X.astype(np.float32)
    data = Dataset.from_arrays(x, Y, test=(x, Y))
    data.x.zero_()
    assert x[1, 1] == 3


def test_records_do_not_change_with_an_array_behind_a_tensor():
    """Their norms are computed once, so a later change would make gradients longer than their clip bound."""
    x, y, target = X.astype(np.float32), torch.zeros(len(X), dtype=torch.int64), Target.of_classes(2)
    data = Dataset("d", torch.from_numpy(x), y, torch.from_numpy(x), y, target=target)
    x *= 1000
    assert torch.equal(data.x, torch.from_numpy(X.astype(np.float32)))
    assert data.y is y


def test_limit_takes_the_first_records_of_each_class_in_proportion():
    y = np.tile([0, 0, 0, 1], 25)
    data = Dataset.from_arrays(np.arange(100.0)[:, None], y, test=(np.zeros((2, 1)), [0, 1]))
    part = limited(data, 40)
    assert part.y.bincount().tolist() == [30, 10]
    assert torch.equal(part.x.flatten(), torch.arange(40.0))
    assert len(part.test_x) == 2


def test_limit_keeps_a_rare_class():
    y = np.r_[np.zeros(998, int), 1, 1]
    data = Dataset.from_arrays(np.zeros((1000, 1)), y, test=(np.zeros((1, 1)), [1]))
    assert limited(data, 10).y.bincount().tolist() == [9, 1]


def test_unit_norm():
    data = datasets.build("digits", {"normalise": "unit"})
    assert torch.allclose(data.x.flatten(1).norm(dim=1), torch.ones(len(data.x)))
    assert torch.allclose(data.test_x.flatten(1).norm(dim=1), torch.ones(len(data.test_x)))
    zero = Dataset.from_arrays(np.zeros((20, 2)), Y).normalised("unit")
    assert not zero.x.any()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.where(X == 5, np.nan, X), r"data set mine: x has a NaN .*row 2, column 1 \(counted from 0\)"),
        (np.where(X > 36, np.inf, X), r"x has a NaN or infinite value, first at row 18, column 1"),
        (np.where(X == 5, 1e300, X), r"a NaN or infinite value, first at row 2, column 1"),
        (np.where(X == 5, np.nan, X).reshape(20, 1, 2, 1), r"row 2, column \(0, 1, 0\)"),
        (X[:-1], "x has 19 records but y has 20 labels"),
        (X.flatten(), r"shape \(records, features, …\) .* got \(40,\)"),
        (X[:, :0], r"the records of x have no features \(shape \(20, 0\)\)"),
        (X.astype(str), "x must contain numbers, got text"),
        (X.astype(object), "x must contain numbers, got object values"),
        (X * 1j, "x must contain numbers, got complex128 values"),
        ([[1, 2], [3]], "rows of x must have the same length"),
    ],
)
def test_invalid_records_are_refused(x, message):
    with refused(message):
        Dataset.from_arrays(x, Y, name="mine")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": 1.5}, r"test must be a share in \[0, 1\), got 1.5"),
        ({"test": 1.0}, "test must be a share .* got 1.0"),
        ({"test": -0.1}, "test must be a share .* got -0.1"),
        ({"test": float("nan")}, "test must be a share .* got nan"),
        ({"seed": -1}, r"seed must be at least 0 and below 2\^63, got -1"),
        ({"test": 0.999999}, "there are no training records; give more records, or a smaller share for testing"),
        ({"test": (X, Y[:-1])}, "test_x has 20 records but test_y has 19 labels"),
        ({"test": (X, Y + 1)}, r"the label at row 0 of test_y \(counted from 0\) is not one of the labels that y has"),
        ({"test": (X[:, :1], Y)}, r"training records have shape \(2,\), test records \(1,\)"),
        ({"labels": [3, 4]}, "the label at row 10 of y .* is not one of the labels 3, 4"),
        ({"labels": [3, 4], "test": (X, Y)}, "the label at row 10 of y .* is not one of the labels 3, 4"),
        ({"labels": ["3", "7"]}, "the label at row 0 of y .* is not one of the labels 3, 7"),
        ({"labels": [3, 7, 7]}, "labels must be a list of different values"),
    ],
)
def test_invalid_split_or_labels_are_refused(options, message):
    with refused(message):
        Dataset.from_arrays(X, Y, **options)


@pytest.mark.parametrize("labels", [[1234.5, 9], ["ill", "well"], None])
def test_errors_contain_no_label_of_a_record(labels):
    secret = 1234.5 if labels is None or labels == ["ill", "well"] else 4321.5
    y = np.where(np.arange(20) == 3, secret, 9)
    with refused("the label at row") as refusal:
        Dataset.from_arrays(X, y if labels is not None else np.repeat([8, 9], 10), labels=labels, test=(X, y))
    assert str(secret) not in str(refusal.value)


@pytest.mark.parametrize("y", [np.zeros(20), np.r_[np.zeros(19), 2]])
def test_declared_classes_may_be_rare_or_missing(y):
    data = Dataset.from_arrays(X, y, labels=[0, 1, 2])
    assert (data.classes, data.declared) == (3, True)
    assert len(data.y) + len(data.test_y) == 20


def test_a_test_set_may_be_empty():
    for test in (0.0, 1e-9, (X[:0], [])):
        data = Dataset.from_arrays(X, Y, labels=[3, 7], test=test)
        assert (len(data.y), tuple(data.test_x.shape), len(data.test_y)) == (20, (0, 2), 0)


def test_data_set_records_what_was_declared():
    assert Dataset.from_arrays(X, Y).declared is False
    assert Dataset.from_arrays(X, Y, labels=[3, 7]).declared
    assert Dataset.from_arrays(X, Y, split="index").subset(np.arange(3)).split == "index"
    given = Dataset.from_arrays(X, Y, test=(X, Y), split="index")
    assert (given.split, given.normalised("unit").declared) == (None, False)
    digits = datasets.build("digits", {"limit": 50})
    assert (digits.declared, digits.split) == (True, None)


@pytest.mark.parametrize(
    ("split", "fits", "other"), [("content", "add-remove", "replace-one"), ("index", "replace-one", "add-remove")]
)
def test_a_split_fits_one_relation(split, fits, other):
    data = Dataset.from_arrays(X, Y, labels=[3, 7], split=split)
    data.check_public_facts(fits)
    with refused(f'split = "{split}" does not fit the relation "{other}".* or give test records'):
        data.check_public_facts(other)
    Dataset.from_arrays(X, Y, test=(X, Y), labels=[3, 7], split=split).check_public_facts(other)
    with refused(r"the classes were learnt from the records.* labels=\[...\] \(in a config: data.labels = \[...\]\)"):
        Dataset.from_arrays(X, Y, split=split).check_public_facts(fits)


def test_invalid_classes_are_refused():
    with refused("the labels have 1 class; at least 2"):
        Dataset.from_arrays(X, np.zeros(20))
    with refused("data set data: there are no records"):
        Dataset.from_arrays(X[:0], Y[:0])
    with refused("y has a NaN or infinite value, first at row 3"):
        Dataset.from_arrays(X, np.where(np.arange(20) == 3, np.nan, Y))
    for limit in (1, 21):
        with refused(rf"limit must be 2 \(the number of classes\) to 16 \(the number of records\), got {limit}"):
            limited(Dataset.from_arrays(X, Y), limit)


def test_direct_construction_is_checked():
    x, y = torch.zeros(4, 2), torch.tensor([0, 1, 2, 0])
    with refused("the label at row 2 of test_y is not in 0 … 1"):
        Dataset("d", x, y.clamp(max=1), x, y, target=Target.of_classes(2))
    with refused("the label at row 0 of y is not in"):
        Dataset("d", x, y - 1, x, y, target=Target.of_classes(3))
    with refused("x must be float32 or int64 and y int64, got torch.float64 and torch.int64"):
        Dataset("d", x.double(), y, x, y, target=Target.of_classes(3))


def test_digits():
    data = datasets.build("digits")
    assert (data.inputs, len(data.x), len(data.test_x)) == ((1, 8, 8), 1437, 360)
    assert (data.x.min(), data.x.max()) == (0, 1)
    assert torch.equal(data.x, datasets.build("digits").x)
    assert len(datasets.build("digits", {"limit": 100}).y) == 100


@pytest.mark.parametrize(
    ("options", "digest"), [({}, "dd82963602a00ec7"), ({"limit": 100}, "9bca81feffcebc09")], ids=["all", "limit"]
)
def test_split_of_digits_is_a_constant(options, digest):
    """All published numbers use these training and test records."""
    assert content_digest(datasets.build("digits", options)) == digest


def test_synthetic_logistic_follows_its_model():
    data = datasets.build("synthetic-logistic", {"records": 50_000, "dimension": 3, "seed": 4})
    w = torch.from_numpy(np.random.default_rng(4).standard_normal(3)).float()
    chance = torch.sigmoid(data.x @ w)
    assert abs((data.y - chance).mean()) < 0.01
    assert abs(((data.y - chance) * (data.x @ w)).mean()) < 0.02
    clean = datasets.build("synthetic-logistic", {"noise": 0})
    w = torch.from_numpy(np.random.default_rng(0).standard_normal(5)).float()
    assert torch.equal(clean.test_y, (clean.test_x @ w > 0).long())
    scaled = datasets.build("synthetic-logistic", {"records": 50_000, "seed": 4, "weight_norm": 4.0})
    w = torch.from_numpy(np.random.default_rng(4).standard_normal(5)).float()
    chance = torch.sigmoid(scaled.x @ (4 * w / w.norm()))
    assert abs(((scaled.y - chance) * (scaled.x @ w)).mean()) < 0.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"records": 0}, "records must be at least 1, got 0"),
        ({"dimension": -1}, "dimension must be at least 1, got -1"),
        ({"noise": -1}, "noise must be finite and at least 0, got -1"),
        ({"noise": float("nan")}, "noise must be finite and at least 0, got nan"),
        ({"weight_norm": 0.0}, "weight_norm must be positive and finite, got 0"),
        ({"recrods": 5}, 'unknown parameter .* did you mean "records"'),
    ],
)
def test_invalid_synthetic_parameters_are_refused(options, message):
    with refused(message):
        datasets.build("synthetic-logistic", options)


def test_every_data_set_has_a_description():
    assert all(line.endswith((".", "?")) or ":" in line for line in datasets.describe().values())
    assert set(datasets) >= {
        "digits",
        "mnist",
        "fashion-mnist",
        "cifar10",
        "a9a",
        "w8a",
        "mushrooms",
        "npz",
        "csv",
    }
