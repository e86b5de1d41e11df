"""What attacks found, on the page of a run: in words, as a chart, and aloud where a guarantee is broken."""

import json
import shutil
from dataclasses import replace

import pytest

from tacit.audit import OneRunAudit, ProfilePoint, TrialsAudit
from tacit.errors import TacitError
from tacit.reports import Record, page, write_page
from tacit.reports.audits import attacks, chart
from tacit.reports.findings import AUDIT, Findings
from tests.reports.test_browser import UNKNOWN

SOUND = TrialsAudit(
    algorithm="Dyn-D²P",
    lower=2.5196,
    guaranteed=3.0001,
    claimed=2.75,
    delta=1e-4,
    confidence=0.95,
    rounds=4,
    profile=(ProfilePoint(0.1, 0.5, 0.75), ProfilePoint(0.01, 1.25, 1.5)),
    trials=20_000,
    separation=1.0,
)
BROKEN = replace(SOUND, profile=(ProfilePoint(0.1, 0.5, 0.75), ProfilePoint(0.01, 1.9, 1.5)))
ONCE = OneRunAudit(
    algorithm="Dyn-D²P",
    lower=0.5,
    guaranteed=2.9,
    claimed=None,
    delta=1e-4,
    confidence=0.9,
    rounds=12,
    node=3,
    canaries=1000,
    guesses=65,
    correct=48,
)


@pytest.fixture
def folder(finished, tmp_path):
    return shutil.copytree(finished["changing"], tmp_path / "changing")


@pytest.fixture
def record(finished):
    return Record.read(finished["changing"])


def shown(record, **findings):
    return page([replace(record, findings=Findings(**findings))])


def answers(record, **findings):
    found = attacks(replace(record, findings=Findings(**findings)))
    return [{point.question: point.answer for point in attack.points} for attack in found]


def series(found):
    return {curve["name"]: list(zip(curve["x"], curve["y"], strict=True)) for curve in chart(found)["data"]}


def test_without_an_audit_the_page_says_nothing_of_one(record):
    html = shown(record)
    assert not any(sign in html for sign in ('id="attacked', 'id="tried"', "by attack", "BROKEN"))
    assert html == page([record])


def test_findings_are_read_back_as_they_were_written(folder):
    Findings(trials=SOUND).including(ONCE).write(folder)
    assert Record.read(folder).findings == Findings(SOUND, ONCE)
    html = write_page([folder], folder / "report.html").read_text()
    assert 'id="attacked"' in html
    assert 'id="attacked-once"' in html
    Findings(SOUND, ONCE).including(BROKEN).write(folder)
    assert Record.read(folder).findings == Findings(BROKEN, ONCE)


def test_what_was_attacked_and_found_in_words(record):
    (told,) = answers(record, trials=SOUND)
    assert "Not this very run" in told["What was attacked?"]
    assert "Dyn-D²P over 4 rounds in 20,000 little networks" in told["What was attacked?"]
    assert "with the noise of the run’s settings" in told["What was attacked?"]
    # A lower bound is rounded down, a guarantee up.
    assert "at least 2.51 at δ = 0.0001, with 95% confidence" in told["What was found?"]
    assert "ε = 3.001 is guaranteed" in told["What was found?"]
    assert "survived: at none of 3 δ tried" in told["Does the guarantee hold?"]
    assert told["And the claim?"].endswith("claims ε = 2.75. No more was found: it is not refuted.")


@pytest.mark.parametrize(("calibration", "words"), [("guaranteed", "anew, for"), ("paper", "paper’s formula for")])
def test_noise_that_was_set_for_an_epsilon_is_said_to_be(record, calibration, words):
    asked = replace(record, config={**record.config, "privacy": {"epsilon": 3.0, "calibration": calibration}})
    assert f"{words} the run’s ε = 3 over these rounds" in answers(asked, trials=SOUND)[0]["What was attacked?"]


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ({"unit": "node"}, "one node has the worst data"),
        ({"relation": "replace-one"}, "another is in its place"),
        ({"relation": "add-remove"}, "in the others it is not"),
    ],
)
def test_the_two_worlds_are_those_of_the_guarantee(record, privacy, words):
    other = replace(record, result={**record.result, "privacy": replace(record.privacy, **privacy)})
    assert words in answers(other, trials=SOUND)[0]["What was attacked?"]


def test_one_run_in_words(record):
    (told,) = answers(record, one_run=ONCE)
    assert "1,000 canaries among the records of node 3" in told["What was attacked?"]
    assert "made 65 guesses how coins fell, of which 48 were right" in told["What was attacked?"]
    assert "survived: no more was found" in told["Does the guarantee hold?"]
    assert "And the claim?" not in told
    html = shown(record, one_run=ONCE)
    assert 'id="attacked-once"' in html
    assert 'id="tried"' not in html


