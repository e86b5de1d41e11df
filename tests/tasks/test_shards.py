"""Shards are disjoint, have the requested sizes and classes, and depend only on the seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import TacitError
from tacit.tasks.content_shards import by_column, by_digest
from tacit.tasks.data import TableSchema
from tacit.tasks.shards import by_class, by_size, dirichlet, iid, shards

seeds = st.integers(0, 2**32 - 1)


@st.composite
def settings(draw):
    """Labels of classes of different sizes, a possible number of nodes, and a seed."""
    counts = draw(st.lists(st.integers(1, 60), min_size=1, max_size=6))
    seed = draw(seeds)
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    return labels, draw(st.integers(1, min(len(labels), 20))), seed


def sizes_of(parts):
    return np.array([len(part) for part in parts])


def check(parts, labels, nodes, complete=True):
    every = np.concatenate(parts)
    assert len(parts) == nodes
    assert every.dtype == np.int64
    assert len(np.unique(every)) == len(every)
    assert every.min(initial=0) >= 0
    assert every.max(initial=0) < len(labels)
    if complete:
        assert len(every) == len(labels)


@given(settings())
def test_iid(setting):
    labels, nodes, _ = setting
    parts = iid(*setting)
    check(parts, labels, nodes)
    assert np.ptp(sizes_of(parts)) <= 1
    records = len(labels) // nodes
    parts = iid(*setting, records=records)
    check(parts, labels, nodes, complete=False)
    assert set(sizes_of(parts)) == {records}


@given(settings(), st.floats(0.01, 100), st.data())
def test_dirichlet(setting, alpha, data):
    labels, nodes, _ = setting
    least = data.draw(st.integers(0, len(labels) // nodes))
    parts = dirichlet(*setting, alpha=alpha, min_records=least)
    check(parts, labels, nodes)
    assert sizes_of(parts).min() >= least


@given(settings(), st.data())
def test_sizes(setting, data):
    labels, nodes, _ = setting
    sizes = data.draw(st.lists(st.integers(1, len(labels) // nodes), min_size=nodes, max_size=nodes))
    parts = by_size(*setting, sizes=sizes)
    check(parts, labels, nodes, complete=False)
    assert sizes_of(parts).tolist() == sizes


@given(st.integers(1, 12), st.floats(0.1, 10), seeds)
def test_ratio(nodes, ratio, seed):
    labels = np.zeros(5000, np.int64)
    parts = by_size(labels, nodes, seed, ratio=ratio)
    check(parts, labels, nodes)
    sizes = sizes_of(parts)
    if nodes > 1:
        assert sizes[-1] / sizes[0] == pytest.approx(ratio, rel=0.05)


@given(st.integers(2, 8), st.integers(1, 15), st.data(), seeds)
def test_classes(count, nodes, data, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(count) * 10, 40))
    per_node = data.draw(st.integers(1, count))
    parts = by_class(labels, nodes, seed, per_node=per_node)
    check(parts, labels, nodes, complete=nodes * per_node >= count)
    held = [np.unique(labels[part]) for part in parts]
    assert {len(classes) for classes in held} == {per_node}
    holders = np.bincount(np.concatenate(held) // 10, minlength=count)
    assert np.ptp(holders) <= 1
    assert len(np.unique(np.concatenate(held))) == min(count, nodes * per_node)


@given(st.integers(2, 8), st.integers(1, 8), st.data(), seeds)
def test_classes_and_records(count, nodes, data, seed):
    labels = np.repeat(np.arange(count), 200)
    per_node = data.draw(st.integers(1, count))
    records = data.draw(st.integers(per_node, max(per_node, 100 * count // nodes // 2)))
    try:
        parts = by_class(labels, nodes, seed, per_node=per_node, records=records)
    except TacitError:  # a class has too few records
        assert -(-records // per_node) * -(-nodes * per_node // count) > 200
        return
    check(parts, labels, nodes, complete=False)
    assert set(sizes_of(parts)) == {records}
    for part in parts:
        counts = np.bincount(labels[part])
        assert np.ptp(counts[counts > 0]) <= 1
        assert (counts > 0).sum() == per_node


def test_classes_use_every_record_if_counts_match():
    labels = np.repeat(np.arange(10), 600)
    parts = by_class(labels, 10, 3, per_node=6, records=600)
    check(parts, labels, 10)


@pytest.mark.parametrize(
    ("name", "options"),
    [("iid", {}), ("classes", {"per_node": 3}), ("dirichlet", {"alpha": 0.2}), ("sizes", {"ratio": 3.0})],
)
def test_same_seed_same_shards(name, options):
    labels = np.random.default_rng(0).integers(0, 5, 500)

    def make(seed):
        return shards.build(name, {"labels": labels, "nodes": 7, "seed": seed, **options})

    first, again, other = make(1), make(1), make(2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(("name", "options"), [("iid", {}), ("iid", {"records": 20}), ("sizes", {"ratio": 3.0})])
def test_iid_and_sizes_do_not_depend_on_labels(name, options):
    labels = np.random.default_rng(0).integers(0, 5, 200)
    one, other = (shards[name](each, 7, 1, **options) for each in (labels, labels[::-1]))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_dirichlet_is_more_concentrated_for_smaller_alpha():
    labels = np.repeat(np.arange(10), 500)

    def share(alpha):
        """Mean share of a node's commonest class."""
        parts = dirichlet(labels, 10, 0, alpha=alpha)
        return np.mean([np.bincount(labels[part]).max() / len(part) for part in parts])

    assert share(1000) < 0.15 < 0.3 < share(0.1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("iid", {}),
        ("classes", {"per_node": 2}),
        ("dirichlet", {"alpha": 0.1, "min_records": 5}),
        ("sizes", {"ratio": 9.0}),
    ],
)
def test_ten_thousand_nodes(name, options):
    labels = np.random.default_rng(0).integers(0, 10, 60_000)
    parts = shards[name](labels, 10_000, 0, **options)
    check(parts, labels, 10_000)
    assert sizes_of(parts).min() >= options.get("min_records", 1)


