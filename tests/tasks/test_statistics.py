"""Statistics of records: values against naive loops, and how far one record moves them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.privacy import Gaussian, Noise
from tacit.tasks import (
    ClassMoments,
    Dataset,
    Gram,
    Histogram,
    Mean,
    Model,
    Stacked,
    Target,
    Task,
    class_moments,
    gram_matrix,
    models,
    quantiles,
    statistics,
)
from tacit.tasks.statistics.base import bounded_records

CLASSES, D = 3, 4
STATISTICS = {
    "mean": Mean(),
    "gram": Gram(),
    "class-moments": ClassMoments(),
    "histogram": Histogram(D, -2.0, 2.0, 8),
    "stacked": Stacked((Gram(), ClassMoments()), (1.0, 0.5)),
}
RELATIONS = ("add-remove", "replace-one")
EXTREME = [0.0, 1.0, -1.0, 0.5, 3e38, -3e38, 1e-45, math.nan, math.inf, -math.inf, 0.999999, 2.0]


def records_of(x, y):
    """Records as a statistic reads them. A data set would refuse values that are not finite."""
    x, y = torch.tensor(x, dtype=torch.float32).reshape(-1, D), torch.tensor(y, dtype=torch.int64)
    target = Target("class", tuple(range(CLASSES)))
    return SimpleNamespace(x=x, y=y, inputs=(D,), classes=CLASSES, tokens=False, target=target, name="records")


def total(statistic, x, y):
    return statistic.totals(records_of(x, y), [np.arange(len(y))])[0]


def task_of(n=3, relation="add-remove", size=40, d=D):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n * size, d)) * rng.exponential(size=(n * size, 1)), rng.integers(0, CLASSES, n * size)
    data = Dataset.from_arrays(x, y, test=0.0, labels=list(range(CLASSES)))
    model = Model(models.build("logistic", {"inputs": (d,), "classes": CLASSES}))
    parts = np.split(rng.permutation(n * size), np.cumsum([size // 2, *[size] * (n - 2)]))
    return Task(model, data, parts, noise=Noise.from_seed(0), relation=relation)


# Values


def naive(name, x, y):
    """One record at a time, from the definitions."""
    z = [np.zeros(D) if not np.isfinite(row).all() else row / max(1.0, np.linalg.norm(row)) for row in x]
    if name == "mean":
        return sum(z)
    if name == "gram":
        matrix = sum(np.outer(row, row) for row in z)
        factors = np.where(np.eye(D) > 0, 1.0, math.sqrt(2))
        return np.array([(matrix * factors)[i, j] for i in range(D) for j in range(i, D)])
    if name == "class-moments":
        blocks = np.zeros((CLASSES, D + 1))
        for row, label in zip(z, y, strict=True):
            blocks[label] += [*row, 1.0]
        return blocks.flatten()
    if name == "histogram":
        counts = np.zeros((D, 8))
        for row in x:
            for k, value in enumerate(row):
                counts[k, min(7, int((min(max(value, -2.0), 2.0) + 2) / 4 * 8))] += 1
        return counts.flatten()
    return np.concatenate([naive("gram", x, y), 0.5 * naive("class-moments", x, y)])


@pytest.mark.parametrize("name", STATISTICS)
def test_values_are_those_of_a_loop_over_records(name):
    task = task_of()
    found = task.statistic(STATISTICS[name])._value.numpy()
    x, y = task.data.x.double().numpy(), task.data.y.numpy()
    expected = [naive(name, x[shard], y[shard]) for shard in task.shards]
    np.testing.assert_allclose(found, expected, atol=40 * 2**-15, rtol=0)
    assert np.abs(found).sum() > 10


@pytest.mark.parametrize("name", STATISTICS)
def test_sums_are_exact_whatever_the_order(name):
    """Contributions are multiples of one step, so that no order of addition changes a bit of the sum."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(9000, D)), rng.integers(0, CLASSES, 9000)
    order = rng.permutation(9000)
    assert torch.equal(total(STATISTICS[name], x, y), total(STATISTICS[name], x[order], y[order]))


def test_every_statistic_is_tested():
    assert {*STATISTICS, "column-histogram"} == set(statistics)  # the last in test_column_ranges.py