def test_a_broken_guarantee_is_shouted(record):
    alarm = "THE GUARANTEE IS BROKEN: ε is at least 1.9 at δ = 0.01, where ε = 1.5 is guaranteed."
    html = shown(record, trials=BROKEN, one_run=ONCE)
    assert html.index(alarm) < html.index('aria-label="In brief"')
    assert '<section class="card warning" id="attacked">' in html
    assert '<section class="card" id="attacked-once">' in html
    assert answers(record, trials=BROKEN)[0]["Does the guarantee hold?"].startswith("No: ε is at least 1.9 at δ = 0.01")
    assert "at most 10% of audits" in html
    assert "survived" not in shown(record, trials=BROKEN)
    assert "BROKEN" not in shown(record, trials=SOUND, one_run=ONCE)


@pytest.mark.parametrize(
    ("claimed", "scope", "words"),
    [
        (2.0, "run", "claims ε = 2, and more was found: the claim is refuted."),
        (0.5, "round", "claims ε = 2 for 4 rounds together, and more was found: the claim is refuted."),
        (1.0, "round", "claims ε = 4 for 4 rounds together. No more was found: it is not refuted."),
    ],
)
def test_a_claim_is_refuted_by_more_than_it_allows(record, claimed, scope, words):
    found = replace(SOUND, claimed=claimed, claimed_for=scope)
    assert answers(record, trials=found)[0]["And the claim?"].endswith(words)
    assert series(found)["claimed"] == [(1e-4, claimed * (4 if scope == "round" else 1))]


def test_where_nothing_is_guaranteed_there_is_nothing_to_break(record):
    bare = replace(SOUND, guaranteed=None, profile=(), claimed=1.0)
    (told,) = answers(record, trials=bare)
    assert "nothing is guaranteed" in told["What was found?"]
    assert told["Does the guarantee hold?"] == "There is none to break."
    assert "refuted" in told["And the claim?"]
    assert 'id="tried"' not in shown(record, trials=bare)


def test_the_chart_has_what_was_guaranteed_found_and_claimed():
    assert series(SOUND) == {
        "guaranteed": [(1e-4, 3.0001), (0.01, 1.5), (0.1, 0.75)],
        "found, at least": [(1e-4, 2.5196), (0.01, 1.25), (0.1, 0.5)],
        "claimed": [(1e-4, 2.75)],
    }
    assert series(BROKEN)["broken"] == [(0.01, 1.9)]
    twice = replace(SOUND, profile=(*BROKEN.profile, *SOUND.profile))  # of two attacks at a δ, the one that found more
    assert series(twice) == series(BROKEN)
    assert chart(SOUND)["layout"]["xaxis"]["type"] == "log"
    assert chart(SOUND)["layout"]["showlegend"]


def test_a_claim_that_would_flatten_the_chart_is_left_to_the_words(record):
    loud = replace(SOUND, claimed=500.0)
    assert "claimed" not in series(loud)
    assert "claims ε = 500." in answers(record, trials=loud)[0]["And the claim?"]


def test_several_runs_are_compared_without_their_audits(record):
    audited = replace(record, findings=Findings(BROKEN, ONCE))
    assert page([audited, record]) == page([record, record])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[1]", "holds no table"),
        ('{"trials": {"lower": 1.0}}', r"trials\.algorithm is missing: take the file away, and audit again"),
        (
            json.dumps({"trials": SOUND.as_dict() | {"lower": "high"}}),
            r"trials\.lower = 'high' should be a valid number",
        ),
        (json.dumps({"one_run": SOUND.as_dict()}), r"one_run\.node is missing"),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(folder, text, words):
    (folder / AUDIT).write_text(text)
    with pytest.raises(TacitError, match=rf"{AUDIT}.*{words}"):
        Record.read(folder)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_in_a_browser(visit, folder, scheme):
    Findings(BROKEN, ONCE).write(folder)
    path = write_page([folder], folder / "report.html")
    wide = visit(path, scheme=scheme)
    assert wide.locator("#tried .cartesianlayer .js-line").count() == 2  # guaranteed and found
    assert wide.locator("#tried .cartesianlayer .points path").count() == 3 + 1 + 1  # found, claimed, broken
    assert wide.evaluate(UNKNOWN) == []
    phone = visit(path, width=390, scheme=scheme)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.locator("#tried").evaluate("chart => chart.scrollWidth") <= 390
    assert "BROKEN" in phone.locator("main > .warning").first.inner_text()
