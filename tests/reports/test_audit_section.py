"""Audit results on the page of a run: texts, chart, and the warning if a guarantee is broken."""

import json
import shutil
from dataclasses import replace

import pytest

from tacit.audit import MembershipGuesses, ProfilePoint, lower_bound
from tacit.errors import TacitError
from tacit.reports import RunRecord, SavedAudits, render_run_page, write_run_page
from tacit.reports.audit_chart import audit_picture, profile_chart
from tacit.reports.audit_limits import audit_limits, limits_text
from tacit.reports.audit_section import audit_sections
from tacit.reports.saved_audits import AUDIT_FILE
from tests.reports.every_page import ONE_RUN
from tests.reports.every_page import TRIALS as SOUND
from tests.reports.test_browser import INVALID_PLOTLY

BROKEN = replace(SOUND, profile=(ProfilePoint(0.1, 0.5, 0.75), ProfilePoint(0.01, 1.9, 1.5)))


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished["changing"], tmp_path / "changing")


@pytest.fixture
def record(finished):
    return RunRecord.read(finished["changing"])


def html_with(record, **audits):
    return render_run_page([replace(record, audits=SavedAudits(**audits))])


def sections(record, **audits):
    return audit_sections(replace(record, audits=SavedAudits(**audits)))


def texts(record, **audits):
    """The texts of each section, by term."""
    return [dict(section.items) for section in sections(record, **audits)]


def sentence(record, **audits):
    """The sentence of the only section."""
    (section,) = sections(record, **audits)
    return section.sentence


def bars(audit):
    trace = audit_picture(audit)["data"][0]
    return dict(zip(trace["y"], trace["x"], strict=True))


def series(audit):
    return {curve["name"]: list(zip(curve["x"], curve["y"], strict=True)) for curve in profile_chart(audit)["data"]}


def test_page_without_audit_has_no_audit_section(record):
    html = html_with(record)
    assert not any(sign in html for sign in ('id="audit', "by an audit", "BROKEN"))
    assert html == render_run_page([record])


def test_audits_are_saved_and_read_back(folder):
    SavedAudits(trials=SOUND).including(ONE_RUN).write(folder)
    assert RunRecord.read(folder).audits == SavedAudits(SOUND, ONE_RUN)
    html = write_run_page([folder], folder / "report.html").read_text()
    assert 'id="audit"' in html
    assert 'id="audit-one-run"' in html
    SavedAudits(SOUND, ONE_RUN).including(BROKEN).write(folder)
    assert RunRecord.read(folder).audits == SavedAudits(BROKEN, ONE_RUN)


def test_audit_of_the_method_is_described(record):
    (section,) = texts(record, trials=SOUND)
    assert "Dyn-D²P over 4 rounds in 20,000 small networks, not this run itself" in section["Attack"]
    assert "The noise is that of the run’s settings." in section["Attack"]
    assert sentence(record, trials=SOUND) == (  # a lower bound is rounded down, a guarantee up
        "The attack shows ε ≥ 2.51 at δ = 0.0001 with 95 % confidence; the guaranteed ε = 3.001 is not broken, and the "
        "claimed ε = 2.75 is not refuted."
    )
    assert "Not broken: the lower bound stays below the guaranteed ε at all 3 tested δ." in section["Guarantee"]


@pytest.mark.parametrize(
    ("calibration", "text"), [("guaranteed", "calibrated to"), ("paper", "calibrated by the paper’s formula to")]
)
def test_calibrated_noise_is_described(record, calibration, text):
    calibrated = replace(record, config={**record.config, "privacy": {"epsilon": 3.0, "calibration": calibration}})
    assert f"The noise is {text} ε = 3 over these rounds." in texts(calibrated, trials=SOUND)[0]["Attack"]


