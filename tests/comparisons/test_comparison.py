"""Comparisons: one target, one task, several seeds, resuming, and what is refused."""

import json

import numpy as np
import pytest

import tacit
from tacit.algorithms import PartPSP, const_d2p, sgp
from tacit.comparisons import compared_methods, comparison_table, run_comparison
from tacit.errors import TacitError
from tacit.reports import ReportPage, write_comparison_page
from tacit.runs import FinishedRun

SMALL = ["rounds=6", "graph.nodes=4"]


def page_observers():
    return [ReportPage()]


def test_every_private_method_has_the_same_guarantee(tmp_path):
    comparison = run_comparison(
        ["dyn-d2p", "const-d2p", "sgp"], epsilon=2.0, delta=1e-3, seeds=2, settings=SMALL, out=tmp_path / "deep/out"
    )
    dyn, const, reference = comparison.rows
    assert 1.9 < dyn["guaranteed"] <= 2.0
    assert 1.9 < const["guaranteed"] <= 2.0
    assert reference["guaranteed"] is None
    assert comparison.delta == 1e-3
    for row in comparison.rows:
        finals = [FinishedRun.read(folder).result["accuracy"] for folder in comparison.folders[row["method"]]]
        mean, deviation = row["accuracy"]
        assert mean == pytest.approx(sum(finals) / 2)
        assert deviation == pytest.approx(abs(finals[0] - finals[1]) / 2**0.5)
    assert json.loads((comparison.out / "results.json").read_text()) == comparison.as_dict()
    assert (comparison.out / "table.md").read_text() == comparison.table + "\n"


def test_finished_runs_are_not_repeated_and_stopped_runs_are_resumed(tmp_path, capsys):
    arguments = {"epsilon": 2.0, "seeds": 2, "settings": SMALL, "out": tmp_path / "out"}
    first = run_comparison(["dyn-d2p", "const-d2p"], **arguments)
    assert len(capsys.readouterr().err.splitlines()) == 4
    stopped = tmp_path / "out" / "const-d2p" / "seed-1"
    (stopped / "result.json").unlink()  # as after a kill between the last checkpoint and the result
    assert run_comparison(["dyn-d2p", "const-d2p"], **arguments) == first
    existing, resumed = capsys.readouterr().err.splitlines()
    assert existing.startswith("3 of 4 runs are already finished")
    assert resumed.startswith("4/4  const-d2p/seed-1: accuracy")
    with pytest.raises(TacitError, match="other settings"):
        run_comparison(["dyn-d2p", "const-d2p"], **{**arguments, "epsilon": 3.0})


def test_parallel_processes_give_the_same_numbers(tmp_path):
    arguments = {"epsilon": 2.0, "seeds": 1, "settings": SMALL, "observers": page_observers}
    one = run_comparison(["dyn-d2p", "sgp"], **arguments, out=tmp_path / "a", jobs=1)
    two = run_comparison(["dyn-d2p", "sgp"], **arguments, out=tmp_path / "b", jobs=2)
    assert one.rows == two.rows


def test_cost_sets_the_number_of_rounds_of_each_method():
    cheap = ["data=synthetic-logistic", "model=nonconvex-logistic", "graph=ring", "graph.nodes=4"]
    clock = ["network.gradient_time=0.1", "network.link_time=1", "data.records=200", "batch.size=8"]
    methods = compared_methods(["lt-admm-dp", "porter", "prisma"], settings=cheap + clock, epsilon=2.0, cost=28.0)
    # Table I: τ t_g + t_c, t_g + 2 t_c and, except for the first round, 2 t_g + t_c.
    assert [method.config.rounds for method in methods] == [20, 13, 23]


def test_different_protected_units_are_noted_in_table_and_page(tmp_path):
    arguments = {"epsilon": 50.0, "seeds": 1, "settings": SMALL, "out": tmp_path / "out"}
    comparison = run_comparison(["dyn-d2p", "pedfl"], **arguments, observers=page_observers)
    assert comparison.note == "The protected units differ (node, replace-one; record, add-remove)."
    assert "| pedfl | PEDFL (adapted) |" in comparison.table
    assert "| node, replace-one |" in comparison.table
    html = write_comparison_page(comparison).read_text()
    assert "PEDFL (adapted)" in html
    assert "Dyn-D²P" in html


