"""Pages from kept cells: any seeds, the longest runs, paired differences, blocks and charts. Cells are made up."""

import json
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.reports import results_pages
from tacit.reports.results_charts import chart_digest, chart_svg, digest_in
from tacit.reproduce import load_experiment
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.kept import kept_rows
from tacit.reproduce.lengths import table_note
from tacit.reproduce.page_blocks import block_names, kept_table, with_blocks
from tacit.reproduce.tables import table_columns

FOLDER = Path("experiments/results/tiny")
GUARANTEED = {"method": "Const", "epsilon": "1"}


@pytest.fixture
def paired(tiny):
    """The experiment with a baseline and the number of rounds of the paper."""
    tiny.write_text(
        tiny.read_text().replace("[base]", 'baseline = { method = "Const" }\npublished_rounds = 6\n\n[base]', 1)
    )
    return tiny


def keep(cell, accuracy, rounds=None, trace=()):
    """Save a made-up result of a cell."""
    done = cell.rounds if rounds is None else rounds
    FOLDER.mkdir(parents=True, exist_ok=True)
    history = [{"round": 0, "accuracy": 0.1, "loss": 2.0}, {"round": done, "accuracy": accuracy, "loss": 1.0}]
    privacy = {"guaranteed": 1.0, "claimed": 0.5, "claimed_for": "run", "delta": 1e-3, "reason": None}
    config = json.loads(cell.config.model_dump_json(exclude_none=True))
    result = {"accuracy": accuracy, "loss": 1.0, "privacy": privacy, "history": history, "error": None, "trace": trace}
    (FOLDER / f"{cell.key}.json").write_text(json.dumps({**result, "rounds": done, "config": config, "seconds": 1.0}))


def cells(rounds=None, seeds=2, **wanted):
    """The cells of the experiment with these labels and calibration."""
    experiment = load_experiment("tiny/one").with_seeds(seeds)
    found = expand_cells(experiment, rounds=rounds)
    return [cell for cell in found if {**cell.labels, "calibration": cell.calibration}.items() >= wanted.items()]


def row_of(name="tiny/one", **labels):
    experiment = load_experiment(name)
    rows = kept_rows(name, experiment)
    return next(
        line
        for line, row in zip(table_columns(experiment, rows), rows, strict=True)
        if row.labels.items() >= labels.items()
    )


def test_every_kept_seed_is_in_the_mean_and_missing_rows_are_named(paired):
    for cell, accuracy in zip(
        cells(seeds=4, **GUARANTEED, calibration="guaranteed"), (0.5, 0.6, 0.7, 0.8), strict=True
    ):
        keep(cell, accuracy)
    rows = kept_rows("tiny/one", load_experiment("tiny/one"))
    [row] = [row for row in rows if row.guaranteed]
    assert (row.guaranteed.seeds, row.guaranteed.mean["accuracy"]) == ([0, 1, 2, 3], pytest.approx(65.0))
    assert table_note(rows) == "Seeds: 4. Rounds: 6. 4 of 5 rows are not run."
    line = row_of(**GUARANTEED)
    assert (line["at guaranteed ε"], line["at claimed ε"]) == ("65.00 ± 12.91", "not run")
    assert row_of(method="Dyn", epsilon="3")["at guaranteed ε"] == "not run"


def test_differences_are_paired_by_seed(paired):
    """The spread of the seeds cancels, and a seed that only one of the rows has is left out."""
    for cell, accuracy in zip(cells(seeds=3, **GUARANTEED, calibration="guaranteed"), (0.1, 0.5, 0.9), strict=True):
        keep(cell, accuracy)
    dyn = {**GUARANTEED, "method": "Dyn"}
    for cell, accuracy in zip(cells(seeds=2, **dyn, calibration="guaranteed"), (0.13, 0.52), strict=True):
        keep(cell, accuracy)
    assert row_of(**dyn)["guaranteed: minus Const"] == "+2.50 ± 0.71 (2)"
    assert row_of(**GUARANTEED)["guaranteed: minus Const"] is None
    assert row_of(**dyn)["claimed: minus Const"] is None
    assert row_of(**dyn)["seeds"] == "2"


def test_lengths_are_never_mixed(paired):
    """Each row shows its longest runs, and rows of different lengths are neither hidden nor compared."""
    for cell in cells(rounds=3, **GUARANTEED, calibration="guaranteed"):
        assert cell.rounds == 3
        keep(cell, 0.2)
    assert table_note(kept_rows("tiny/one", load_experiment("tiny/one"))).startswith(
        "Seeds: 2. Rounds: 3 of 6. **Shorter than the published runs.**"
    )
    for cell in cells(seeds=1, **GUARANTEED, calibration="guaranteed"):
        keep(cell, 0.4)
    assert row_of(**GUARANTEED)["at guaranteed ε"] == "40.00"  # one seed at full length, not three seeds
    dyn = {**GUARANTEED, "method": "Dyn"}
    for cell in cells(rounds=3, **dyn, calibration="guaranteed"):
        keep(cell, 0.3)
    assert (row_of(**dyn)["rounds"], row_of(**GUARANTEED)["rounds"]) == ("3 of 6", "6")
    assert row_of(**dyn)["guaranteed: minus Const"] is None
    assert "**Rows differ in length**" in kept_table("tiny/one")


def test_a_run_that_ended_early_is_marked(paired):
    for cell in cells(seeds=1, **GUARANTEED, calibration="guaranteed"):
        keep(cell, 0.2, rounds=2)
    assert "Rounds: 2 of 6. **Shorter than the published runs.**" in kept_table("tiny/one")


