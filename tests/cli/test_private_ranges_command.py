"""The commands on a table with private ranges: workers, verification, predictions, accounting."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import tacit as package
from tacit.privacy import Ledger
from tests.cli.conftest import setting
from tests.cli.test_workers import run
from tests.runs.ranges_cases import patients

CONFIG = """
rounds = 5
[graph]
name = "ring"
nodes = 3
[batch]
size = 16
[privacy]
epsilon = 3.0
delta = 1e-3
[algorithm]
name = "dyn-d2p"
[data]
name = "csv"
path = "records.csv"
[data.columns]
age = {range = "private", within = [0, 1000]}
crp = {range = "private", within = [0, 10000], scale = "log", missing = "indicator"}
sex = {categories = ["F", "M"]}
outcome = {label = ["no", "yes"]}
"""


@pytest.fixture
def config(tacit):
    """A config and its table, in the folder of the test."""
    patients(900).to_csv("records.csv", index=False)
    Path("config.toml").write_text(CONFIG)
    return "config.toml"


def test_workers_find_the_same_ranges(tacit, config, tmp_path):
    code, out, errors = run(config, "--workers", "2", "--out", "run", folder=tmp_path)
    assert code == 0, errors
    several, one = json.loads(out), json.loads(tacit("train", config, "--out", "whole", "--json").out)
    for name in ("ranges", "privacy", "messages", "bytes"):
        assert several[name] == one[name]
    ledgers = [Ledger(Path(path, "ledger.sqlite")) for path in ("run", "run/rank-1", "whole")]
    assert [next(each.releases()).purpose for each in ledgers] == ["column histogram"] * 3
    models = [load_file(Path(path, "models.safetensors"))["models"] for path in ("run", "run/rank-1", "whole")]
    assert torch.allclose(torch.cat(models[:2]), models[2], rtol=0, atol=1e-6)
    for folder in ("run", "whole"):
        checked = tacit("verify", folder)
        assert (checked.code, "6 releases of 3 nodes" in checked.out) == (0, True), checked.out


def test_command_python_and_onnx_predict_with_the_released_ranges(tacit, config):
    ended = tacit("train", config, "--out", "run")
    assert ended.code == 0
    assert "Privately released ranges: age " in ended.out
    new = patients(60, seed=1).drop(columns="outcome")
    new.to_csv("new.csv", index=False)
    assert tacit("predict", "run", "new.csv", "--out", "predictions.csv", "--proba").code == 0
    trained = package.load("run")
    in_python = trained.predict_proba(new)
    found = pd.read_csv("predictions.csv").select_dtypes("number").to_numpy()
    assert np.allclose(found[:, -2:], in_python, atol=1e-6)
    assert tacit("export", "run", "--format", "onnx", "--out", "model.onnx").code == 0
    features = trained.prepare(new).numpy()
    session = onnxruntime.InferenceSession("model.onnx")
    assert np.allclose(session.run(None, {"features": features})[0], in_python, atol=1e-6)
    ranges = json.loads(Path("run/result.json").read_text())["ranges"]
    low, high = ranges["age"]
    age = pd.to_numeric(new["age"], errors="coerce")
    expected = np.clip((2 * age - low - high) / (high - low), -1, 1).fillna(0)
    assert np.allclose(features[:, 0], expected, atol=1e-6)


def test_account_counts_the_ranges(tacit, config):
    planned = json.loads(tacit("account", config, "--json").out)
    assert 2.94 < planned["privacy"]["guaranteed"] <= 3
    more = json.loads(tacit("account", config, "--json", *setting("privacy.ranges_epsilon=2")).out)
    assert more["noise_multiplier"] > 1.05 * planned["noise_multiplier"]
    ended = tacit("account", config, "--claimed", "2.5")
    assert "The claim ε = 2.5 does not hold" in ended.out
