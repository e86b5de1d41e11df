"""Results that are kept with the experiments: read without a run, and the source of every table on a page."""

import json
import re
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.reports.results_pages import outdated_charts, updated_page
from tacit.reproduce import available_experiments, load_experiment
from tacit.reproduce.cells import expand_cells
from tacit.reproduce.kept import kept_cells, kept_folder, kept_results
from tacit.reproduce.page_blocks import block_names, kept_table, with_blocks

PAGES = sorted((Path(__file__).parents[2] / "docs/experiments").glob("*.md"))
RUN = ("reproduce", "tiny/one", "--jobs", "1")


@pytest.fixture
def quicker(tiny):
    """The experiment with one ε and one round."""
    tiny.write_text(tiny.read_text().replace("rounds = 6", "rounds = 1").replace("values = [1, 3]", "values = [3]"))
    return tiny


def test_kept_results_are_shown_without_a_run(tacit, quicker):
    refused = tacit(*RUN, "--kept")
    assert refused.code == 2
    assert refused.err.startswith("error: 10 of 10 results of tiny/one are not kept in ")
    first = tacit(*RUN, "--keep")
    assert first.code == 0, first.err
    files = sorted(Path("experiments/results/tiny").glob("*.json"))
    assert len(files) == 10
    again = tacit(*RUN, "--kept")
    assert again.out.splitlines()[:4] == first.out.splitlines()[:4]
    # The shown numbers are those of the files.
    for file in files:
        result = json.loads(file.read_text())
        assert set(result["versions"]) == {"tacit", "torch"}
        assert (result["digest"], result["seed"]) == (file.stem, result["config"]["seed"])
        assert (result["rounds"], result["planned_rounds"], result["published_rounds"]) == (1, 1, None)
        file.write_text(json.dumps({**result, "history": [{**row, "accuracy": 0.125} for row in result["history"]]}))
    assert "12.50" in tacit(*RUN, "--kept").out
    files[0].unlink()
    assert "1 of 10 results of tiny/one are not kept" in tacit(*RUN, "--kept").err
    assert "give one of them" in tacit(*RUN, "--kept", "--keep").err


def test_tables_of_a_page_are_made_anew(tacit, quicker):
    tacit(*RUN, "--keep")
    before, after = "Before.\n\n<!-- results: tiny/one -->\n", "<!-- end of results -->\n\nAfter.\n"
    made = with_blocks(f"{before}old\n{after}")
    assert made == f"{before}{kept_table('tiny/one')}\n{after}"
    assert with_blocks(made) == made
    assert with_blocks("No table.\n") == "No table.\n"


def test_tries_on_held_out_records_are_kept(tacit, quicker):
    ended = tacit("reproduce", "tiny/one", "--tune", "--jobs", "1", "--keep", "--json")
    tries = json.loads(ended.out)["tries"]
    assert json.loads(Path("experiments/results/tiny/tuning/one.json").read_text()) == tries
    made = with_blocks("<!-- tuning: tiny/one -->\nold\n<!-- end of results -->\n").splitlines()
    assert made[1].startswith("| method | epsilon | best of 2 tries | held out: accuracy (%) | median |")
    for line, method in zip(made[3:5], ("Const", "Dyn"), strict=True):
        best = max((each for each in tries if each["method"] == method), key=lambda each: each["accuracy"])
        assert f"| {best['try']} | {best['accuracy']:.2f} |" in line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_have_the_kept_results(page):
    """`make results` writes the tables and charts."""
    text = page.read_text(encoding="utf-8")
    assert updated_page(text) == text
    assert outdated_charts(page, text) == []


@pytest.mark.parametrize(("name", "kind"), [("flagship", "results"), ("flagship", "tuning"), ("summary", "summary")])
def test_a_number_that_is_edited_by_hand_is_found(name, kind):
    """One digit of each kind of block on the real pages."""
    page = next(each for each in PAGES if each.stem == name)
    text = page.read_text(encoding="utf-8")
    start = text.index(f"<!-- {kind}: ")
    digit = re.compile(r"\d").search(text, text.index("\n| ", text.index("| --- |", start) + 200))
    edited = f"{text[: digit.start()]}{9 - int(digit[0])}{text[digit.end() :]}"
    assert edited != text
    assert updated_page(edited) == text


def test_every_experiment_is_on_a_page():
    shown = {name for page in PAGES for name in block_names(page.read_text(encoding="utf-8"), "results")}
    assert shown == set(available_experiments())


def test_unused_results_are_not_kept():
    """Every kept file of the project is in some table: it is of a present row, and none of its runs is longer."""
    root = Path(__file__).parents[2] / "experiments/results"
    for folder in sorted(path for path in root.glob("*") if path.is_dir()):
        names = [f"{folder.name}/{path.stem}" for path in (root.parent / folder.name).glob("*.toml")]
        rows = [row for name in names for row in kept_cells(folder, load_experiment(name))]
        keys = {cell.key for row in rows for cell in row}
        assert {path.stem for path in folder.glob("*.json")} <= keys
        assert all(kept_folder(name) == folder for name in names)


def test_a_missing_cell_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("tacit.reproduce.kept.kept_folder", lambda name: tmp_path)
    cells = expand_cells(load_experiment("flagship/mnist"))
    with pytest.raises(TacitError, match=r"9 of 9 results of flagship/mnist are not kept .* Eavesdropper, epsilon 1"):
        kept_results("flagship/mnist", cells)