LABELS = np.repeat(np.arange(4), 25)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("iid", {"nodes": 0}, "sharding iid: nodes must be at least 1, got 0"),
        ("iid", {"nodes": 101}, r"nodes must be at most 100 \(the number of records\), got 101"),
        (
            "iid",
            {"nodes": 3, "records": 34},
            r"records \(per node\) must be 1 to 33 for 100 records on 3 nodes, got 34",
        ),
        ("iid", {"labels": np.zeros((2, 2), int)}, r"labels must have shape \(records,\), got \(2, 2\)"),
        ("classes", {"per_node": 5}, r"per_node must be 1 to 4 \(the number of classes\), got 5"),
        ("classes", {"per_node": 0}, r"per_node must be 1 to 4 \(the number of classes\), got 0"),
        ("classes", {"per_node": 3, "records": 2}, "records must be at least per_node = 3, got 2"),
        (
            "classes",
            {"nodes": 2, "per_node": 1, "records": 30},
            r"class \d has fewer records than the 30 that are needed for the 1 of 2 nodes",
        ),
        ("classes", {"nodes": 60, "per_node": 2}, r"the 30 that are needed for the 30 of 60 nodes"),
        ("dirichlet", {"alpha": 0}, "alpha must be positive and finite, got 0"),
        (
            "dirichlet",
            {"min_records": 26},
            "min_records must be 0 to 25 for 100 records on 4 nodes, got 26",
        ),
        ("sizes", {}, "set either sizes or ratio, not both"),
        ("sizes", {"sizes": [1] * 4, "ratio": 2}, "not both"),
        ("sizes", {"sizes": [1, 2]}, "sizes must be 4 numbers of at least 1 with a sum of at most 100, got 2"),
        ("sizes", {"sizes": []}, "got 0 numbers with minimum 0"),
        ("sizes", {"sizes": [0, 1, 1, 1]}, "minimum 0"),
        ("sizes", {"sizes": [26] * 4}, "sum 104"),
        ("sizes", {"ratio": -1}, "ratio must be positive and finite, got -1"),
        ("sizes", {"ratio": 1e9}, r"leaves a node without records \(100 records"),
        ("sizes", {"size": [1]}, 'did you mean "sizes"'),
    ],
)
def test_impossible_shardings_are_refused(name, options, message):
    with pytest.raises(TacitError, match=message):
        shards.build(name, {"labels": LABELS, "nodes": 4, "seed": 0, **options})


