"""A run as Python and notebooks show it."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

import tacit
from tacit.networks import Coordinator
from tacit.runs.run_html import run_html
from tests.api.cases import quick


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return quick(rounds=6, out=tmp_path_factory.mktemp("display") / "run")


def test_repr_has_the_key_numbers(finished):
    size, privacy, folder = repr(finished).splitlines()
    assert size == f"Const-D²P, 4 nodes, 6 rounds: {finished.utility.headline}"
    assert "trivial predictor 10.3 %" in size
    assert privacy == finished.privacy.line
    assert privacy.startswith("Guaranteed (simulated) ε = ")
    assert folder == f"Results: {finished.out}"


def test_a_loaded_run_is_shown_as_the_run_itself(finished):
    loaded = tacit.load(finished.out)
    assert repr(loaded) == repr(finished)
    assert loaded._repr_html_() == finished._repr_html_()


def test_html_has_the_numbers_and_the_curve(finished):
    page = ET.fromstring(finished._repr_html_())
    rows = {row.find("th").text: row.find("td").text for row in page.iter("tr")}
    assert rows["Algorithm"] == "Const-D²P"
    assert rows["Privacy"] == finished.privacy.line
    assert "(trivial predictor 10.3 %)" in rows["Test accuracy"]
    (curve,) = page.iter("{http://www.w3.org/2000/svg}polyline")
    points = [tuple(map(float, point.split(","))) for point in curve.get("points").split()]
    assert len(points) == len(finished.history)
    heights = [-row["accuracy"] for row in finished.evaluations]
    drawn = [y for _, y in points]
    assert sorted(range(7), key=heights.__getitem__) == sorted(range(7), key=drawn.__getitem__)


def test_html_has_no_script_and_only_the_colour_of_the_page(finished):
    page = ET.fromstring(finished._repr_html_())
    for element in page.iter():
        assert "script" not in element.tag
        assert not any(name.startswith("on") for name in element.attrib)
        for paint in ("stroke", "fill", "color", "background"):
            assert element.get(paint, "none") in ("none", "currentColor")
        assert "color" not in element.get("style", "")


def test_all_text_of_the_html_is_escaped(finished):
    privacy = replace(finished.privacy, adversary="<b>anyone</b>")
    hostile = replace(finished.summary(), title="<script>", stopped="a & b", folder='"><i>', privacy=privacy)
    page = ET.fromstring(run_html(hostile))
    assert {"script", "b", "i"}.isdisjoint(element.tag for element in page.iter())
    assert "<script>" in "".join(page.itertext())


def test_run_without_privacy_and_without_a_folder():
    run = quick(algorithm="sgp")
    assert repr(run).splitlines()[1:] == [f"No privacy is guaranteed: {run.privacy.reason}"]


def test_run_that_was_stopped():
    run = quick(algorithm="const-d2p", noise_multiplier=0.5, budget=1e-3)
    assert repr(run).splitlines()[-1] == f"Stopped: {run.stopped}"
    assert run._repr_html_().count("<svg") == 0  # one evaluation is no curve


def test_run_with_secret_noise_shows_the_total():
    run = quick(sharding="digest", noise="secret")
    assert repr(run).splitlines()[1:] == [run.privacy.line, "No other run on these records is recorded."]
    assert "simulated" not in repr(run)


def test_repr_of_one_process_of_several_sends_nothing(monkeypatch):
    run = quick()
    monkeypatch.setattr(Coordinator, "processes", property(lambda self: 2))
    monkeypatch.setattr(Coordinator, "all_gather", None)
    monkeypatch.setattr(Coordinator, "total_traffic", None)
    assert repr(run).splitlines()[1] == "Privacy: call run.privacy in every process of the run"
