"""The page of a comparison: the best method, downloads, and one script on disk."""

import urllib.parse
from dataclasses import replace

import pytest

from tacit import tables
from tacit.comparisons import Comparison
from tacit.reports.comparison_summary import comparison_summary


def row(method, accuracy, deviation=0.01, **changes):
    values = {
        "method": method,
        "algorithm": method.upper(),
        "guaranteed": 2.99,
        "claimed": 2.5,
        "claimed_for": "run",
        "relation": "add-remove",
        "unit": "record",
        "accuracy": [accuracy, deviation],
        "loss": [1.0, 0.1],
        "rounds": 8,
        "bytes": 1e6,
        "cost_seconds": 0.0,
        "seeds": 3,
    }
    return {**values, **changes}


def compared(*rows, seeds=3, **changes):
    facts = {"epsilon": 3.0, "delta": 1e-4, "trivial": {"accuracy": 0.1}, "note": None, "folders": {}}
    return Comparison(rows=list(rows), seeds=seeds, **facts, out=None, **changes)


def test_best_private_method_is_named_and_the_reference_is_not(tmp_path):
    reference = row("c", 0.95, guaranteed=None, claimed=None)
    summary = comparison_summary(compared(row("a", 0.8), row("b", 0.9), reference))
    assert summary.best == {1}
    assert summary.sentence == (
        "Best at guaranteed ε ≤ 3: B, accuracy 90.00 ± 1.00 % over 3 seeds. The next is A; the difference is 10.00 "
        "percentage points, more than one standard deviation."
    )


def test_difference_within_a_standard_deviation_is_uncertain():
    summary = comparison_summary(compared(row("a", 0.89, 0.02), row("b", 0.9)))
    assert "within one standard deviation, so the order is uncertain" in summary.sentence


def test_one_seed_has_no_deviation():
    summary = comparison_summary(compared(row("a", 0.8, 0.0, seeds=1), row("b", 0.9, 0.0, seeds=1), seeds=1))
    assert "B, accuracy 90.00 % with one seed." in summary.sentence
    assert summary.sentence.endswith("One seed does not show whether it is due to chance.")


@pytest.mark.parametrize("other", [{"guaranteed": None}, {"unit": "node"}])
def test_methods_that_cannot_be_compared_have_no_best(other):
    summary = comparison_summary(compared(row("a", 0.8), row("b", 0.9, **other)))
    assert summary.best == set()
    assert summary.sentence.startswith("No best method is named")


def test_notes_are_shown():
    comparison = replace(
        compared(row("a", 0.8), row("b", 0.9)), note="The units differ.", hyperparameters="lr differs."
    )
    assert comparison_summary(comparison).notes == ["The units differ. Their ε cannot be compared.", "lr differs."]


def test_downloads_are_the_tables_of_the_comparison():
    comparison = compared(row("a", 0.8), row("b", 0.9))
    files = {file.name: file for file in comparison_summary(comparison).downloads}
    content = {name: urllib.parse.unquote(file.href.split(",", 1)[1]) for name, file in files.items()}
    assert content == {
        "table.tex": tables.latex(comparison.frame) + "\n",
        "table.csv": tables.csv(comparison.frame) + "\n",
    }


def test_page_marks_the_best_and_downloads_tables_and_pictures(visit, every_page, tmp_path):
    page = visit(every_page["compare"])
    assert page.locator("#comparison tr.best").count() == 1
    assert page.locator("#comparison tr.best .badge").inner_text() == "best"
    assert "over 2 seeds" in page.locator("#results .lead").inner_text()
    assert "hyperparameters differ" in page.locator("#results").inner_text()
    for link, start in (("LaTeX", "\\begin{table}"), ("CSV", "method,algorithm")):
        with page.expect_download() as started:
            page.get_by_role("link", name=link).click()
        started.value.save_as(tmp_path / link)
        assert (tmp_path / link).read_text().startswith(start)
    with page.expect_download() as started:
        page.locator("#panel-accuracy .png").click()
    started.value.save_as(tmp_path / "picture.png")
    assert started.value.suggested_filename.endswith("-accuracy.png")
    data = (tmp_path / "picture.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert (int.from_bytes(data[16:20]), int.from_bytes(data[20:24])) == (1800, 1080)


def test_the_disk_holds_the_script_of_all_runs_once(every_page):
    folder = every_page["compare"].parent
    scripts = [*folder.glob("**/plotly.min.js")]
    assert len(scripts) == 1 + 3 * 2
    assert len({script.stat().st_ino for script in scripts}) == 1
