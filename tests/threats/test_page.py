"""The adversaries section of a run's report."""

import json
import shutil

import pytest

from tacit.errors import TacitError
from tacit.reports import ReportPage, RunRecord, render_run_page, write_run_page
from tacit.runs import Config, from_config
from tests.reports.test_browser import INVALID_PLOTLY

BASE = {
    "rounds": 6,
    "graph": {"name": "one-peer-exponential", "nodes": 8},
    "algorithm": {"name": "const-d2p", "noise_multiplier": 2.0},
    "batch": {"size": 16},
    "privacy": {"delta": 1e-4},
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return (
        from_config(Config.parse(BASE), out=tmp_path_factory.mktemp("threats") / "mixed", observers=[ReportPage()])
        .go()
        .out
    )


def test_the_report_lists_every_adversary_and_draws_the_pairs(mixed, visit):
    seen = visit(mixed / "report.html")
    seen.locator("#adversaries summary").click()
    text = seen.locator("#adversaries").inner_text()
    headline = RunRecord.read(mixed).privacy.guaranteed
    for bound in json.loads((mixed / "threats.json").read_text())["bounds"]:
        assert bound["adversary"].capitalize() in text
        assert bound["reason"] in text
        assert bound["epsilon"] <= headline
    assert "rely on the noise of other nodes" in text
    assert seen.evaluate("document.getElementById('pairs').data[0].z.length") == 8
    assert seen.locator("#pairs .heatmaplayer image").count() == 1
    assert seen.evaluate(INVALID_PLOTLY) == []


def test_the_pairs_fit_on_a_phone_without_scrolling(mixed, visit):
    assert visit(mixed / "report.html", width=390).evaluate("document.documentElement.scrollWidth") <= 390


def test_no_heat_map_if_all_pairs_have_the_same_epsilon(mixed, tmp_path):
    ring = Config.parse(BASE | {"graph": {"name": "ring", "nodes": 5}})
    record = RunRecord.read(from_config(ring, out=tmp_path / "ring", observers=[ReportPage()]).go().out)
    html = render_run_page([record])
    assert record.threats["pairs"] is None
    assert 'id="adversaries"' in html
    assert 'id="pairs"' not in html
    assert 'id="pairs"' in render_run_page([RunRecord.read(mixed)])
    assert 'id="pairs"' not in render_run_page([RunRecord.read(mixed), record])


def test_a_run_without_noise_has_no_epsilon_against_anyone(tmp_path):
    plain = Config.parse(BASE | {"algorithm": {"name": "sgp"}})
    html = render_run_page(
        [RunRecord.read(from_config(plain, out=tmp_path / "plain", observers=[ReportPage()]).go().out)]
    )
    section = html[html.index('id="adversaries"') :].split("</section>")[0]
    assert section.count("<strong>No guarantee</strong>: values leave the nodes without noise.") == 5


def test_a_folder_without_its_threats_json_is_refused(mixed, tmp_path):
    copy = shutil.copytree(mixed, tmp_path / "copy")
    (copy / "threats.json").unlink()
    with pytest.raises(TacitError, match=r"threats.json is missing"):
        write_run_page([copy], tmp_path / "page.html")