@pytest.mark.parametrize(
    ("privacy", "text"),
    [
        ({"unit": "node"}, "one node has worst-case data"),
        ({"relation": "replace-one"}, "it is replaced by another"),
        ({"relation": "add-remove"}, "the others do not"),
    ],
)
def test_the_two_worlds_are_those_of_the_guarantee(record, privacy, text):
    other = replace(record, privacy=replace(record.privacy, **privacy))
    assert text in texts(other, trials=SOUND)[0]["Attack"]


def test_audit_of_one_run_is_described(record):
    (section,) = texts(record, one_run=ONE_RUN)
    assert "1,000 canary records at node 3" in section["Attack"]
    assert "It made 65 guesses, of which 48 were correct." in section["Attack"]
    assert "Not broken: the lower bound stays below the guaranteed ε at this δ." in section["Guarantee"]
    assert "claim" not in sentence(record, one_run=ONE_RUN)
    html = html_with(record, one_run=ONE_RUN)
    assert 'id="audit-one-run"' in html
    assert 'id="audit-chart"' not in html


def test_broken_guarantee_is_announced_at_the_top(record):
    alarm = "THE GUARANTEE IS BROKEN: ε ≥ 1.9 at δ = 0.01, but ε = 1.5 is guaranteed."
    html = html_with(record, trials=BROKEN, one_run=ONE_RUN)
    assert html.index(alarm) < html.index('aria-label="Summary"')
    assert '<section class="card warning" id="audit">' in html
    assert '<section class="card" id="audit-one-run">' in html
    assert texts(record, trials=BROKEN)[0]["Guarantee"].startswith("Broken: ε ≥ 1.9 at δ = 0.01")
    assert "at most 10 % of such audits" in html
    assert "Not broken" not in html_with(record, trials=BROKEN)
    assert "BROKEN" not in html_with(record, trials=SOUND, one_run=ONE_RUN)


@pytest.mark.parametrize(
    ("claimed", "scope", "text"),
    [
        (2.0, "run", "the claimed ε = 2 is refuted."),
        (0.5, "round", "the claimed ε = 2 for 4 rounds is refuted."),
        (1.0, "round", "the claimed ε = 4 for 4 rounds is not refuted."),
    ],
)
def test_claim_is_refuted_by_a_larger_lower_bound(record, claimed, scope, text):
    audit = replace(SOUND, claimed=claimed, claimed_for=scope)
    assert sentence(record, trials=audit).endswith(text)
    assert series(audit)["claimed"] == [(1e-4, claimed * (4 if scope == "round" else 1))]


def test_without_guarantee_there_is_nothing_to_break(record):
    unprotected = replace(SOUND, guaranteed=None, profile=(), claimed=1.0)
    (section,) = texts(record, trials=unprotected)
    assert section["Guarantee"] == "There is no guarantee to test."
    assert "nothing is guaranteed, and the claimed ε = 1 is refuted." in sentence(record, trials=unprotected)
    assert 'id="audit-chart"' not in html_with(record, trials=unprotected)
    assert "Guaranteed" not in bars(unprotected)


def test_chart_shows_guarantee_lower_bound_and_claim():
    assert series(SOUND) == {
        "guaranteed": [(1e-4, 3.0001), (0.01, 1.5), (0.1, 0.75)],
        "lower bound": [(1e-4, 2.5196), (0.01, 1.25), (0.1, 0.5)],
        "claimed": [(1e-4, 2.75)],
    }
    assert series(BROKEN)["broken"] == [(0.01, 1.9)]
    twice = replace(SOUND, profile=(*BROKEN.profile, *SOUND.profile))  # of two attacks at a δ, the better one
    assert series(twice) == series(BROKEN)
    assert profile_chart(SOUND)["layout"]["xaxis"]["type"] == "log"
    assert profile_chart(SOUND)["layout"]["showlegend"]