def test_a_variant_of_a_cell_is_the_cell_of_the_experiment(tiny):
    """Otherwise kept cells with other seeds or lengths would not be found."""
    tiny.write_text(tiny.read_text().replace("seeds = [0, 1]", 'seeds = [0, 1]\nseeded = ["sharding.seed"]'))
    first, second = cells(method="Free")
    assert first.with_seed(1).key == second.key
    assert first.config.sharding.parameters["seed"] == 0
    short = cells(rounds=2, method="Free")
    assert [first.with_rounds(2).key, second.with_rounds(2).key] == [cell.key for cell in short]
    assert first.with_rounds(6).key == first.key


def test_blocks_are_made_from_kept_cells_and_edited_numbers_are_found(paired):
    end = "<!-- end of results -->\n"
    page = f"A.\n\n<!-- results: tiny/one -->\nold\n{end}\n<!-- chart: tiny/one -->\n{end}"
    assert "**Not run.** To run it: `tacit reproduce tiny/one --keep`.\n<!-- end" in with_blocks(page)
    for cell in cells():
        keep(cell, 0.5)
    made = results_pages.updated_page(page)
    assert made == results_pages.updated_page(made)
    assert "![Tiny](tiny-one.svg)" in made
    edited = made.replace("50.00", "51.00", 1)
    assert edited != made
    assert results_pages.updated_page(edited) == made
    assert block_names(made, "chart") == ["tiny/one"]


def test_an_estimate_is_shown_until_there_are_results(paired):
    file = Path("experiments/results/tiny/estimates/one.json")
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"cells": 10, "seconds": 7200, "bytes": 1e9}))
    assert kept_table("tiny/one").endswith("Estimate: 10 cells, 2.0 hours of one core, 1.0 GB of memory per process.")


def test_charts_are_drawn_from_kept_cells(paired, tmp_path):
    page = tmp_path / "docs.md"
    page.write_text("<!-- chart: tiny/one -->\n<!-- end of results -->\n")
    assert results_pages.write_page(page) == []
    for cell in cells():
        keep(cell, 0.5)
    chart = tmp_path / "tiny-one.svg"
    assert results_pages.write_page(page) == [chart, page]
    assert results_pages.write_page(page) == []
    experiment = load_experiment("tiny/one")
    assert digest_in(chart.read_text()) == chart_digest(experiment, kept_rows("tiny/one", experiment))
    keep(cells(**GUARANTEED, calibration="guaranteed")[0], 0.6)
    assert results_pages.outdated_charts(page, page.read_text()) == ["tiny/one"]
    assert results_pages.write_page(page) == [chart]


def test_a_chart_that_was_edited_by_hand_is_found(paired, tmp_path):
    page = tmp_path / "docs.md"
    page.write_text("<!-- chart: tiny/one -->\n<!-- end of results -->\n")
    for cell in cells():
        keep(cell, 0.5)
    results_pages.write_page(page)
    chart = tmp_path / "tiny-one.svg"
    text = chart.read_text()
    chart.write_text(text.replace("epsilon", "epsilom", 1).replace("Const", "Constant", 1))
    assert results_pages.outdated_charts(page, page.read_text()) == ["tiny/one"]
    assert results_pages.write_page(page) == [chart]
    assert chart.read_text() == text


@pytest.mark.parametrize("kind", ["bars", "lines", "curves", "sensitivity"])
def test_every_kind_of_chart_is_drawn(paired, kind):
    text = paired.read_text().replace('x = "epsilon"\n', "" if kind == "curves" else 'x = "epsilon"\n')
    paired.write_text(text.replace("[chart]", f'[chart]\nkind = "{kind}"'))
    for cell in cells():
        keep(cell, 0.5 + 0.01 * cell.seed, trace=[{"round": 1, "real": 2.0, "estimated": 1.0}])
    experiment = load_experiment("tiny/one")
    svg = chart_svg(experiment, kept_rows("tiny/one", experiment))
    series = {"real > estimated"} if kind == "sensitivity" else {"Free", "Const", "Dyn"}
    assert all(f">{name.replace('>', '&gt;')}" in svg for name in series)
    assert digest_in(svg) == chart_digest(experiment, kept_rows("tiny/one", experiment))


def test_experiments_on_graphs_have_no_rounds():
    with pytest.raises(TacitError, match="rounds do not apply"):
        expand_cells(load_experiment("ppgl/table1"), rounds=3)


def test_equal_costs_stay_equal_in_shorter_runs():
    found = {cell.labels["method"]: cell for cell in expand_cells(load_experiment("lt-admm-dp/figure1"), rounds=2333)}
    assert {name: cell.rounds for name, cell in found.items()} == {"LT-ADMM-DP": 2000, "PORTER": 1333, "PriSMA": 2333}
    assert {cell.config.evaluate_every for cell in found.values()} == {80, 53, 93}
    assert found["PORTER"].published_rounds == 2666


def test_rows_that_differ_in_their_rounds_only_are_not_confused():
    rows = kept_rows("lt-admm-dp/table1", load_experiment("lt-admm-dp/table1"))
    found = {tuple(row.labels.values()): row.plain.mean["cost_seconds"] for row in rows}
    assert [found["PORTER", tau] for tau in "1248"] == pytest.approx([2.1, 4.2, 8.4, 16.8])