@given(settings(), st.data())
def test_a_record_has_the_same_node_whatever_the_other_records_are(setting, data):
    labels, nodes, seed = setting
    features = np.random.default_rng(seed).normal(size=(len(labels), 2, 2)).astype(np.float32)
    parts = by_digest(labels, features, nodes, seed)
    check(parts, labels, nodes)
    kept = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(labels), max_size=len(labels))))
    if len(kept) < nodes:
        return
    fewer = by_digest(labels[kept], features[kept], nodes, seed)
    for part, smaller in zip(parts, fewer, strict=True):
        assert kept[smaller].tolist() == [record for record in part if record in kept]


def test_shards_by_digest_are_about_equal_and_depend_on_seed_and_label():
    features = np.random.default_rng(0).normal(size=(4000, 3)).astype(np.float32)
    labels = np.zeros(4000, np.int64)
    parts = by_digest(labels, features, 4)
    assert abs(sizes_of(parts) - 1000).max() < 150
    for other in (by_digest(labels, features, 4, seed=1), by_digest(labels + 1, features, 4)):
        assert any(len(one) != len(two) or (one != two).any() for one, two in zip(parts, other, strict=True))
    negative = np.where(features == features, -0.0, 0).astype(np.float32)
    assert by_digest(labels, negative, 4)[0].tolist() == by_digest(labels, 0 * features, 4)[0].tolist()


@given(settings())
def test_a_replaced_record_moves_no_other_between_stable_shards(setting):
    labels, nodes, seed = setting
    other = labels.copy()
    other[0] += 1
    for sharding in (iid, lambda *given: by_size(*given, ratio=1.0)):
        for one, two in zip(sharding(labels, nodes, seed), sharding(other, nodes, seed), strict=True):
            assert one.tolist() == two.tolist()


def test_each_category_of_a_column_is_a_node_and_missing_cells_are_dealt_by_content():
    columns = {"age": {"range": [0, 110]}, "ward": {"categories": ["A", "B", "C"]}, "y": {"label": [0, 1]}}
    schema = TableSchema.parse(columns, "indicator")
    rows = [[k, "ABC?"[k % 4]] for k in range(40)]
    x = np.array([[row[0] / 55 - 1, 0, *(float(row[1] == c) for c in "ABC"), float(row[1] == "?")] for row in rows])
    x, y = x.astype(np.float32), np.zeros(40, np.int64)
    parts = by_column(y, x, schema, 3, "ward")
    check(parts, y, 3)
    owner = np.concatenate([np.full(len(part), node) for node, part in enumerate(parts)])
    owner[np.concatenate(parts)] = owner.copy()
    for k, (_, ward) in enumerate(rows):
        if ward != "?":
            assert owner[k] == "ABC".index(ward)
    fewer = by_column(y[1:], x[1:], schema, 3, "ward")  # record 0 is removed: no other record moves
    for whole, part in zip(parts, fewer, strict=True):
        assert [k for k in whole if k > 0] == (part + 1).tolist()


@pytest.mark.parametrize(
    ("nodes", "column", "message"),
    [
        (2, "ward", "ward has 3 categories, and the graph 2 nodes: set graph.nodes = 3"),
        (3, "age", '"age" must be a column of a table that is declared with categories'),
        (3, "wards", '"wards" must be a column of a table'),
    ],
)
def test_a_column_that_does_not_fit_is_refused(nodes, column, message):
    columns = {"age": {"range": [0, 110]}, "ward": {"categories": ["A", "B", "C"]}, "y": {"label": [0, 1]}}
    with pytest.raises(TacitError, match=message):
        by_column(np.zeros(9, np.int64), np.zeros((9, 4), np.float32), TableSchema.parse(columns), nodes, column)
