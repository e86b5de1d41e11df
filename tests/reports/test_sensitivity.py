"""The sensitivity of runs over DPPS: chart, count of violations, and words about nodes."""

import shutil

import pytest

from tacit.reports import Record, page, sensitivity, write_page
from tacit.reports.words import not_covered, statement
from tests.reports.conftest import SENSITIVITIES
from tests.reports.test_browser import UNKNOWN
from tests.reports.test_page import said


@pytest.fixture(scope="session")
def records(over_dpps):
    return {mode: Record.read(folder) for mode, folder in over_dpps.items()}


@pytest.mark.parametrize("mode", SENSITIVITIES)
def test_the_mode_in_use_is_bold_and_named(records, mode):
    drawn = sensitivity.chart(records[mode].trace, sensitivity.used(records[mode]))
    bold = [curve["name"] for curve in drawn["data"] if curve.get("line", {}).get("width", 0) > 3]
    assert bold == [f"<b>{mode}, in use</b>"]
    assert drawn["layout"]["yaxis"]["type"] == "log"
    assert len(drawn["data"][0]["x"]) == 12


@pytest.mark.parametrize("mode", SENSITIVITIES)
def test_the_mode_is_known_without_its_config(records, mode):
    """An algorithm that was handed over in Python leaves nothing of itself in the config."""
    record = Record(**{**vars(records[mode]), "config": {"algorithm": {"name": "python: PartPSP"}}})
    real_or_violated = {mode, "real"} if mode == "estimated" else {mode}
    assert sensitivity.used(record) in real_or_violated


def test_violations_are_marked_and_counted(records):
    trace = records["estimated"].trace
    broken = [row["round"] for row in trace if row["real"] > row["estimated"]]
    assert broken
    marks = sensitivity.chart(trace, "estimated")["data"][-1]
    assert (marks["mode"], marks["x"]) == ("markers", broken)
    assert f"in {len(broken)} of 12 rounds the real sensitivity was above it" in page([records["estimated"]])


def test_an_estimate_that_held_is_said_to_have_held(records):
    rows = [{**row, "estimated": 2 * row["real"]} for row in records["estimated"].trace]
    html = page([Record(**{**vars(records["estimated"]), "trace": rows})])
    assert "in none of 12 rounds" in html
    assert "did not hold" not in html


def test_no_guarantee_is_said_in_plain_words(records, over_dpps):
    for mode, why in (("real", "changes with them"), ("estimated", "set by hand: nothing proves them")):
        assert records[mode].privacy.guaranteed is None
        words = said(records[mode])
        assert "Nothing is: for this run there is no bound on what its messages tell about a node." in words
        assert "nothing here supports it" in words
        assert why in words
        assert "a sensitivity that is not proven to hold" in words
        assert "<strong>none</strong>" in (over_dpps[mode] / "report.html").read_text()


def test_a_guarantee_for_nodes_speaks_of_nodes(records):
    for mode in ("certified", "replacement"):
        record = records[mode]
        words = said(record)
        assert "All the data of any one node: they could have been any others." in words
        assert "with any other data at that node" in words
        assert "what one node can change" in words
        assert "for the worst single round" in words
        assert "claims ε = 500 for each round, and that is about what is guaranteed" in words
        assert "The claim says nothing of all rounds together" in words
        assert " record " not in words
        assert any("not shared stay at their node" in line for line in not_covered(record))
        assert not any("k records" in line for line in not_covered(record))


def test_what_an_estimate_takes_for_granted_is_said(records):
    privacy = {**records["certified"].result["privacy"].as_dict(), "assumes": "the moon is far away"}
    record = Record(
        **{**vars(records["certified"]), "result": {"privacy": type(records["certified"].privacy)(**privacy)}}
    )
    assert "takes for granted that the moon is far away." in dict(statement(record))["How well?"]


def test_total_and_round_stand_beside_the_claim(over_dpps):
    html = (over_dpps["replacement"] / "report.html").read_text()
    assert "all rounds together; 500 for the worst single one" in html
    assert "by the paper’s formula, for each round" in html


def test_runs_without_a_trace_have_no_such_chart(finished, over_dpps, tmp_path):
    assert 'id="sensitivity"' not in (finished["changing"] / "report.html").read_text()
    assert Record.read(finished["changing"]).trace == []
    both = write_page([finished["changing"], over_dpps["real"]], tmp_path / "both.html").read_text()
    assert 'id="sensitivity"' not in both
    assert "500 a round" in both
    blind = shutil.copytree(over_dpps["real"], tmp_path / "blind")
    (blind / "trace.csv").write_text("round,real,estimated\n1,,2.0\n")
    assert 'id="sensitivity"' not in page([Record.read(blind)])


def test_the_chart_is_drawn(visit, over_dpps):
    page = visit(over_dpps["estimated"] / "report.html")
    assert page.locator("#sensitivity .scatterlayer .js-line").count() == 3  # real, estimated, certified
    assert page.locator("#sensitivity .points path").count() >= 1
    assert "estimated, in use" in page.locator("#sensitivity .legend").text_content()
    assert "did not hold" in page.locator("figure:has(#sensitivity)").inner_text()
    assert page.evaluate(UNKNOWN) == []
    narrow = visit(over_dpps["estimated"] / "report.html", width=390)
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
