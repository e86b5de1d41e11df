"""`tacit verify`, and the commands that verify a run before they use its numbers."""

import json
import shutil
import sqlite3
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

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
    assert saved["algorithm"] == {
        "name": "const-d2p",
        "lr": 0.1,
        "clip": 1.0,
        "clip_per": "record",
        "local": "private",
    }
    assert saved["data"] == {"name": "digits", "normalise": "none"}
    assert saved["graph"]["drop_links"] == 0
    assert saved["model"] == {"name": "logistic", "biases": True, "weight_decay": 0.0}
    page = (tmp_path / "runs/example/report.html").read_text()
    assert "<dt>algorithm.clip</dt><dd>1.0</dd>" in page


def test_verified_run_lists_what_was_checked(tacit, run):
    ended = tacit("verify", "run")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0] == "run: verified"
    assert lines[1].startswith("  guaranteed ε = 2.99")
    assert lines[-1].startswith("  Not signed: the files agree with each other")


def test_differences_are_listed_with_exit_code_1(tacit, run, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "good")
    edit_result(run, guaranteed=0.1)
    ended = tacit("verify", "good", "run")
    assert (ended.code, ended.err) == (1, "")
    assert "good: verified" in ended.out
    assert "run: NOT VERIFIED, differences: 2" in ended.out
    assert "  result.json: privacy: guaranteed is 0.1, but the ledger gives 2.99" in ended.out
    found = json.loads(tacit("verify", "good", "run", "--json").out)["runs"]
    assert [each["verified"] for each in found] == [True, False]
    assert found[1]["guaranteed"] == found[0]["guaranteed"]
    assert len(found[1]["differences"]) == 2


def test_what_is_not_a_run_is_refused(tacit, tmp_path):
    for folder in ("nowhere", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        ended = tacit("verify", folder)
        assert (ended.code, ended.out) == (2, "")
        assert f"{folder} is not a run folder" in ended.err


# Signatures


@pytest.fixture
def keys(tmp_path):
    """Two pairs of keys."""
    for name in ("mine", "other"):
        write_keys(tmp_path, name, Ed25519PrivateKey.generate())
    return tmp_path


def write_keys(folder, name, key):
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / f"{name}.pem").write_bytes(private)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(public)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")
def test_keys_of_openssl_are_accepted(tacit, run, tmp_path):
    for command in ("genpkey -algorithm ed25519 -out key.pem", "pkey -in key.pem -pubout -out public.pem"):
        subprocess.run(["openssl", *command.split()], cwd=tmp_path, check=True, capture_output=True)
    assert tacit("verify", "run", "--sign", "key.pem", "--public-key", "public.pem").code == 0


def test_signed_run_is_verified_with_the_public_key(tacit, run, keys):
    assert tacit("verify", "run", "--public-key", "mine.pub").code == 1
    ended = tacit("verify", "run", "--sign", "mine.pem")
    assert ended.code == 0
    assert ended.out.splitlines()[-1].startswith("  Signed with the key ")
    assert tacit("verify", "run", "--public-key", "mine.pub").code == 0
    ended = tacit("verify", "run", "--public-key", "other.pub")
    assert ended.code == 1
    assert "signature.json: signed with the key " in ended.out
    assert tacit("report", "run").code == 0
    assert "Valid, by the key " in (run / "report.html").read_text()


def test_signature_does_not_fit_a_changed_run(tacit, run, keys):
    assert tacit("verify", "run", "--sign", "mine.pem").code == 0
    database = sqlite3.connect(run / "ledger.sqlite")
    database.execute("UPDATE fact SET value = '\"2020-01-01T00:00:00+00:00\"' WHERE key = 'ended'")
    database.commit()
    database.close()
    ended = tacit("verify", "run")
    assert ended.code == 1
    assert "signature.json: the ledger was changed after it had been signed" in ended.out


@pytest.mark.parametrize("key", ["digest", "time", "public_key", "signature"])
@pytest.mark.parametrize("value", ["00", None, "zz"])
def test_edited_signature_is_not_valid(tacit, run, keys, key, value):
    assert tacit("verify", "run", "--sign", "mine.pem").code == 0
    table = json.loads((run / "signature.json").read_text())
    (run / "signature.json").write_text(json.dumps(table | {key: value}))
    ended = tacit("verify", "run", "--public-key", "mine.pub")
    assert ended.code == 1
    assert "signature.json: the signature is not valid" in ended.out


def test_run_with_differences_is_not_signed(tacit, run, keys):
    edit_result(run, guaranteed=0.1)
    assert tacit("verify", "run", "--sign", "mine.pem").code == 1
    assert not (run / "signature.json").exists()


def test_train_signs_and_resume_removes_the_signature(tacit, keys):
    assert tacit("train", *QUICK, "--out", "signed", "--sign", "mine.pem").code == 0
    assert tacit("verify", "signed", "--public-key", "mine.pub").code == 0
    assert tacit("train", "--resume", "signed").code == 0
    assert not (keys / "signed/signature.json").exists()


def test_unusable_keys_are_refused_before_the_run(tacit, keys):
    (keys / "text.pem").write_text("secret text that is not a key")
    write_keys(keys, "x", ec.generate_private_key(ec.SECP256R1()))
    for name in ("text.pem", "x.pem", "missing.pem", "mine.pub"):
        ended = tacit("train", *QUICK, "--out", "unsigned", "--sign", name)
        assert (ended.code, ended.out) == (2, "")
        assert name in ended.err
        assert "secret" not in ended.err
        assert not (keys / "unsigned").exists()
    ended = tacit("verify", "nowhere", "--public-key", "mine.pem")
    assert (ended.code, "mine.pem is not an Ed25519 public key" in ended.err) == (2, True)


def test_extend_adds_rounds(tacit, run):
    before = tacit("train", *QUICK, "--extend", "3")
    assert (before.code, "--extend continues a run: add --resume RUN" in before.err) == (2, True)
    ended = tacit("train", "--resume", "run", "--extend", "3", "--json")
    assert json.loads(ended.out)["stopped"].startswith("The privacy budget ε = 3")
    assert tacit("verify", "run").code == 0
