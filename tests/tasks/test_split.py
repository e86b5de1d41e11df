"""The side of a record, training or test, depends on that record alone."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.tasks.data import Dataset

LABELS = [0, 1, 2]


def table(records=500, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(records, 3)), rng.integers(0, len(LABELS), records)


def sides(x, y, **options):
    """The training records and the test records, each as a list of (features, label)."""
    try:
        data = Dataset.from_arrays(x, y, labels=LABELS, **options)
    except TacitError as error:
        assume("no training records" not in str(error))
        raise
    parts = ((data.x, data.y), (data.test_x, data.test_y))
    return [list(zip(map(tuple, x.tolist()), y.tolist(), strict=True)) for x, y in parts]


def exchanged(one, other):
    """The number of records of `one` that are not in `other`."""
    return (Counter(one) - Counter(other)).total()


def test_one_changed_label_changes_one_record_of_the_default_split():
    """A stratified split exchanged 75 of 400 training records."""
    x, y = table()
    changed = y.copy()
    changed[17] = (y[17] + 1) % len(LABELS)
    before, after = sides(x, y), sides(x, changed)
    assert sum(exchanged(a, b) for a, b in zip(before, after, strict=True)) == 1
    assert sum(exchanged(b, a) for a, b in zip(before, after, strict=True)) == 1


@st.composite
def tables(draw):
    """A table, in which records may repeat, the position of one of its records, a share and a seed."""
    records = draw(st.integers(2, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(0, draw(st.integers(1, 50)), (records, 2)).astype(np.float64)
    y = rng.integers(0, len(LABELS), records)
    options = {"test": draw(st.floats(0.1, 0.5)), "seed": draw(st.integers(0, 2**63 - 1))}
    return x, y, draw(st.integers(0, records - 1)), options


@given(tables())
def test_replacing_a_record_changes_one_record_of_a_split_by_index(case):
    x, y, i, options = case
    new_x, new_y = x.copy(), y.copy()
    new_x[i], new_y[i] = -1, (y[i] + 1) % len(LABELS)
    before, after = (sides(*each, split="index", **options) for each in ((x, y), (new_x, new_y)))
    differ = [sum(a != b for a, b in zip(old, new, strict=True)) for old, new in zip(before, after, strict=True)]
    assert sorted(differ) == [0, 1]


@given(tables())
def test_removing_a_record_removes_it_from_one_side_of_a_split_by_content(case):
    x, y, i, options = case
    smaller = np.delete(x, i, axis=0), np.delete(y, i)
    before, after = (sides(*each, split="content", **options) for each in ((x, y), smaller))
    gone = (tuple(x[i].tolist()), int(y[i]))
    for old, new in zip(before, after, strict=True):
        if len(old) > len(new):
            where = (x[:i] == x[i]).all(1) & (y[:i] == y[i])
            old.pop([k for k, record in enumerate(old) if record == gone][where.sum()])
        assert old == new
    assert sum(map(len, after)) == len(y) - 1


@given(tables(), st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_change_a_split_by_content(case, random):
    x, y, _, options = case
    order = random.sample(range(len(y)), len(y))
    one = sides(x, y, split="content", **options)
    other = sides(x[order], y[order], split="content", **options)
    assert [Counter(part) for part in one] == [Counter(part) for part in other]
    assert not set(one[0]) & set(one[1])  # identical records are on the same side


@given(tables())
def test_records_at_the_end_do_not_change_a_split_by_index(case):
    x, y, _, options = case
    before = sides(x, y, split="index", **options)
    after = sides(np.tile(x, (2, 1)), np.tile(y, 2), split="index", **options)
    assert all(new[: len(old)] == old for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("split", ["content", "index"])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.6])
def test_about_the_given_share_is_held_out(split, share):
    x, y = table(20_000)
    held = len(sides(x, y, split=split, test=share)[1])
    assert abs(held - 20_000 * share) < 5 * np.sqrt(20_000 * share * (1 - share))
    train = [label for _, label in sides(x, y, split=split, test=share)[0]]
    assert np.bincount(train) / len(train) == pytest.approx(np.bincount(y) / len(y), abs=0.03)


@pytest.mark.parametrize("split", ["content", "index"])
def test_another_seed_gives_another_split(split):
    x, y = table()
    one, same, other = (sides(x, y, split=split, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert 40 < exchanged(one[1], other[1]) < 120


def test_content_is_the_record_and_not_its_representation():
    x, y = table()
    x[:, 0] = np.where(x[:, 0] > 0, 0.0, 1.0)
    negative_zero = np.where(x == 0, -0.0, x)
    fortran, numbers = np.asfortranarray(x), y.astype(np.float64)
    assert sides(x, y) == sides(negative_zero, y) == sides(fortran, numbers) == sides(x.astype(np.float32), y)
    wide = Dataset.from_arrays(x, np.array(["a", "b", "c"])[y], labels=["a", "b", "c", "a much longer label"])
    text = np.append(np.array(["a", "b", "c"])[y], "a much longer label")  # a wider dtype for all labels
    wider = Dataset.from_arrays(np.append(x, x[:1], 0), text, labels=["a", "b", "c", "a much longer label"])
    assert len(wider.y) + len(wider.test_y) == 501
    assert abs(len(wider.y) - len(wide.y)) <= 1
    assert wider.x[: len(wide.x)].tolist() == wide.x.tolist()
