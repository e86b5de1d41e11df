"""The experiments of the LT-ADMM-DP paper: their quick versions, and charts of errors against cost."""

import csv
import json
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.reports import render_experiment_page
from tacit.reproduce import Experiment, ExperimentResults, ResultRow, SeedSummary, load_experiment
from tacit.reproduce.cells import expand_cells

CURVE = [{"round": t, "accuracy": 0.5, "loss": 0.1, "stationarity": 0.2, "cost_seconds": 1.4 * t} for t in range(3)]


def test_cost_of_tau_iterations_is_that_of_the_formulas(tacit):
    assert tacit("reproduce", "lt-admm-dp/table1", "--quick", "--jobs", "1").code == 0
    lines = csv.DictReader(Path("runs/reproduce/lt-admm-dp/table1-quick/table.csv").read_text().splitlines())
    for line in lines:
        first = 0.1 if line["method"] == "PriSMA" else 0.0  # its first round takes one gradient, not two
        assert float(line["plain_cost_seconds"]) == pytest.approx(float(line["published"]) - first), line


def test_errors_against_cost(tacit):
    ended = tacit("reproduce", "lt-admm-dp/figure1", "--quick", "--jobs", "1", "--json")
    assert ended.code == 0, ended.err
    rows = {tuple(row["labels"].values()): row["plain"] for row in json.loads(ended.out)["rows"]}
    assert len(rows) == 6
    for (method, noise), measured in rows.items():
        costs = [point["cost_seconds"] for point in measured["curve"]]
        last = [point["stationarity"] for point in measured["curve"]][-5:]
        assert len(last) == 5
        assert measured["mean"]["stationarity"] == pytest.approx(sum(last) / 5)
        assert costs[-1] == pytest.approx(42, abs=0.5), method
        assert measured["guaranteed"] <= 8 or noise == "published σ"
    assert rows["LT-ADMM-DP", "published σ"]["guaranteed"] > 20  # whole batches are clipped
    html = Path("runs/reproduce/lt-admm-dp/figure1-quick/report.html").read_text()
    assert html.count('class="chart"') == 2 * 2  # error and accuracy, as published and at ε = 8
    assert "Time on the cost clock (s)" in html


def test_settings_of_figure_1_are_those_of_the_paper():
    cells = {tuple(cell.labels.values()): cell.config for cell in expand_cells(load_experiment("lt-admm-dp/figure1"))}
    config = cells["LT-ADMM-DP", "published σ"]
    published = {"lr": 0.1, "beta": 0.1, "rho": 0.1, "tau": 4, "clip": 1.0, "clip_per": "batch", "sigma": 0.5}
    assert config.algorithm.parameters == published
    assert (config.rounds, config.batch.size, config.privacy.delta) == (4000, 8, 1e-4)
    assert cells["PORTER", "published σ"] == cells["PORTER", "published σ, records clipped"]
    assert cells["PriSMA", "published σ"].algorithm.parameters["sigma_first"] == 0.1794
    costs = {"LT-ADMM-DP": 1.4, "PORTER": 2.1, "PriSMA": 1.2}
    for (method, noise), config in cells.items():
        assert config.rounds * costs[method] == pytest.approx(5600, abs=2.1), noise


def test_every_seed_of_figure_1_is_another_data_set():
    for name, settings in (("figure1", 1), ("figure1-data", 6)):
        cells = expand_cells(load_experiment(f"lt-admm-dp/{name}"))
        assert all(cell.config.data.parameters["seed"] == cell.config.seed == cell.seed for cell in cells)
        first = [cell for cell in cells if cell.labels["method"] == "LT-ADMM-DP" and "ε = 1" in cell.labels.values()]
        assert len({cell.key for cell in first}) == 10 * settings


MEASURED = SeedSummary({"accuracy": 1.0}, {"accuracy": None}, 1, None, None, "run", 1e-4, CURVE, [])


def figures_of(rows, calibrations=(), **chart):
    axes = {"method": {"A": {}, "B": {}}, "epsilon": {"1": {}, "2": {}, "∞": {}}}
    table = {"title": "T", "axes": axes, "chart": {"kind": "curves", "series": "method", **chart}}
    experiment = Experiment.model_validate({**table, "calibrations": list(calibrations)})
    html = render_experiment_page(ExperimentResults("t", experiment, False, rows, 0.0, Path()))
    return json.loads(html.split('id="figures">')[1].split("</script>")[0])


def test_rows_without_noise_have_a_panel_of_their_own():
    rows = [ResultRow({"method": "A", "epsilon": "1"}, None, MEASURED, MEASURED, None)]
    rows += [ResultRow({"method": name, "epsilon": "∞"}, None, None, None, MEASURED) for name in "AB"]
    figures = figures_of(rows, ["paper", "guaranteed"], columns=["accuracy"])
    names = [[trace["name"] for trace in figure["data"]] for figure in figures.values()]
    assert names == [["A, 1"], ["A, 1"], ["A, ∞", "B, ∞"]]


def test_row_without_a_label_is_in_every_panel():
    labels = [{"method": "A"}, {"method": "B", "epsilon": "1"}, {"method": "B", "epsilon": "2"}]
    figures = figures_of(
        [ResultRow(each, None, None, None, MEASURED) for each in labels], columns=["stationarity"], log=True
    )
    assert [[trace["name"] for trace in figure["data"]] for figure in figures.values()] == [
        ["A", "B, 1"],
        ["A", "B, 2"],
    ]
    assert all(figure["layout"]["yaxis"]["type"] == "log" for figure in figures.values())


def test_unknown_column_is_refused():
    with pytest.raises(TacitError, match='unknown metric "cost_second"; did you mean "cost_seconds"'):
        figures_of([], x="cost_second")
