"""Experiments whose noise is not calibrated, and metrics other than accuracy."""

import csv
from pathlib import Path

import pytest

from tacit.reports import render_experiment_page
from tacit.reproduce import ExperimentResults, read_experiment
from tacit.reproduce.cell_runs import run_cell
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.results import result_rows, summarise_seeds
from tacit.runs.metrics import all_metrics

OVER_DPPS = """
title = "Over DPPS"
seeds = [0]
calibrations = []
metrics = ["ras", "violations", "peak", "cost_seconds", "wall_seconds", "accuracy"]
[base]
rounds = 6
evaluate_every = 3
graph = { name = "d-out", nodes = 4, d = 2 }
batch = { size = 16 }
network = { bandwidth = 1e6, gradient_time = 0.5 }
algorithm = { noise_rate = 0.01, c_prime = 0.1, lam = 0.1 }
[axes.method]
"Part" = { algorithm = { name = "partpsp", share = ["0.weight"] } }
"Full" = { algorithm = { name = "sgpdp" } }
[axes.sensitivity]
set = "algorithm.sensitivity"
values = ["real", "estimated", "replacement"]
[published]
"Part" = { real = 7.5 }
[chart]
kind = "sensitivity"
series = "method"
[quick]
axes = { sensitivity = ["estimated", "replacement"] }
"""


@pytest.fixture
def over_dpps(tacit, tmp_path):
    path = tmp_path / "experiments/tiny/dpps.toml"
    path.parent.mkdir(parents=True)
    path.write_text(OVER_DPPS)
    return path


def page_of(experiment, rows):
    return render_experiment_page(ExperimentResults("tiny/dpps", experiment, True, rows, 0.0, Path()))


def test_metrics_are_computed_from_a_result(over_dpps):
    cell = next(
        cell
        for cell in expand_cells(read_experiment(over_dpps))
        if cell.labels == {"method": "Full", "sensitivity": "real"}
    )
    result = run_cell(cell)
    real = [row["real"] for row in result["trace"]]
    values = {metric.name: metric.summarise(result) for metric in all_metrics()}
    assert len(real) == 6
    assert values["ras"] == pytest.approx(sum(real) / 6)
    assert values["peak"] == max(real)
    assert values["violations"] == sum(row["real"] > row["estimated"] for row in result["trace"])
    sent = 6 * (64 * 10 + 10 + 1) * 4  # a model and a weight to one other node per round; round 5 synchronises
    assert values["cost_seconds"] >= 6 * 0.5 + sent / 1e6 * 0.99
    assert values["wall_seconds"] >= 0
    assert values["accuracy"] == 100 * result["accuracy"]


def test_failed_run_has_no_metrics(over_dpps):
    experiment = read_experiment(over_dpps)
    failed = {
        "accuracy": None,
        "loss": None,
        "privacy": {},
        "history": [],
        "trace": [{"real": 1.0}],
        "error": "diverged",
    }
    failed["privacy"] = {"guaranteed": None, "claimed": None, "claimed_for": "run", "delta": 1e-5}
    failed["config"] = {"algorithm": {}}
    measured = summarise_seeds(experiment, [failed])
    assert set(measured.mean.values()) == {None}
    assert measured.text("ras") == "failed"


def test_table_without_calibrations(tacit, over_dpps):
    ended = tacit("reproduce", "tiny/dpps", "--quick", "--jobs", "1")
    assert ended.code == 0, ended.err
    assert "Mean real sensitivity" in ended.out.splitlines()[0]
    head, violated, proven = ended.out.splitlines()[1:4]
    assert "claimed ε" in head
    assert "at claimed" not in head
    assert "100 per round" in violated
    assert violated.endswith("none")
    assert not proven.endswith("none")
    folder = Path("runs/reproduce/tiny/dpps-quick")
    line = next(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    assert float(line["plain_ras"]) > 0
    assert line["plain_guaranteed"] == ""
    assert float(line["plain_claimed"]) == pytest.approx(100)


def test_page_has_one_sensitivity_chart_per_row(over_dpps):
    experiment = read_experiment(over_dpps).quick_version()
    cells = expand_cells(experiment)
    rows = result_rows(experiment, cells, {cell.key: run_cell(cell) for cell in cells})
    html = page_of(experiment, rows)
    assert html.count('class="chart"') == 4
    assert "estimated, in use" in html
    assert "The estimate did not hold: " in html
    assert "<dt>no guarantee</dt>" in html
    assert 'class="legend"' not in html  # each chart has its own legend


def test_traces_are_saved_only_for_sensitivity_charts(over_dpps):
    lines = 'kind = "lines"\nx = "sensitivity"\nlog = true'
    over_dpps.write_text(over_dpps.read_text().replace('kind = "sensitivity"', lines))
    experiment = read_experiment(over_dpps).quick_version()
    cells = expand_cells(experiment)
    rows = result_rows(experiment, cells, {cell.key: run_cell(cell) for cell in cells})
    assert all(row.plain.trace == [] for row in rows)
    assert '"type": "log"' in page_of(experiment, rows)


def test_unknown_metric_is_refused(tacit, over_dpps):
    over_dpps.write_text(over_dpps.read_text().replace('"peak"', '"peek"'))
    assert 'unknown metric "peek"; did you mean "peak"?' in tacit("reproduce", "tiny/dpps").err


def test_like_can_take_only_the_base(over_dpps):
    other = over_dpps.with_name("other.toml")
    other.write_text(
        'title = "O"\nlike = "dpps"\ntake = ["base"]\ncalibrations = []\nchart = { series = "method" }\n'
        '[axes.method]\n"One" = { algorithm = { name = "pedfl" } }\n'
    )
    cells = expand_cells(read_experiment(other))
    assert [cell.labels for cell in cells] == [{"method": "One"}]
    assert cells[0].config.algorithm.parameters["noise_rate"] == 0.01
