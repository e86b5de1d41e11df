"""`tacit verify`, and the commands that verify a run before they use its numbers."""

import json
import shutil
import sqlite3

import pytest

from tests.cli.conftest import QUICK, setting

AUDIT = ("--trials", "40", "--rounds", "1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a finished run, which tests copy."""
    from tacit.reports import ReportPage
    from tacit.runs import Config, from_config

    folder = tmp_path_factory.mktemp("trained") / "run"
    config = Config.load(None, [part for part in QUICK if part != "--set"])
    return from_config(config, out=folder, observers=[ReportPage()]).go().out


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def edit_result(folder, **privacy):
    result = json.loads((folder / "result.json").read_text())
    result["privacy"] |= privacy
    (folder / "result.json").write_text(json.dumps(result))


def halve_ledger(folder):
    database = sqlite3.connect(folder / "ledger.sqlite")
    database.execute("DELETE FROM release WHERE step >= 3")
    database.commit()
    database.close()


EDITS = {
    "an edited result": lambda folder: edit_result(folder, guaranteed=0.1),
    "half a ledger": halve_ledger,
    "an edited config": lambda folder: (folder / "config.toml").write_text(
        (folder / "config.toml").read_text().replace("seed = 0", "seed = 1", 1)
    ),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("command", [("report",), ("audit", *AUDIT)], ids=lambda command: command[0])
def test_report_and_audit_refuse(tacit, run, command, edit):
    EDITS[edit](run)
    before = (run / "report.html").read_bytes()
    ended = tacit(command[0], "run", *command[1:])
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: run does not agree with its ledger, so its numbers are not used:\n")
    assert (run / "report.html").read_bytes() == before
    assert not (run / "audit.json").exists()


def test_a_page_of_several_runs_refuses_an_edited_one(tacit, run, tmp_path):
    shutil.copytree(run, tmp_path / "edited")
    edit_result(tmp_path / "edited", guaranteed=0.1)
    ended = tacit("report", "run", "edited", "--out", "both.html")
    assert ended.code == 2
    assert "error: edited does not agree with its ledger" in ended.err
    assert not (tmp_path / "both.html").exists()


def test_compare_refuses_an_edited_run(tacit, tmp_path):
    command = ("compare", "dyn-d2p", "sgp", "--epsilon", "2", "--seeds", "1", "--jobs", "1", *QUICK)
    assert tacit(*command).code == 0
    edit_result(tmp_path / "runs/compare/dyn-d2p/seed-0", guaranteed=0.1)
    before = (tmp_path / "runs/compare/table.md").read_bytes()
    ended = tacit(*command)
    assert (ended.code, ended.out) == (2, "")
    assert "runs/compare/dyn-d2p/seed-0 does not agree with its ledger" in ended.err
    assert (tmp_path / "runs/compare/table.md").read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("seed = 0", "seed = 1", "seed is 0 in the ledger, got 1"),
        ("epsilon = 3.0", "epsilon = 9.0", "privacy.epsilon is 3 in the ledger, got 9"),
        ('[data]\nname = "digits"', '[data]\nname = "digits"\nlimit = 1000', "data.limit is not set in the ledger"),
        ("rounds = 6", "rounds = 9", "rounds is 6 in the ledger, got 9"),
    ],
)
def test_resume_refuses_a_changed_config_and_names_the_key(tacit, run, old, new, key):
    text = (run / "config.toml").read_text()
    assert old in text
    (run / "config.toml").write_text(text.replace(old, new, 1))
    ended = tacit("train", "--resume", "run")
    assert (ended.code, ended.out) == (2, "")
    assert key in ended.err


def test_config_of_a_default_run_has_every_parameter(tacit, tmp_path):
    assert tacit("train", *QUICK, *setting("algorithm=const-d2p")).code == 0
    import tomllib

    saved = tomllib.loads((tmp_path / "runs/example/config.toml").read_text())
    assert saved["algorithm"] == {"name": "const-d2p", "lr": 0.1, "clip": 1.0, "local": "private"}
    assert saved["data"] == {"name": "digits", "normalise": "none"}
    assert saved["graph"]["drop_links"] == 0
    assert saved["model"] == {"name": "logistic", "biases": True, "weight_decay": 0.0}
    page = (tmp_path / "runs/example/report.html").read_text()
    assert "<dt>algorithm.clip</dt><dd>1.0</dd>" in page
