"""What the page of a run shows first, its script, and its document."""

import json
import math
import re
import shutil
from dataclasses import replace

import pytest
from markupsafe import escape

from tacit.errors import TacitError
from tacit.privacy import Privacy, detection_bound
from tacit.reports import RunRecord, render_run_page, write_run_page, write_run_pdf
from tacit.reports.document_section import document_items
from tacit.reports.glossary import GLOSSARY, mark_terms
from tacit.reports.verification_section import digests


@pytest.fixture(scope="session")
def changing(finished):
    return RunRecord.read(finished["changing"])


def text_of(html):
    return re.sub(r"<[^>]+>", "", html)


def figures_of(html):
    return json.loads(html.split('id="figures">')[1].split("</script>")[0])


def test_page_is_small_and_its_script_is_written_once(finished, tmp_path):
    copy = shutil.copytree(finished["changing"], tmp_path / "copy")
    script = copy / "plotly.min.js"
    assert (copy / "report.html").stat().st_size < 200_000 < script.stat().st_size
    written = script.stat().st_mtime_ns
    write_run_page([copy], copy / "report.html")
    assert script.stat().st_mtime_ns == written
    script.write_text("alert(1)")
    write_run_page([copy], copy / "report.html")
    assert script.read_bytes() == (finished["changing"] / "plotly.min.js").read_bytes()


def test_simulation_guarantee_utility_charts_and_details_come_in_this_order(changing):
    html = render_run_page([changing])
    signs = ['<p class="simulation">', 'id="privacy"', 'id="attack"', 'id="utility"', 'id="epsilon"', 'id="statement"']
    signs += ['id="adversaries"', 'id="graph"', 'id="nodes"', 'id="verification"', 'id="configuration"', 'id="terms"']
    places = [html.index(sign) for sign in signs]
    assert places == sorted(places)
    assert "<details open>" not in html


def test_page_is_written_to_a_new_folder(finished, tmp_path):
    page = write_run_page([finished["changing"]], tmp_path / "new" / "folder" / "report.html")
    assert page.is_file()
    assert page.with_name("plotly.min.js").is_file()


def test_page_describes_data_and_costs(changing):
    head = render_run_page([changing]).split("<main>")[0]
    for text in ("digits: 1,797 handwritten digits", "1,437 training records at 6 nodes", "12 rounds", "Tacit 0."):
        assert text in head, text


def test_only_simulated_noise_has_a_banner(changing, finished):
    secret = replace(changing, privacy=replace(changing.privacy, simulated=False))
    for run in (secret, RunRecord.read(finished["plain"])):  # the second has no noise at all
        assert '<p class="simulation">' not in render_run_page([run])
    assert '<p class="simulation">' not in render_run_page([secret, secret])
    assert '<p class="simulation">' in render_run_page([secret, changing])


def test_first_section_states_guarantee_claim_and_detection(changing):
    html = render_run_page([changing])
    first = html[html.index('id="privacy"') : html.index('id="utility"')]
    assert "against an eavesdropper on every link." in text_of(first)
    assert 'class="tile guaranteed"' in first
    assert 'class="tile claimed"' in first
    share = math.ceil(1000 * detection_bound(changing.privacy.guaranteed, changing.privacy.delta)) / 10
    assert f"succeeds with probability at most {share}\N{NO-BREAK SPACE}% (chance: 1 %)." in text_of(first)
    none = replace(changing, privacy=Privacy(guaranteed=None, claimed=None, delta=1e-4, reason="a reason"))
    html = render_run_page([none])
    assert "</button>: a reason." in html
    assert 'class="tile guaranteed none"' in html
    assert "attack" not in figures_of(html)


def test_attack_chart_is_the_bound_of_epsilon_and_delta(changing):
    bound, chance, marked = figures_of(render_run_page([changing]))["attack"]["data"]
    for alarms, detected in zip(bound["x"], bound["y"], strict=True):
        expected = 100 * detection_bound(changing.privacy.guaranteed, changing.privacy.delta, alarms / 100)
        assert detected == pytest.approx(expected)
    assert chance["x"] == chance["y"] == [0, 100]
    assert marked["x"] == [1.0]
    assert marked["y"] == [pytest.approx(100 * detection_bound(changing.privacy.guaranteed, changing.privacy.delta))]