def test_picture_shows_what_was_found_guaranteed_claimed_and_possible():
    found = bars(SOUND)
    assert list(found) == ["Shown by the attack", "Guaranteed", "Claimed", "Most that 20,000 trials<br>can show"]
    assert list(found.values())[:3] == [2.5196, 3.0001, 2.75]
    assert audit_picture(SOUND)["layout"]["xaxis"].get("type") is None
    assert list(bars(ONE_RUN)) == ["Shown by the attack", "Guaranteed", "Most that 1,000 canaries<br>can show"]


def test_claim_that_dwarfs_the_rest_has_a_logarithmic_axis():
    large = replace(SOUND, claimed=500.0)
    assert series(large)["claimed"] == [(1e-4, 500.0)]
    assert profile_chart(large)["layout"]["yaxis"]["type"] == "log"
    assert profile_chart(SOUND)["layout"]["yaxis"].get("type") is None
    assert audit_picture(large)["layout"]["xaxis"]["type"] == "log"


def test_perfect_attack_is_right_in_all_trials_that_test():
    limits, more = audit_limits(SOUND), audit_limits(SOUND, 10)
    assert limits.perfect == lower_bound(7500, 7500, 0, 7500, 1e-4, 0.95)  # three quarters test, half has the canary
    assert more.perfect == lower_bound(75_000, 75_000, 0, 75_000, 1e-4, 0.95)
    assert 2.5 < limits.attained < more.attained < SOUND.guaranteed
    assert audit_limits(replace(SOUND, guaranteed=None)).attained is None
    assert audit_limits(ONE_RUN).perfect == MembershipGuesses(750, 65, 65).lower(1e-4, 0.9)


def test_what_more_trials_would_show_is_stated(record):
    html = html_with(record, trials=SOUND, one_run=ONE_RUN)
    assert "Even a perfect attack would show no more than ε ≥ 7.61 in 20,000 trials, and ε ≥ 9.91 in 200,000." in html
    assert "An attack that attains the guaranteed ε would show about ε ≥ 2." in html
    assert "Even if all 65 guesses were correct, 1,000 canaries would show no more than ε ≥ " in html
    assert "not due to the number of trials" in limits_text(replace(SOUND, lower=1.0))
    assert "not due to the number of trials" not in limits_text(replace(SOUND, lower=2.95))


def test_page_of_several_runs_has_no_audits(record):
    audited = replace(record, audits=SavedAudits(BROKEN, ONE_RUN))
    assert render_run_page([audited, record]) == render_run_page([record, record])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[1]", "expected an object with keys, got list"),
        ('{"trials": {"lower": 1.0}}', r"trials\.algorithm is missing. Delete the file and audit again"),
        (
            json.dumps({"trials": SOUND.as_dict() | {"lower": "high"}}),
            r"trials\.lower = 'high' should be a valid number",
        ),
        (json.dumps({"one_run": SOUND.as_dict()}), r"one_run\.node is missing"),
    ],
)
def test_damaged_audit_file_is_refused(folder, text, message):
    (folder / AUDIT_FILE).write_text(text)
    with pytest.raises(TacitError, match=rf"{AUDIT_FILE}.*{message}"):
        RunRecord.read(folder)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_audit_chart_in_a_browser(visit, folder, scheme):
    SavedAudits(BROKEN, ONE_RUN).write(folder)
    path = write_run_page([folder], folder / "report.html")
    wide = visit(path, scheme=scheme)
    assert wide.locator("#audit-picture .bars .point").count() == 4
    assert wide.locator("#audit-one-run-picture .bars .point").count() == 3
    wide.locator("#audit summary").click()
    assert wide.locator("#audit-chart .cartesianlayer .js-line").count() == 2  # guaranteed and lower bound
    assert wide.locator("#audit-chart .cartesianlayer .points path").count() == 3 + 1 + 1  # bound, claimed, broken
    assert wide.evaluate(INVALID_PLOTLY) == []
    phone = visit(path, width=390, scheme=scheme)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.locator("#audit-chart").evaluate("chart => chart.scrollWidth") <= 390
    assert "BROKEN" in phone.locator("main > .warning").first.inner_text()
