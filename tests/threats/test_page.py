"""What the report of a run says about adversaries."""

import json

import pytest

from tacit.reports import Record, page, write_page
from tacit.runs import Config, from_config
from tests.reports.test_browser import UNKNOWN

BASE = {
    "rounds": 6,
    "graph": {"name": "one-peer-exponential", "nodes": 8},
    "algorithm": {"name": "const-d2p", "noise_multiplier": 2.0},
    "batch": {"size": 16},
    "privacy": {"delta": 1e-4},
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    return from_config(Config.parse(BASE)).keep(tmp_path_factory.mktemp("threats") / "mixed").go().out


def test_every_adversary_is_told_and_the_pairs_drawn(mixed, visit):
    seen = visit(mixed / "report.html")
    told = seen.locator("#against").inner_text()
    plain = Record.read(mixed).privacy.guaranteed
    for each in json.loads((mixed / "threats.json").read_text())["against"]:
        assert each["adversary"].capitalize() in told
        assert each["why"] in told
        assert each["epsilon"] <= plain
    assert "count on the noise of other nodes" in told
    assert seen.evaluate("document.getElementById('pairs').data[0].z.length") == 8
    assert seen.locator("#pairs .heatmaplayer image").count() == 1
    assert seen.evaluate(UNKNOWN) == []


def test_a_phone_shows_the_pairs_without_scrolling(mixed, visit):
    assert visit(mixed / "report.html", width=390).evaluate("document.documentElement.scrollWidth") <= 390


def test_no_heat_map_where_it_makes_no_difference_who_looks(mixed, tmp_path):
    ring = Config.parse(BASE | {"graph": {"name": "ring", "nodes": 5}})
    record = Record.read(from_config(ring).keep(tmp_path / "ring").go().out)
    html = page([record])
    assert record.threats["pairs"] is None
    assert 'id="against"' in html
    assert 'id="pairs"' not in html
    assert 'id="pairs"' in page([Record.read(mixed)])
    assert 'id="pairs"' not in page([Record.read(mixed), record])


def test_a_run_without_privacy_has_none_against_anyone(tmp_path):
    plain = Config.parse(BASE | {"algorithm": {"name": "sgp"}})
    html = page([Record.read(from_config(plain).keep(tmp_path / "plain").go().out)])
    section = html[html.index('id="against"') :].split("</section>")[0]
    assert section.count("<strong>none</strong>: values left the nodes without noise.") == 4


def test_a_folder_of_an_earlier_version_still_has_its_page(mixed, tmp_path):
    (mixed / "threats.json").rename(tmp_path / "aside.json")
    try:
        assert 'id="against"' not in write_page([mixed], tmp_path / "page.html").read_text()
    finally:
        (tmp_path / "aside.json").rename(mixed / "threats.json")
