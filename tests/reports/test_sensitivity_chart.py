"""The sensitivity of runs over DPPS: chart, violated estimates, and statements about whole nodes."""

from dataclasses import replace

import pytest

from tacit.reports import RunRecord, limitations, privacy_statement, render_run_page, write_run_page
from tacit.reports.sensitivity_chart import sensitivity_chart, sensitivity_mode
from tests.reports.conftest import SENSITIVITIES
from tests.reports.test_browser import INVALID_PLOTLY


@pytest.fixture(scope="session")
def records(over_dpps):
    return {mode: RunRecord.read(folder) for mode, folder in over_dpps.items()}


def text(record):
    return " ".join(item.text for item in privacy_statement(record))


@pytest.mark.parametrize("mode", SENSITIVITIES)
def test_curve_of_the_mode_in_use_is_bold(records, mode):
    figure = sensitivity_chart(records[mode].trace, sensitivity_mode(records[mode]))
    bold = [curve["name"] for curve in figure["data"] if curve.get("line", {}).get("width", 0) > 3]
    assert bold == [f"<b>{mode}, in use</b>"]
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert len(figure["data"][0]["x"]) == 12


@pytest.mark.parametrize("mode", SENSITIVITIES)
def test_mode_is_found_without_the_config(records, mode):
    """The config of a run with a Python object as algorithm does not contain its parameters."""
    record = replace(records[mode], config={"algorithm": {"name": "python: PartPSP"}})
    accepted = {mode, "real"} if mode == "estimated" else {mode}
    assert sensitivity_mode(record) in accepted


def test_violations_are_marked_and_counted(records):
    trace = records["estimated"].trace
    violated = [row["round"] for row in trace if row["real"] > row["estimated"]]
    assert violated
    marks = sensitivity_chart(trace, "estimated")["data"][-1]
    assert (marks["mode"], marks["x"]) == ("markers", violated)
    html = render_run_page([records["estimated"]])
    assert f"the real sensitivity exceeds it in {len(violated)} of 12 rounds" in html


def test_estimate_that_holds_is_reported(records):
    rows = [{**row, "estimated": 2 * row["real"]} for row in records["estimated"].trace]
    html = render_run_page([replace(records["estimated"], trace=rows)])
    assert "in none of 12 rounds" in html
    assert "did not hold" not in html


def test_modes_without_guarantee_are_explained(records, over_dpps):
    for mode, reason in (("real", "it changes with the data"), ("estimated", "set by hand and not proven")):
        assert records[mode].privacy.guaranteed is None
        statement = text(records[mode])
        assert "Nothing is protected: the messages may reveal any node." in statement
        assert "Nothing here supports the claim" in statement
        assert reason in statement
        assert "a sensitivity that is not proven" in statement
        assert "<strong>no guarantee</strong>" in (over_dpps[mode] / "report.html").read_text()


def test_guarantee_for_nodes_is_stated_for_nodes(records):
    for mode in ("certified", "replacement"):
        record = records[mode]
        statement = text(record)
        assert "All data of one node." in statement
        assert "Replacing all data of any one node" in statement
        assert "the sensitivity to one node" in statement
        assert "for the worst single round" in statement
        assert "500 per round, by the paper’s formula" in statement
        assert "The paper claims nothing for all rounds together" in statement
        assert "It agrees with the guarantee." in statement
        assert "one record" not in statement
        assert any("not shared stay at their node" in line for line in limitations(record))
        assert not any("k records" in line for line in limitations(record))


def test_epsilon_of_the_run_and_of_a_round_are_both_shown(over_dpps):
    html = (over_dpps["replacement"] / "report.html").read_text()
    assert "all rounds; 500 for the worst round" in html
    assert "by the paper’s formula, per round" in html


def test_runs_without_a_trace_have_no_sensitivity_chart(finished, over_dpps, tmp_path):
    assert 'id="sensitivity"' not in (finished["changing"] / "report.html").read_text()
    assert RunRecord.read(finished["changing"]).trace == []
    both = write_run_page([finished["changing"], over_dpps["real"]], tmp_path / "both.html").read_text()
    assert 'id="sensitivity"' not in both
    assert "500 per round" in both
    unknown = replace(RunRecord.read(over_dpps["real"]), trace=[{"round": 1, "real": None, "estimated": 2.0}])
    assert 'id="sensitivity"' not in render_run_page([unknown])


def test_chart_in_a_browser(visit, over_dpps):
    page = visit(over_dpps["estimated"] / "report.html")
    assert page.locator("#sensitivity .scatterlayer .js-line").count() == 3  # real, estimated, certified
    assert page.locator("#sensitivity .points path").count() >= 1
    assert "estimated, in use" in page.locator("#sensitivity .legend").text_content()
    assert "did not hold" in page.locator("figure:has(#sensitivity)").inner_text()
    assert page.evaluate(INVALID_PLOTLY) == []
    narrow = visit(over_dpps["estimated"] / "report.html", width=390)
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 390
