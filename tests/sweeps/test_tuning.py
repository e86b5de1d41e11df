"""Tuning on public, synthetic or charged records, which the result states."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.errors import TacitError
from tacit.runs import Config
from tacit.sweeps import synthetic_records, tune
from tacit.tasks import Dataset, Target
from tests.sweeps.cases import SMALL

GRID = ["lr=0.05,0.5"]


def test_synthetic_records_depend_on_public_facts_only():
    one, other = (torch.rand(40, 3, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    y = torch.arange(40) % 2
    made = [synthetic_records(Dataset("a", x, y, x[:9], y[:9], Target.of_classes(2))) for x in (one, other)]
    assert torch.equal(made[0].x, made[1].x)
    assert torch.equal(made[0].y, made[1].y)
    assert (made[0].inputs, len(made[0].y), made[0].classes) == ((3,), 40, 2)


@pytest.mark.parametrize(
    "target",
    [Target("number", range=(0.0, 60.0)), Target("count", range=(2.0, 20.0)), Target("labels", ("a", "b", "c"))],
    ids=lambda target: target.kind,
)
def test_synthetic_records_have_targets_of_the_same_kind(target):
    values = torch.ones(40, 3) if target.kind == "labels" else target.encode(torch.full((40,), 5.0))
    x = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    made = synthetic_records(Dataset("a", x, values, x[:9], values[:9], target))
    assert (made.target, len(made.y), made.inputs) == (target, 40, (4,))
    assert len(made.y.unique()) > 1
    assert 0.3 < float(made.x.mean()) < 0.7
    # The records say something about the targets.
    y = (made.y if target.kind == "labels" else made.y[:, None]) - made.y.mean(0)
    assert float((made.x - made.x.mean(0)).T.matmul(y).abs().max()) / 40 > 0.03 * float(y.std())


def test_numbers_are_tuned_on_synthetic_records(tmp_path):
    x = np.random.default_rng(0).random((200, 4)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=30 * x[:, 0], x_test=x[:20], y_test=30 * x[:20, 0])
    own = {**SMALL, "data": {"name": "npz", "path": str(tmp_path / "own.npz"), "target": [0, 60]}}
    found = tune(Config.parse(own), GRID, out=tmp_path / "out", synthetic=True)
    assert found.found.metric.name == "rmse"
    y = np.load(tmp_path / "out" / "synthetic.npz")["y"]
    assert (y >= 0).all()
    assert 30 < y.max() <= 60


@pytest.mark.parametrize("way", ["synthetic", "charge"])
def test_the_result_states_which_records_were_used(tmp_path, way):
    found = tune(Config.parse(SMALL), GRID, out=tmp_path, **{way: True})
    best, saved = Config.load(tmp_path / "best.toml"), json.loads((tmp_path / "tuning.json").read_text())
    assert best.data.name == "digits"  # the best config is for the records of the config
    assert best.algorithm.parameters["lr"] == found.found.rows[0].point["lr"]
    assert saved["records_used"] is (way == "charge")
    if way == "synthetic":
        assert "No record of the config was used, so the tuning costs no ε" in saved["tuning"]
        assert best.privacy.epsilon == 3.0
        assert np.load(tmp_path / "synthetic.npz")["x"].shape == (1437, 1, 8, 8)
    else:
        assert "covers all 2 runs" in saved["tuning"]
        assert best.privacy.epsilon < 3.0


def test_public_records_are_trained_on(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("own", "public"):
        x = rng.random((200, 4)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", x=x, y=np.arange(200) % 2, x_test=x[:20], y_test=np.arange(20) % 2)
    own = {**SMALL, "data": {"name": "npz", "path": str(tmp_path / "own.npz"), "labels": [0, 1]}}
    found = tune(Config.parse(own), GRID, out=tmp_path / "out", public=str(tmp_path / "public.npz"))
    assert found.tuned_on == "public"
    assert (
        "which was declared public, in 2 runs. If it has no record of the config's data, the tuning" in found.sentence
    )
    assert found.found.best.data.parameters["path"].endswith("public.npz")
    assert Config.load(tmp_path / "out" / "best.toml").data.parameters["path"].endswith("own.npz")


@pytest.mark.parametrize("copied", [shutil.copy, os.link, os.symlink])
def test_the_private_records_are_not_public_under_another_name(tmp_path, copied):
    x = np.random.default_rng(0).random((200, 4)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(200) % 2, x_test=x[:20], y_test=np.arange(20) % 2)
    copied(tmp_path / "own.npz", tmp_path / "other.npz")
    own = {**SMALL, "data": {"name": "npz", "path": str(tmp_path / "own.npz"), "labels": [0, 1]}}
    with pytest.raises(TacitError, match="is the file of the private records, or a copy of it"):
        tune(Config.parse(own), GRID, out=tmp_path / "out", public=str(tmp_path / "other.npz"))


def test_synthetic_records_need_declared_classes(tmp_path):
    x = np.random.default_rng(0).random((200, 4)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=np.arange(200) % 2, x_test=x[:20], y_test=np.arange(20) % 2)
    own = {**SMALL, "data": {"name": "npz", "path": str(tmp_path / "own.npz")}}
    with pytest.raises(TacitError, match="the classes were learnt from the records"):
        tune(Config.parse(own), GRID, out=tmp_path / "out", synthetic=True)


def test_the_records_must_be_chosen(tacit):
    ended = tacit("tune", "--set", "rounds=2")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: set what to tune on: a public data set or file, synthetic records")
    with pytest.raises(TacitError, match="set what to tune on"):
        tune(Config(), out=Path("x"), synthetic=True, charge=True)
    assert not Path("x").exists()


def test_the_command_prints_the_table_and_the_cost(tacit):
    common = ("tune", "--synthetic", "--trials", "2", "--set", "rounds=2", "--workers", "1")
    lines = tacit(*common).out.splitlines()
    assert lines[-2] == (
        "Tuned on synthetic records of the same shape and number, in 2 runs. No record of the config was used, so the "
        "tuning costs no ε."
    )
    assert lines[-1] == "Results: runs/tune. Best config: runs/tune/best.toml"
    assert json.loads(tacit(*common, "--json").out)["tuned_on"] == "synthetic"
