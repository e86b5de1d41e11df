"""`tacit audit` on the folder of a run: what it finds is kept there, and on the run's page."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tacit.audit as tacit_audit
from tacit import train
from tacit.audit import ProfilePoint, audit
from tacit.reports import RunRecord
from tacit.runs import Config
from tests.cli.conftest import QUICK

SMALL = ("--trials", "400", "--rounds", "2")


@pytest.fixture
def run(tacit, tmp_path):
    assert tacit("train", *QUICK, "--out", "run").code == 0
    return tmp_path / "run"


def test_a_run_is_attacked_and_its_page_tells(tacit, run):
    before = (run / "report.html").read_text()
    ended = tacit("audit", "run", *SMALL)
    assert ended.code == 0
    assert ended.out.endswith("Results: run. Report: run/report.html\n")
    kept = json.loads((run / "audit.json").read_text())
    assert list(kept) == ["trials"]
    expected = audit(Config.load(run / "config.toml"), trials=400, rounds=2)
    assert RunRecord.read(run).audits.trials == expected
    assert ended.out.startswith(expected.summary())
    after = (run / "report.html").read_text()
    assert ('id="audit"' in before, 'id="audit"' in after) == (False, True)
    (run / "report.html").unlink()
    assert tacit("report", "run").code == 0
    assert (run / "report.html").read_text() == after
    (run / "audit.json").unlink()
    assert tacit("report", "run").code == 0
    assert 'id="audit"' not in (run / "report.html").read_text()


def test_one_run_is_kept_beside_the_trials(tacit, run):
    assert tacit("audit", "run", *SMALL).code == 0
    ended = tacit("audit", "run", "--one-run", "--canaries", "100", "--json")
    assert ended.code == 0
    kept = json.loads((run / "audit.json").read_text())
    assert kept["one_run"] == json.loads(ended.out)
    assert kept["trials"]["trials"] == 400
    assert 'id="audit-one-run"' in (run / "report.html").read_text()


def test_a_broken_guarantee_is_kept_and_told(tacit, run, monkeypatch):
    def attacked(config, **given):
        return replace(audit(config, **given), profile=(ProfilePoint(0.1, 9.0, 1.0),))

    monkeypatch.setattr(tacit_audit, "audit", attacked)
    ended = tacit("audit", "run", *SMALL)
    assert ended.code == 1
    assert "THE GUARANTEE IS BROKEN" in ended.out
    assert json.loads((run / "audit.json").read_text())["trials"]["holds"] is False
    assert "THE GUARANTEE IS BROKEN" in (run / "report.html").read_text()


def test_what_cannot_be_attacked_is_refused_before_the_attack(tacit, run, tmp_path):
    (tmp_path / "empty").mkdir()
    damaged = run / "audit.json"
    cases = {
        ("empty",): "is not a run folder",
        ("run", "--set", "rounds=3"): "uses the run's own config: leave out --set",
    }
    for given, words in cases.items():
        ended = tacit("audit", *given)
        assert (ended.code, ended.out) == (2, "")
        assert words in ended.err
    damaged.write_text("{}}")
    ended = tacit("audit", "run", *SMALL)
    assert (ended.code, ended.out) == (2, "")
    assert "run/audit.json cannot be read" in ended.err
    assert damaged.read_text() == "{}}"


def test_a_part_handed_over_in_python_is_not_in_the_folder(tacit, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 4))
    train(
        data=(x, (x[:, 0] > 0).astype(int)),
        nodes=3,
        rounds=2,
        batch=4,
        epsilon=3.0,
        out=tmp_path / "own",
        progress=False,
    )
    ended = tacit("audit", "own")
    assert (ended.code, ended.out) == (2, "")
    assert "The data of this run was passed in Python" in ended.err
    assert not (tmp_path / "own/audit.json").exists()