def test_target_replaces_the_noise_of_a_config(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('rounds = 5\n[algorithm]\nname = "const-d2p"\nnoise_multiplier = 9.0\n[privacy]\ndelta = 1e-3\n')
    settings = ["privacy.epsilon=", "rounds=5"]
    mine, other = compared_methods([str(file), "dyn-d2p"], settings=settings, epsilon=1.5)
    assert mine.label == "mine"
    assert "noise_multiplier" not in mine.config.algorithm.parameters
    assert mine.config.privacy.epsilon == other.config.privacy.epsilon == 1.5
    assert mine.config.privacy.delta == other.config.privacy.delta == 1e-3


def test_methods_that_cannot_be_compared_are_refused(tmp_path):
    file = tmp_path / "other.toml"
    file.write_text('[model]\nname = "mlp"\n')
    with pytest.raises(TacitError, match="do not have the same model"):
        compared_methods(["dyn-d2p", str(file)], epsilon=2.0)
    file.write_text("[graph]\nname = 'ring'\nnodes = 3\n")
    with pytest.raises(TacitError, match="do not have the same number of nodes: 10 and 3"):
        compared_methods(["dyn-d2p", str(file)], epsilon=2.0)
    with pytest.raises(TacitError, match="two or more"):
        compared_methods(["dyn-d2p"], epsilon=2.0)
    with pytest.raises(TacitError, match="Rounds have no cost"):
        compared_methods(["dyn-d2p", "sgp"], settings=SMALL, epsilon=2.0, cost=5.0)
    with pytest.raises(TacitError, match=r"seeds must be .* at least 1, got 0"):
        run_comparison(["dyn-d2p", "sgp"], epsilon=2.0, seeds=0)


@pytest.mark.parametrize("name", ["nonsense", "missing.toml"])
def test_unknown_methods_are_refused(name):
    with pytest.raises(TacitError):
        compared_methods([name, "sgp"], epsilon=1.0)


def test_noise_that_a_target_cannot_set_is_refused(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\n"
        "from tests.runs.own import Mine\n\n"
        "@dataclass(frozen=True)\n"
        "class Uncalibrated(Mine):\n"
        "    noise_parameters = ('noise',)\n"
    )
    with pytest.raises(TacitError, match="Mine adds noise but has no with_noise, so no target ε can set it"):
        compared_methods([f"{file}:Uncalibrated", "const-d2p"], epsilon=2.0)


def test_settings_of_the_algorithm_do_not_apply_to_an_object(tmp_path):
    settings = [*SMALL, "algorithm.lr=5"]
    methods = {"object": const_d2p(lr=0.25), "name": "const-d2p"}
    run_comparison(methods, epsilon=2.0, seeds=1, settings=settings, out=tmp_path / "out")
    configs = {label: FinishedRun.read(tmp_path / "out" / label / "seed-0").config for label in methods}
    assert configs["object"]["algorithm"]["lr"] == 0.25
    assert configs["name"]["algorithm"]["lr"] == 5


def test_table_has_mean_and_deviation():
    row = {"method": "a", "algorithm": "A", "unit": "record", "relation": "add-remove", "claimed": None}
    row |= {"guaranteed": 1.99999, "accuracy": [0.5, 0.01], "loss": [1.0, 0.1], "stationarity": None}
    row |= {"rounds": 1000, "bytes": 2e6, "cost_seconds": 3.0}
    expected = "| a | A | 2 | – | 50.00 ± 1.00 | 1.000 ± 0.100 | 1,000 | 2 | 3 | record, add-remove |"
    assert comparison_table([row]).splitlines()[2] == expected


def test_an_object_without_noise_is_a_reference():
    """Its class has parameters of noise, which this object leaves out."""
    objects = {"reference": sgp(lr=0.5), "ours": const_d2p()}
    reference, ours = compared_methods(objects, epsilon=1.0)
    assert (reference.private, ours.private) == (False, True)
    assert reference.config.privacy.epsilon is None
    frame = tacit.compare(objects, epsilon=1.0, seeds=1, nodes=4, rounds=2)
    assert np.isnan(frame.loc["reference", "epsilon_guaranteed"])
    assert frame.loc["ours", "epsilon_guaranteed"] <= 1.0


def test_the_reason_why_no_target_can_set_the_noise_is_kept():
    unproven = PartPSP(share=1.0, sensitivity="real")
    with pytest.raises(TacitError, match="no ε is proven for noise that is scaled to the"):
        compared_methods({"unproven": unproven, "ours": const_d2p()}, epsilon=1.0)
