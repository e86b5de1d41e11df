"""What is measured besides accuracy, and tables whose noise is the paper's own."""

import csv
from pathlib import Path

import pytest

from tacit.reproduce.cells import expand
from tacit.reproduce.files import read
from tacit.reproduce.page import page
from tacit.reproduce.running import measure
from tacit.reproduce.table import rows, summary
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


def test_every_metric_is_read_from_a_result(over_dpps):
    cell = next(cell for cell in expand(read(over_dpps)) if cell.labels == {"method": "Full", "sensitivity": "real"})
    result = measure(cell)
    real = [row["real"] for row in result["trace"]]
    found = {metric.name: metric.summarise(result) for metric in all_metrics()}
    assert len(real) == 6
    assert found["ras"] == pytest.approx(sum(real) / 6)
    assert found["peak"] == max(real)
    assert found["violations"] == sum(row["real"] > row["estimated"] for row in result["trace"])
    sent = 6 * (64 * 10 + 10 + 1) * 4  # a model and a weight to one other node a round; the fifth round synchronises
    assert found["cost_seconds"] >= 6 * 0.5 + sent / 1e6 * 0.99
    assert found["wall_seconds"] >= 0
    assert found["accuracy"] == 100 * result["accuracy"]


def test_a_failed_run_has_no_metrics(over_dpps):
    experiment = read(over_dpps)
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
    measured = summary(experiment, [failed])
    assert set(measured.mean.values()) == {None}
    assert measured.text("ras") == "failed"


def test_a_table_without_calibrations(tacit, over_dpps):
    ended = tacit("reproduce", "tiny/dpps", "--quick", "--jobs", "1")
    assert ended.code == 0, ended.err
    assert "Mean real sensitivity" in ended.out.splitlines()[0]
    head, violated, proven = ended.out.splitlines()[1:4]
    assert "claimed ε" in head
    assert "at claimed" not in head
    assert "100 a round" in violated
    assert violated.endswith("none")
    assert not proven.endswith("none")
    folder = Path("runs/reproduce/tiny/dpps-quick")
    line = next(csv.DictReader((folder / "table.csv").read_text().splitlines()))
    assert float(line["plain_ras"]) > 0
    assert line["plain_guaranteed"] == ""
    assert float(line["plain_claimed"]) == pytest.approx(100)


def test_the_page_shows_every_round(over_dpps):
    experiment = read(over_dpps).quickly()
    cells = expand(experiment)
    table = rows(experiment, cells, {cell.key: measure(cell) for cell in cells})
    html = page(experiment, table, "tiny/dpps", quick=True)
    assert html.count('class="chart"') == 4
    assert "estimated, in use" in html
    assert "The estimate did not hold: in " in html
    assert "“none” means that nothing bounds what the messages tell" in html
    assert 'class="legend"' not in html  # each chart has its own


def test_a_log_axis_holds_all_values(over_dpps):
    lines = 'kind = "lines"\nx = "sensitivity"\nlog = true'
    over_dpps.write_text(over_dpps.read_text().replace('kind = "sensitivity"', lines))
    experiment = read(over_dpps).quickly()
    cells = expand(experiment)
    table = rows(experiment, cells, {cell.key: measure(cell) for cell in cells})
    assert all(row.plain.trace == [] for row in table)  # kept only where it is charted
    assert '"type": "log"' in page(experiment, table, "tiny/dpps", quick=True)


def test_an_unknown_metric_is_refused(tacit, over_dpps):
    over_dpps.write_text(over_dpps.read_text().replace('"peak"', '"peek"'))
    assert 'unknown metric "peek"; did you mean "peak"?' in tacit("reproduce", "tiny/dpps").err


def test_like_can_take_the_base_alone(over_dpps):
    other = over_dpps.with_name("other.toml")
    other.write_text(
        'title = "O"\nlike = "dpps"\ntake = ["base"]\ncalibrations = []\nchart = { series = "method" }\n'
        '[axes.method]\n"One" = { algorithm = { name = "pedfl" } }\n'
    )
    cells = expand(read(other))
    assert [cell.labels for cell in cells] == [{"method": "One"}]
    assert cells[0].config.algorithm.parameters["noise_rate"] == 0.01
