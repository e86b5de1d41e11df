"""Private ranges of columns: what is counted, how far one record moves it, and the ranges found in noised counts."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from tacit.errors import TacitError
from tacit.privacy import Gaussian, Noise
from tacit.tasks import ColumnHistogram, Dataset, Model, TableSchema, Task, estimate_ranges, models, use_ranges
from tacit.tasks.data import join_datasets

COLUMNS = {
    "age": {"range": "private", "within": [0, 120]},
    "crp": {"range": "private", "within": [0, 1e4], "scale": "log", "missing": "indicator"},
    "sex": {"categories": ["F", "M"]},
    "outcome": {"label": ["no", "yes"]},
}
EXTREME = ["", "0", "120", "-1e300", "1e300", "inf", "nan", "60", "garbage", "5e-324"]


def records(rows):
    return pd.DataFrame(rows, columns=["age", "crp", "sex", "outcome"], dtype=object)


def draws(count, seed=0):
    """Records with a skewed column and some missing cells."""
    rng = np.random.default_rng(seed)
    crp = [f"{value:.3f}" for value in rng.lognormal(3, 1, count)]
    frame = records(
        {"age": rng.normal(60, 8, count).round(1), "crp": crp, "sex": rng.choice(["F", "M"], count), "outcome": "no"}
    )
    frame.loc[::7, "crp"] = "unknown"
    frame.loc[::3, "outcome"] = "yes"
    return frame


def task_of(frame, nodes=1, columns=COLUMNS, test=0.0, relation="add-remove"):
    """A task whose nodes have consecutive parts of the records."""
    data = Dataset.from_frame(frame, columns, test=test)
    model = Model(models.build("logistic", {"inputs": data.inputs, "classes": 2}))
    parts = np.array_split(np.arange(len(data.y)), nodes)
    return Task(model, data, parts, noise=Noise.from_seed(0), relation=relation)


def histograms(frame, relation="add-remove", nodes=1, columns=COLUMNS):
    task = task_of(frame, nodes, columns, relation=relation)
    bounded = task.statistic(ColumnHistogram(len(task.data.private.names)), 0, "column histogram")
    return bounded._value, bounded.sensitivity


def naive_histogram(frame, within):
    """The counts of age (linear) and crp (logarithmic), written from their definition."""
    age = np.clip(pd.to_numeric(frame["age"], errors="coerce").dropna(), *within)
    crp = np.log1p(np.clip(pd.to_numeric(frame["crp"], errors="coerce").dropna(), 0, 1e4))
    return np.concatenate([np.histogram(age, 256, within)[0], np.histogram(crp, 256, (0, math.log1p(1e4)))[0]])


def test_every_number_is_counted_once_at_its_node():
    frame = draws(300)
    counts, _ = histograms(frame, nodes=3)
    for node, part in enumerate(np.array_split(np.arange(300), 3)):
        expected = naive_histogram(frame.iloc[part], (0, 120))
        assert counts[node].sum() == expected.sum() == 100 + (frame["crp"].iloc[part] != "unknown").sum()
        assert np.abs(counts[node].numpy() - expected).sum() <= 2  # a number on the edge of a bin, by rounding


@pytest.mark.parametrize(("relation", "bound"), [("add-remove", math.sqrt(2)), ("replace-one", 2.0)])
def test_the_sensitivity_covers_every_change_of_one_record(relation, bound):
    """All pairs of extreme records, beside others that stay. The bound is also reached."""
    base = [["50", "20", "F", "no"], ["70", "", "M", "yes"]]
    kinds = [[age, crp, "F", "no"] for age, crp in itertools.product(EXTREME, EXTREME)]
    without, sensitivity = histograms(records(base), relation)
    changed = torch.cat([histograms(records([*base, kind]), relation)[0] for kind in kinds])
    before = without if relation == "add-remove" else changed
    largest = float(torch.cdist(before, changed, compute_mode="donot_use_mm_for_euclid_dist").max())
    assert sensitivity.tolist() == [bound]
    assert largest == pytest.approx(bound, abs=1e-12)


def test_the_noise_has_the_stated_scale():
    task = task_of(draws(300), nodes=60)
    exact = task.statistic(ColumnHistogram(2), 0, "column histogram")._value.clone()
    task.ledger.close(0, "column histogram")
    noised = Gaussian(3.0).release(task.statistic(ColumnHistogram(2), 0, "column histogram"))
    noise = (noised - exact).flatten()
    assert float(noise.std()) == pytest.approx(3 * math.sqrt(2), rel=0.02)
    assert abs(float(noise.mean())) < 0.1
    (release,) = task.ledger.releases()
    assert (release.purpose, release.multipliers.tolist()) == ("column histogram", [3.0] * 60)
    assert not task.ledger.unreleased


def test_one_private_column_has_a_smaller_sensitivity():
    columns = COLUMNS | {"crp": {"range": [0, 100]}}
    assert histograms(draws(9), "add-remove", columns=columns)[1].tolist() == [1.0]
    assert histograms(draws(9), "replace-one", columns=columns)[1].tolist() == [math.sqrt(2)]


def test_histograms_need_private_columns_and_a_run():
    with pytest.raises(TacitError, match="Gradients and statistics can be computed in start and round only"):
        task_of(draws(20)).without_records(gradients=False).statistic(ColumnHistogram(2))
    declared = task_of(draws(20)[["sex", "outcome"]], columns={name: COLUMNS[name] for name in ("sex", "outcome")})
    with pytest.raises(TacitError, match="no column has a private range"):
        declared.statistic(ColumnHistogram(2))


# Ranges from noised counts


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("noise", [3.0, 30.0])
def test_ranges_of_a_skewed_column_are_sensible(scale, noise):
    numbers = np.random.default_rng(0).lognormal(3, 1, 20_000)
    schema = TableSchema.parse(
        {"crp": {"range": "private", "within": [0, 1e4], "scale": scale}, "y": {"count": [0, 1]}}
    )
    data = Dataset.from_frame(pd.DataFrame({"crp": numbers, "y": 0}), schema.to_dict()["columns"], test=0.0)
    counts = np.histogram(data.x[:, 0].numpy(), 256, (-1, 1))[0] + noise * np.random.default_rng(1).normal(size=256)
    low, high = estimate_ranges(schema, counts, noise)["crp"]
    inside = ((numbers >= low) & (numbers <= high)).mean()
    assert inside > 0.9
    assert high < 1000
    if noise == 3.0:
        assert inside > 0.97
        assert high < 1.5 * max(np.quantile(numbers, 0.99), 2e4 / 256)


def test_noise_alone_gives_the_public_bounds():
    schema = TableSchema.parse(COLUMNS)
    for seed in range(100):
        counts = 5 * np.random.default_rng(seed).normal(size=512)
        assert estimate_ranges(schema, counts, 5.0) == {"age": [0, 120], "crp": [0, 1e4]}


@pytest.mark.parametrize("within", [[1e15, 1e15 + 2], [0, 5e-300], [-4e307, 4e307]])
def test_extreme_bounds_have_a_range(within):
    schema = TableSchema.parse({"age": {"range": "private", "within": within}, "y": {"count": [0, 1]}})
    for filled in (0, 17, 255):
        ranges = estimate_ranges(schema, np.where(np.arange(256) == filled, 1e6, 0.0), 1.0)
        low, high = ranges["age"]
        assert within[0] <= low < high <= within[1]
        prepared = schema.with_released(ranges).prepare(pd.DataFrame({"age": [*within, low, high]}))
        assert prepared[:, 0].tolist() == [-1, 1, -1, 1]


# Records scaled by ranges


def test_records_are_scaled_as_new_records_are_prepared():
    frame, ranges = draws(400), {"age": [40.0, 80.0], "crp": [2.0, 200.0]}
    task = task_of(frame, nodes=2, test=0.3)
    declared = task.data
    use_ranges(task, ranges)
    schema = TableSchema.parse(COLUMNS).with_released(ranges)
    assert task.data.schema == schema == TableSchema.from_dict(schema.to_dict())
    assert not schema.private_columns
    prepared = torch.from_numpy(schema.prepare(frame))
    before = torch.from_numpy(TableSchema.parse(COLUMNS).prepare(frame))
    for x, was in ((task.data.x, declared.x), (task.data.test_x, declared.test_x)):
        rows = [int(np.flatnonzero((before == row).all(1))[0]) for row in was]
        assert torch.equal(x, prepared[rows])
    missing = declared.x[:, schema.first_feature("crp") + 1] == 1
    assert missing.sum() > 10
    assert (task.data.x[missing, schema.first_feature("crp")] == 0).all()
    use_ranges(task, None)
    assert torch.equal(task.data.x, declared.x)
    assert torch.equal(task.data.test_x, declared.test_x)


def test_gradients_use_the_scaled_records():
    ranges = {"age": [40.0, 80.0], "crp": [2.0, 200.0]}
    task, expected = task_of(draws(60)), task_of(draws(60))
    use_ranges(task, ranges)
    declared = COLUMNS | {name: {**COLUMNS[name], "released": ranges[name]} for name in ranges}
    expected = task_of(draws(60), columns=declared)
    params = torch.ones(1, task.d)
    assert torch.equal(task.full_gradient(params[0]), expected.full_gradient(params[0]))
    assert task.limit_smoothness(0.6)
    assert expected.limit_smoothness(0.6)
    use_ranges(task, ranges)
    assert torch.equal(task.full_gradient(params[0]), expected.full_gradient(params[0]))


def test_a_released_range_must_fit_its_declaration():
    for declared, words in (
        ({"range": [0, 1], "released": [0, 1]}, 'released has an effect only with range = "private"'),
        ({"range": "private", "within": [0, 1], "released": [0, 2]}, r"released = \[0.0, 2.0\] must be a range inside"),
        ({"range": "private", "within": [0, 1], "released": [0, 1e-320]}, ".* must be a range inside within"),
    ):
        with pytest.raises(TacitError, match=f"column age: {words}"):
            TableSchema.parse({"age": declared, "y": {"count": [0, 1]}})


def test_private_columns_of_nodes_are_joined():
    frames = [pd.DataFrame({"crp": ["1", "", "300"], "y": ["0", "1", "0"]}), pd.DataFrame({"crp": ["7"], "y": ["1"]})]
    columns = {"crp": {"range": "private", "within": [0, 1000]}, "y": {"label": [0, 1]}}
    whole, shards = join_datasets([Dataset.from_frame(frame, columns, test=0.0) for frame in frames])
    np.testing.assert_array_equal(whole.private.train[:, 0], [1, np.nan, 300, 7])
    assert [shard.tolist() for shard in shards] == [[0, 1, 2], [3]]
