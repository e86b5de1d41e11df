"""The example of a hospital: from a messy table to predictions, as docs/tables.md describes it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest

import tacit as package

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The table of the example: 20,000 patients."""
    path = tmp_path_factory.mktemp("hospital") / "patients.csv"
    script = [sys.executable, str(EXAMPLES / "hospital.py"), str(path)]
    subprocess.run(script, check=True, capture_output=True)
    return path


@pytest.fixture
def hospital(table, tmp_path, monkeypatch):
    """A folder with the table and both configs."""
    monkeypatch.chdir(tmp_path)
    for path in (table, EXAMPLES / "hospital.toml", EXAMPLES / "hospital-stay.toml"):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_the_table_is_messy(table):
    frame = pd.read_csv(table, dtype=str, keep_default_na=False)
    assert len(frame) == 20_000
    assert 0.10 < (frame["readmitted"] == "yes").mean() < 0.14
    assert (frame["crp"] == "").mean() > 0.1
    assert pd.to_numeric(frame["age"], errors="coerce").isna().any()
    assert frame["patient_id"].is_unique


def test_inspect_drafts_the_declaration_without_records(hospital, tacit):
    drafted = tacit("inspect", "patients.csv", "--label", "readmitted")
    assert (drafted.code, drafted.err) == (0, "")
    assert 'patient_id = "drop"  # the name suggests an identifier' in drafted.out
    assert "cardiology" not in drafted.out
    from_records = tacit("inspect", "patients.csv", "--label", "readmitted", "--from-records")
    assert "warning:" in from_records.err
    assert "cardiology" in from_records.out


def test_from_the_table_to_predictions(hospital, tacit):
    ended = tacit("train", "hospital.toml", "--out", "run", "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["nodes"] == 5
    assert result["privacy"]["guaranteed"] <= 3.0
    assert result["metrics"]["roc_auc"] > 0.75 > result["trivial"]["roc_auc"] == 0.5
    page = Path("run/report.html").read_text()
    assert "Area under the ROC curve" in page
    assert "Trivial predictor" in page
    assert "Confusion matrix" in page

    new = pd.read_csv("patients.csv", dtype=str, keep_default_na=False).head(500).drop(columns="readmitted")
    new.to_csv("new.csv", index=False)
    predicted = tacit("predict", "run", "new.csv", "--proba", "--out", "predictions.csv")
    assert predicted.code == 0, predicted.err
    from_command = pd.read_csv("predictions.csv")["probability_yes"].to_numpy()
    run = package.load("run")
    from_python = run.predict_proba(new)[:, 1]
    assert tacit("export", "run", "--format", "onnx", "--out", "model.onnx").code == 0
    session = onnxruntime.InferenceSession(Path("model.onnx").read_bytes())
    from_onnx = session.run(None, {"features": run.prepare(new).numpy()})[0][:, 1]
    np.testing.assert_allclose(from_command, from_python, atol=1e-5)
    np.testing.assert_allclose(from_onnx, from_python, atol=1e-5)
    assert from_python.std() > 0.02  # the predictions differ between patients


def test_length_of_stay_is_clearly_better_than_the_middle_of_the_range(hospital, tacit):
    ended = tacit("train", "hospital-stay.toml", "--out", "run", "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["privacy"]["guaranteed"] <= 3.0
    assert result["metrics"]["rmse"] < 0.4 * result["trivial"]["rmse"]
    assert result["metrics"]["r2"] > 0.3
    assert "accuracy" not in result["metrics"]
