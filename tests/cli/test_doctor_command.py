"""`tacit doctor`."""

import json
import platform

import tacit as package
from tacit.cli.doctor import _extras
from tacit.tasks import datasets
from tacit.tasks.data import published_files


def test_doctor_shows_versions_data_extras_and_the_records_ledger(tacit, monkeypatch, tmp_path):
    folder = tmp_path / "data"
    (folder / "libsvm").mkdir(parents=True)
    (folder / "libsvm" / "mushrooms").write_text("1 1:1\n")
    monkeypatch.setenv("TACIT_DATA", str(folder))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path / "cache"))
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    facts = json.loads(tacit("doctor", "--json").out)
    assert (facts["tacit"], facts["python"]) == (package.__version__, platform.python_version())
    assert {"torch", "numpy"} <= set(facts["libraries"])
    assert facts["data"]["folders"] == [str(folder), str(tmp_path / "cache")]
    assert [name for name, found in facts["data"]["found"].items() if found] == ["mushrooms"]
    assert facts["records_ledger"] == {"path": str(tmp_path / "state/records.sqlite"), "exists": False}
    text = tacit("doctor").out
    assert f"Tacit {package.__version__}, Python {platform.python_version()}" in text
    assert "  mushrooms: found\n" in text
    assert "  mnist: not found\n" in text
    assert not (tmp_path / "state").exists()  # the command creates nothing


def test_doctor_shows_a_wrong_data_folder(tacit, monkeypatch):
    monkeypatch.setenv("TACIT_DATA", "nowhere")
    ended = tacit("doctor")
    assert (ended.code, ended.err) == (0, "")
    assert "Data: TACIT_DATA is nowhere, which is not a folder" in ended.out


def test_extras_name_the_packages_that_are_missing(monkeypatch, tacit):
    needed = ['no-such-package>=1; extra == "sites"', 'numpy; extra == "data"', "torch>=2", 'ruff; extra == "dev"']
    monkeypatch.setattr("tacit.cli.doctor.requires", lambda _: needed)
    assert _extras() == {"sites": ["no-such-package"], "data": []}
    assert '  sites: missing no-such-package: pip install "tacit[sites]"\n' in tacit("doctor").out


def test_every_data_set_with_files_is_known():
    own_files = {"csv", "npz", "parquet"}
    included = {"digits", "hospital", "synthetic-logistic"}
    assert {name.split()[0] for name in published_files()} == set(datasets) - own_files - included