def test_vectors_are_turned_into_matrices():
    task = task_of()
    z = bounded_records(task.data.x)
    first = task.shards[0]
    gram = gram_matrix(task.statistic(Gram())._value[0])
    torch.testing.assert_close(gram, z[first].T @ z[first])
    assert torch.equal(gram, gram.T)
    sums, counts = class_moments(task.statistic(ClassMoments(), 1)._value[0], CLASSES)
    labels = task.data.y[first]
    assert counts.tolist() == [(labels == c).sum().item() for c in range(CLASSES)]
    torch.testing.assert_close(sums, torch.stack([z[first][labels == c].sum(0) for c in range(CLASSES)]))
    joint = STATISTICS["stacked"]
    parts = joint.split(task.statistic(joint, 2)._value[0], [part.length(task.data) for part in joint.parts])
    torch.testing.assert_close(gram_matrix(parts[0]), gram)
    torch.testing.assert_close(class_moments(parts[1], CLASSES)[1], counts)


# Sensitivity

numbers = st.one_of(st.sampled_from(EXTREME), st.floats(-4, 4, width=32), st.floats(width=32))
record = st.tuples(st.lists(numbers, min_size=D, max_size=D), st.integers(0, CLASSES - 1))


@pytest.mark.parametrize("name", STATISTICS)
@given(others=st.lists(record, max_size=6), one=record, other=record)
def test_one_record_moves_a_statistic_by_no_more_than_stated(name, others, one, other):
    """Also records of infinities, NaN and numbers whose squares overflow. There is no tolerance for rounding."""
    statistic = STATISTICS[name]
    x, y = [row for row, _ in others], [label for _, label in others]
    with_one, with_other = (total(statistic, [*x, row], [*y, label]) for row, label in (one, other))
    without = total(statistic, x, y) if others else torch.zeros_like(with_one)
    for changed in (with_one, with_other):
        assert changed.isfinite().all()
        assert float((changed - without).norm()) <= statistic.sensitivity("add-remove")
    assert float((with_one - with_other).norm()) <= statistic.sensitivity("replace-one")


@pytest.mark.parametrize("weight", [0.1, 0.7, 1 / 3])
def test_a_weight_times_counts_is_exact(weight):
    statistic = Stacked((Histogram(D, -2.0, 2.0, 1),), (weight,))
    for count in (1, 2, 5, 9, 100, 1500, 2999):
        fewer, more = (total(statistic, np.ones((n, D)), [0] * n) for n in (count, count + 1))
        assert float((more - fewer).norm()) <= statistic.sensitivity("add-remove")


@pytest.mark.parametrize(
    ("name", "added", "replaced"),
    [
        ("mean", ([1, 0, 0, 0], 0), ([-1, 0, 0, 0], 0)),
        ("gram", ([1, 0, 0, 0], 0), ([0, 1, 0, 0], 0)),
        ("class-moments", ([1, 0, 0, 0], 0), ([0, 1, 0, 0], 1)),
        ("histogram", ([1, 1, 1, 1], 0), ([-1, -1, -1, -1], 0)),
    ],
)
def test_the_bounds_are_reached(name, added, replaced):
    """A smaller stated sensitivity would be wrong."""
    statistic = STATISTICS[name]
    one, other = (total(statistic, [row], [label]) for row, label in (added, replaced))
    assert float(one.norm()) == pytest.approx(statistic.sensitivity("add-remove"), rel=1e-4)
    assert float((one - other).norm()) == pytest.approx(statistic.sensitivity("replace-one"), rel=1e-4)


@given(st.lists(st.lists(st.floats(width=32), min_size=5, max_size=5), min_size=1, max_size=4))
def test_bounded_records_have_at_most_norm_one_and_the_same_direction(rows):
    x = torch.tensor(rows, dtype=torch.float32)
    z = bounded_records(x)
    assert (z.norm(dim=1) <= 1).all()
    assert torch.equal((z * 2**16).round(), z * 2**16)
    assert (z * x.nan_to_num() >= 0).all()
    assert (z[~x.isfinite().all(1)] == 0).all()


def test_a_large_sum_stays_exact():
    """The sum of many of the longest records has no rounding error."""
    x = np.full((1 << 17, D), 0.5)
    ones = np.zeros(1 << 17, np.int64)
    z = bounded_records(torch.tensor(x[:1], dtype=torch.float32))[0]
    assert torch.equal(total(Mean(), x, ones), z * (1 << 17))
    np.testing.assert_array_equal(gram_matrix(total(Gram(), x, ones)).diagonal(), (z * z * (1 << 17)).numpy())


