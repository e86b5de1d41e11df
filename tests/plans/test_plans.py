"""Plans: expectations come from stored measurements and public facts, never from records."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import TacitError
from tacit.plans import Measurement, MethodPlan, expected_accuracy, measurements, plan_training
from tacit.privacy import epsilon_to_mu
from tacit.runs import RECIPES, Config, PublicFacts, from_config
from tacit.tasks.features import FeatureMap

FACTS = PublicFacts((10,), "class", records=1000, classes=2)
LOW = Measurement("a", "vectors", 2, 1000, 10, "m", "independent", 1.0, 1e-5, 0.6, 0.5, 3, "command")
HIGH = replace(LOW, epsilon=4.0, accuracy=0.8)


def test_accuracies_are_interpolated_in_records_times_epsilon():
    found = expected_accuracy(FACTS, "a", "m", 2.0, 10, known=[LOW, HIGH])
    assert found.accuracy == pytest.approx(0.7)
    assert found.source == "measured on a, 1,000 records, 10 nodes, ε = 1 and 4, 3 seeds"
    assert expected_accuracy(FACTS, "a", "m", 8.0, 10, known=[LOW, HIGH]).accuracy == 0.8
    assert expected_accuracy(FACTS, "a", "m", 0.5, 10, known=[LOW, HIGH]).accuracy == 0.6
    assert expected_accuracy(replace(FACTS, records=4000), "a", "m", 1.0, 10, known=[LOW, HIGH]).accuracy == 0.8


def test_nothing_is_invented():
    assert expected_accuracy(FACTS, "a", "m", 100.0, 10, known=[LOW, HIGH]) is None  # too far from what was measured
    assert expected_accuracy(FACTS, "a", "other", 2.0, 10, known=[LOW]) is None
    assert expected_accuracy(FACTS, "a", "m", 2.0, 10, 2, known=[LOW]) is None
    assert expected_accuracy(replace(FACTS, target="number"), "a", "m", 1.0, 10, known=[LOW]) is None
    pictures = PublicFacts((1, 28, 28), "class", records=1000, classes=2)
    assert expected_accuracy(pictures, "b", "m", 1.0, 10, known=[LOW]) is None
    other = expected_accuracy(FACTS, "b", "m", 1.0, 10, known=[LOW, replace(HIGH, data="c")])
    assert (other.accuracy, other.source.split(",")[0]) == (0.6, "measured on other data of the same kind: a")
    assert other.source.endswith("3 seeds; the trivial predictor reaches 50.0 % there")


def test_measurements_with_other_numbers_of_classes_state_nothing():
    ten = replace(LOW, classes=10)
    assert expected_accuracy(FACTS, "b", "m", 1.0, 10, known=[ten]) is None
    assert expected_accuracy(FACTS, "a", "m", 1.0, 10, known=[ten]) is None  # a file with the name of a data set


def test_more_nodes_mean_more_noise_in_the_mean_unless_it_is_paired():
    assert expected_accuracy(FACTS, "a", "m", 8.0, 40, known=[LOW, HIGH]).accuracy == pytest.approx(0.8)
    assert expected_accuracy(FACTS, "a", "m", 2.0, 40, known=[LOW, HIGH]).accuracy == pytest.approx(0.6)
    paired = [replace(each, noise="paired") for each in (LOW, HIGH)]
    assert expected_accuracy(FACTS, "a", "m", 2.0, 10, 2, known=paired).accuracy == pytest.approx(0.7)
    assert expected_accuracy(FACTS, "a", "m", 1.0, 10, 9, known=[replace(paired[1], epsilon=1.0)]).accuracy == 0.8


def test_the_same_data_are_preferred():
    other = replace(LOW, data="b", accuracy=0.9)
    assert expected_accuracy(FACTS, "b", "m", 1.5, 10, known=[LOW, HIGH, other]).accuracy == 0.9


def test_every_measurement_has_its_command_and_a_known_method():
    assert measurements()
    for each in measurements():
        assert each.command.startswith("tacit train ")
        assert 0 <= each.trivial <= each.accuracy + 0.05
        assert each.accuracy <= 1
        assert each.method in RECIPES or f"algorithm={each.method} " in each.command


def test_the_command_prints_costs_and_spends_nothing(tacit):
    ended = tacit("plan", "digits", "--epsilon", "1", "--nodes", "4", "--delta", "1e-4", "--write", "made.toml")
    assert ended.code == 0
    assert ended.out.startswith("digits: 1,437 records of shape (1, 8, 8), 4 nodes, ε = 1, δ = 0.0001. Nothing was")
    assert "\nvectors-2 " in ended.out
    assert "lt-admm-dp cannot be used: LT-ADMM-DP needs an undirected graph" in ended.out
    assert "Paired noise, 1 colluding node: at most 1.7 times less noise in the mean." in ended.out
    made = Config.load(Path("made.toml"))
    assert (made.recipe, made.algorithm.name, made.privacy.epsilon) == ("vectors-2", "const-d2p", 1.0)
    assert not Path("runs").exists()
    found = json.loads(tacit("plan", "made.toml", "--json").out)
    first = next(each for each in found["methods"] if each["refused"] is None)
    assert first["rounds"] == 30
    assert first["bytes_per_node"] == from_config(made).go().network.traffic.bytes / 4
    assert first["mean_noise"] == pytest.approx(first["noise_multiplier"] / 2, rel=0.05)


@pytest.mark.parametrize("noise", ["independent", "paired"])
def test_the_noise_is_that_of_the_gradients_and_not_of_the_statistics(noise):
    """With a share of 0.97 of μ², 30 full batches have the multiplier √30 / (√0.97 μ). The noise of pairs cancels."""
    privacy = {"epsilon": 1.0, "delta": 1e-4, "noise": noise}
    table = {"algorithm": "auto", "graph": {"nodes": 4}, "privacy": privacy, "sharding": {"name": "iid"}}
    (made,) = plan_training(Config.parse(table), methods=("auto",)).methods
    run = from_config(Config.parse(table))
    assert run.config["privacy"]["shares"] == {"mean": 0.03, "gradients": 0.97}
    single = math.sqrt(30 / 0.97) / epsilon_to_mu(1.0, 1e-4)
    assert made.noise_multiplier == pytest.approx(single, rel=0.02)
    if noise == "independent":
        assert made.mean_noise == pytest.approx(single / 2, rel=0.02)
    else:  # 4 nodes, of which 1 colludes: 1.7 times less noise at most
        assert single / 2 / math.sqrt(3) <= made.mean_noise < 0.75 * single / 2


COLUMNS = {"ward": {"categories": ["a", "b"]}, "age": {"range": [0, 110]}}


@pytest.mark.parametrize(
    ("declared", "recipe"), [({"label": ["no", "yes"]}, "vectors-2"), ({"target": [0, 60]}, "values-1")]
)
def test_tables_whose_nodes_are_departments_are_planned(tmp_path, declared, recipe):
    cells = declared.get("label", [3, 5])
    lines = ["ward,age,y", *(f"{'a' if k % 4 else 'b'},{k % 90},{cells[k % 2]}" for k in range(400))]
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    columns = {**COLUMNS, "y": declared}
    table = {
        "data": {"name": "csv", "path": str(tmp_path / "own.csv"), "columns": columns},
        "sharding": {"name": "column", "column": "ward"},
        "graph": {"name": "complete", "nodes": 2},
        "privacy": {"epsilon": 2.0, "delta": 1e-3},
        "batch": {"size": 16},
    }
    found = plan_training(Config.parse(table), methods=("auto", "dp-sgd"))
    assert [each.method for each in found.methods] == [recipe, "dp-sgd"]
    assert all(each.refused is None and each.bytes_per_node > 0 for each in found.methods)
    # Batches of 16 protect the records of the smaller department less.
    run = from_config(Config.parse({**table, "algorithm": "dp-sgd"}))
    first = next(iter(run.algorithm.privacy.releases(0, run.task.nodes, run.task.sampling)))
    assert found.methods[1].noise_multiplier == pytest.approx(float(first.multipliers.max()))
    assert first.multipliers[1] > 1.2 * first.multipliers[0]


def test_a_file_of_a_table_is_refused_with_the_way_to_a_config(tacit):
    Path("own.csv").write_text("age,y\n30,no\n")
    ended = tacit("plan", "own.csv", "--epsilon", "1")
    assert ended.code == 2
    assert ended.err.endswith("`tacit inspect own.csv --out draft.toml` drafts a config for `tacit plan`\n")


def test_wrong_input_is_one_sentence(tacit):
    assert "a plan needs a target: set --epsilon" in tacit("plan", "digits").err
    assert "nodes" in tacit("plan", "digits", "--epsilon", "1", "--nodes", "0").err
    assert "math" not in tacit("plan", "digits", "--epsilon", "1", "--nodes", "0").err
    assert 'unknown data set, config or file "digit"; did you mean "digits"?' in tacit("plan", "digit").err


def test_a_plan_warns_if_nothing_can_be_learnt():

    plan = plan_training(Config.parse({"algorithm": "auto", "privacy": {"epsilon": 1.0}, "graph": {"nodes": 4}}), ())
    trivial = replace(HIGH, accuracy=0.52)
    expected = expected_accuracy(FACTS, "a", "m", 4.0, 10, known=[trivial])

    assert "out of reach" in replace(plan, methods=[MethodPlan("m", expected=expected)]).warning
    assert plan.warning is None
    with pytest.raises(TacitError, match="needs a target"):
        plan_training(Config())


def test_no_feature_is_computed_from_the_records(tmp_path, monkeypatch):
    x = np.full((80, 16, 16), 0.5, np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(80) % 2, x_test=x[:20], y_test=np.arange(20) % 2)
    data = {"name": "npz", "path": str(tmp_path / "own.npz"), "labels": [0, 1]}
    seen = []
    apply = FeatureMap.apply_to
    monkeypatch.setattr(FeatureMap, "apply_to", lambda self, x, *more: seen.append(x) or apply(self, x, *more))
    table = {"algorithm": "auto", "graph": {"nodes": 4}, "privacy": {"epsilon": 2.0, "delta": 1e-4}, "data": data}
    made = plan_training(Config.parse(table), methods=("auto",))
    assert [each.method for each in made.methods] == ["images-2"]
    assert sum(len(each) for each in seen) == 80 + 200  # the synthetic records, once
    assert not any((each == 0.5).all() for each in seen)


def test_a_plan_states_that_it_depends_on_learnt_classes(tmp_path):
    x = np.random.default_rng(0).random((80, 4)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(80) % 2, x_test=x[:20], y_test=np.arange(20) % 2)
    data = {"name": "npz", "path": str(tmp_path / "own.npz")}
    table = {"algorithm": "auto", "graph": {"nodes": 4}, "privacy": {"epsilon": 2.0, "delta": 1e-4}}
    notes = [
        plan_training(Config.parse({**table, "data": {**data, **more}}), methods=("dp-sgd",)).as_dict()["note"]
        for more in ({}, {"labels": [0, 1]})
    ]
    assert notes[0].startswith("The classes were learnt from the records")
    assert notes[1] == "Nothing was released."
