"""`tacit audit` on the folder of a run: the result is stored in the folder and shown in the report."""

import json
from dataclasses import replace

import numpy as np
import pytest

import tacit.audit as tacit_audit
from tacit import train
from tacit.audit import ProfilePoint, audit
from tacit.reports import RunRecord
from tacit.runs import Config
from tacit.tasks import Dataset
from tests.cli.conftest import QUICK

SMALL = ("--trials", "400", "--rounds", "2")


@pytest.fixture
def run(tacit, tmp_path):
    assert tacit("train", *QUICK, "--out", "run").code == 0
    return tmp_path / "run"


def test_the_audit_of_a_run_is_added_to_its_folder_and_report(tacit, run):
    before = (run / "report.html").read_text()
    ended = tacit("audit", "run", *SMALL)
    assert ended.code == 0
    assert ended.out.endswith("Results: run. Report: run/report.html\n")
    stored = json.loads((run / "audit.json").read_text())
    assert list(stored) == ["trials"]
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


def test_both_kinds_of_audit_are_stored_together(tacit, run):
    assert tacit("audit", "run", *SMALL).code == 0
    ended = tacit("audit", "run", "--one-run", "--canaries", "100", "--json")
    assert ended.code == 0
    stored = json.loads((run / "audit.json").read_text())
    assert stored["one_run"] == json.loads(ended.out)
    assert stored["trials"]["trials"] == 400
    assert 'id="audit-one-run"' in (run / "report.html").read_text()


def test_a_broken_guarantee_is_stored_and_reported(tacit, run, monkeypatch):
    def attacked(config, **given):
        return replace(audit(config, **given), profile=(ProfilePoint(0.1, 9.0, 1.0),))

    monkeypatch.setattr(tacit_audit, "audit", attacked)
    ended = tacit("audit", "run", *SMALL)
    assert ended.code == 1
    assert "THE GUARANTEE IS BROKEN" in ended.out
    assert json.loads((run / "audit.json").read_text())["trials"]["holds"] is False
    assert "THE GUARANTEE IS BROKEN" in (run / "report.html").read_text()


def test_invalid_folders_and_options_are_refused_before_the_attack(tacit, run, tmp_path):
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


def test_a_run_with_a_python_object_cannot_be_audited_from_its_folder(tacit, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 4))
    train(
        data=Dataset.from_arrays(x, (x[:, 0] > 0).astype(int), labels=[0, 1]),
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