# Tasks


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_statistic_is_bounded_for_the_relation_of_the_task(relation):
    task = task_of(relation=relation)
    bounded = task.statistic(Gram(), 4, "second moments")
    assert bounded.sensitivity.tolist() == [Gram().sensitivity(relation)] * 3
    assert (bounded.sampling.kind, bounded.sampling.relation, bounded.sampling.rate.tolist()) == (
        "none",
        relation,
        [1.0] * 3,
    )
    assert (bounded.step, bounded.purpose, bounded.unit, bounded.norm) == (4, "second moments", "record", "l2")
    assert task.ledger.unreleased == [(4, "second moments")]
    Gaussian(2.0).release(bounded)
    assert not task.ledger.unreleased


def test_the_noise_has_the_stated_scale():
    task = task_of(n=50, size=4)
    exact = task.statistic(Stacked((Gram(), Mean()), (1.0, 2.0)))._value.clone()
    task.ledger.close(0, "stacked")
    noised = Gaussian(3.0).release(task.statistic(Stacked((Gram(), Mean()), (1.0, 2.0))))
    assert float((noised - exact).std()) == pytest.approx(3 * math.sqrt(5), rel=0.06)


def test_algorithms_have_statistics_but_no_records():
    seen = task_of().without_records()
    assert seen.statistic(Mean()).shape == (3, D)
    with pytest.raises(TacitError, match="Gradients and statistics can be computed in start and round only"):
        task_of().without_records(gradients=False).statistic(Mean())


def test_other_statistics_are_refused():
    class Everything(Mean):
        """All records as they are."""

        def read(self, data, index):
            return data.x[index]

    with pytest.raises(TacitError, match="Everything is not a statistic of Tacit, so its sensitivity is not proven"):
        task_of().statistic(Everything())
    with pytest.raises(TacitError, match="Everything is not a statistic"):
        Stacked((Everything(),), (1.0,))


def test_records_that_do_not_fit_are_refused():
    tokens = Dataset.from_arrays(np.ones((4, 2), np.int64), [0, 1, 0, 1], test=0.0, labels=[0, 1], tokens=True)
    for statistic in (Mean(), Gram(), ClassMoments(), Histogram(2)):
        with pytest.raises(TacitError, match="statistics are for records of numbers"):
            statistic.length(tokens)
    numbers_ = Dataset.from_arrays(np.ones((4, 2)), np.ones(4), test=0.0, target=Target("number", range=(0, 2)))
    with pytest.raises(TacitError, match="moments of classes need classes, but the target is a number"):
        ClassMoments().length(numbers_)
    with pytest.raises(TacitError, match="records have 2 features, not 3"):
        Histogram(3).length(numbers_)
    for wrong in ((0.0, 0.0), (1.0, -1.0), (-math.inf, 1.0), (math.nan, 1.0)):
        with pytest.raises(TacitError, match="finite ends low < high"):
            Histogram(2, *wrong)
    for weights in ((1.0,), (1.0, 0.0), (1.0, math.inf)):
        with pytest.raises(TacitError, match="weights"):
            Stacked((Mean(), Gram()), weights)


# Quantiles


def test_quantiles_are_those_of_the_records():
    values = np.random.default_rng(0).normal(size=50_000).clip(-4, 4)
    counts = np.histogram(values, 256, (-4, 4))[0] + 5 * np.random.default_rng(1).normal(size=256)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    np.testing.assert_allclose(quantiles(counts, levels, -4, 4), np.quantile(values, levels), atol=0.03)


@given(st.lists(st.floats(-100, 1000), min_size=1, max_size=20), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_quantiles_of_any_noised_counts_are_in_order_and_in_range(counts, levels):
    found = quantiles(np.array(counts), sorted(levels), 2.0, 5.0)
    assert (np.diff(found) >= -1e-9).all()
    assert ((found >= 2 - 1e-9) & (found <= 5 + 1e-9)).all()


def test_levels_outside_their_range_are_refused():
    with pytest.raises(TacitError, match=r"levels of quantiles must be in \[0, 1\]"):
        quantiles(np.ones(4), [1.2])