@pytest.mark.parametrize(("claimed", "axis"), [(25.0, "log"), (0.04, "log"), (5.0, None)])
def test_axis_is_logarithmic_if_claim_and_guarantee_are_far_apart(changing, claimed, axis):
    rows = [{**row, "guaranteed": 1.0, "claimed": claimed} for row in changing.evaluations]
    figure = figures_of(render_run_page([replace(changing, evaluations=rows)]))["epsilon"]
    assert figure["layout"]["yaxis"].get("type") == axis


def test_logarithmic_axis_leaves_out_zero(changing):
    rows = [{**row, "guaranteed": row["round"] / 10, "claimed": 500.0} for row in changing.evaluations]
    guaranteed, claimed = figures_of(render_run_page([replace(changing, evaluations=rows)]))["epsilon"]["data"]
    assert [row["round"] for row in rows] == claimed["x"] == [0, *guaranteed["x"]]


def test_terms_are_marked_once_and_text_is_escaped():
    html = mark_terms("Guaranteed ε < 3, guaranteed per record, recorded")
    assert html.count("<button") == 3
    assert html.startswith('<button type="button" class="term" popovertarget="term-guaranteed"')
    assert "&lt; 3, guaranteed per" in html
    assert html.endswith("</button>, recorded")


def test_every_marked_term_is_explained_on_the_page(changing):
    html = render_run_page([changing])
    marked = set(re.findall(r'popovertarget="([^"]+)"', html))
    assert {"term-ε", "term-guaranteed", "term-false-positives", "term-trivial-predictor"} <= marked
    assert marked <= set(re.findall(r'<div class="tip" id="([^"]+)" popover>', html))
    assert all(str(escape(text)) in html for text in GLOSSARY.values())


def test_page_shows_the_digests_in_the_ledger(changing):
    html = render_run_page([changing])
    assert {"config", "training records", "releases", "result.json"} <= set(digests(changing))
    assert all(f"<code>{digest}</code>" in html for digest in digests(changing).values())
    assert digests(changing)["config"] == changing.verification.facts.config_digest


def test_document_has_purpose_data_method_guarantee_assumptions_and_signatures(changing):
    items = document_items(changing, "To test <this>.")
    assert [item.term for item in items] == [
        "Purpose",
        "Data",
        "Method",
        "Guarantee",
        "Assumptions",
        "Result",
        "Identification",
    ]
    texts = dict(items)
    assert texts["Data"].startswith("digits: 1,797 handwritten digits")
    assert "training records at 6 nodes" in texts["Data"]
    assert texts["Result"].startswith("Accuracy ")
    assert "(trivial predictor 10.3 %)" in texts["Result"]
    assert all(digests(changing)[name] in texts["Identification"] for name in ("config", "releases"))
    assert "Dyn-D²P without a server" in texts["Method"]
    assert changing.privacy.line in texts["Guarantee"]
    html = render_run_page([changing], document=items)
    assert "To test &lt;this&gt;." in html
    assert html.index("<dt>Limitations</dt>") < html.index("Approved by") < html.index('id="privacy"')
    assert "<details>" not in html
    assert dict(document_items(changing, ""))["Purpose"] == "Not stated."


def test_pdf_without_a_browser_is_refused(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TacitError, match=r"none of chromium, .* is on PATH. Install one"):
        write_run_pdf(finished["changing"], tmp_path / "report.pdf")
    assert list(tmp_path.iterdir()) == []


def test_browser_that_fails_is_reported(finished, tmp_path, monkeypatch):
    fake = tmp_path / "chromium"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(TacitError, match="could not print the report: it ended with code 3"):
        write_run_pdf(finished["changing"], tmp_path / "report.pdf")
    assert not (tmp_path / "report.pdf").exists()
